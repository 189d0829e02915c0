"""What searching ahead of a model's verdict saves and wastes. Run: `python -m benchmarks.speculation [--turns N]`.

Every kind of turn runs through the product's retrieval graph over real LightRAG on the sample, beside a
pass-through node that only searches the same message, alternating in one process. The model is scripted: it
answers after `--check-ms`. The sample is searched in the process; `--search-ms` stands for what a server far away
or a keyword model adds to each search. Added time is the turn's less its pass-through's, quantile by quantile.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import START, StateGraph

from benchmarks.timing import percentile
from ixchat.graph import build_retrieval_graph, open_tenant
from ixchat.nodes.ahead import AheadBudget
from ixchat.nodes.deps import Deps
from ixchat.state import ChatContext, RetrievalInput, RetrievalOutput, RetrievalState
from ixchat.utils.query_keywords import resolve_reference
from ixinfra.config.loader import get_config
from ixinfra.config.settings import RagMode
from ixinfra.embeddings import build_embedder
from ixinfra.tracing import NO_TRACER
from ixrag.documents import Retriever

TENANT = "advanced"
HISTORY: list[AnyMessage] = [
    HumanMessage("Avez-vous un outil pour prévoir l'affluence ?"),
    AIMessage("Oui, **Affluvane** prévoit la fréquentation d'un magasin."),
]
MARKED = "Quelles enseignes l'ont déjà installée ?"  # the rules find its name
UNMARKED = "À partir de quelle taille est-ce rentable ?"  # the rules keep it
ALONE = "Combien de bureaux avez-vous en France ?"
NAMED = "RESOLVE: Affluvane"


class SlowModel(BaseChatModel):
    """A chat model that gives one answer, late."""

    answer: str
    delay_s: float

    @property
    def _llm_type(self) -> str:
        return "slow"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError("ix asks models asynchronously")

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        await asyncio.sleep(self.delay_s)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.answer))])


@dataclass(frozen=True, slots=True)
class FarEngine:
    """An engine with a way to it."""

    inner: Retriever
    way_s: float

    @property
    def rag_mode(self) -> RagMode:
        """The inner engine's."""
        return self.inner.rag_mode

    async def ainvoke(self, input: str, **kwargs: Any) -> Sequence[Document]:
        """Search after `way_s` seconds."""
        await asyncio.sleep(self.way_s)
        return await self.inner.ainvoke(input, **kwargs)


@dataclass(slots=True)
class Kind:
    """One kind of turn, and what was measured of it."""

    message: str
    verdict: str
    ahead: bool = True
    turn_ms: list[float] = field(default_factory=list)
    plain_ms: list[float] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)

    def added_ms(self, share: float) -> float:
        """Added milliseconds at a quantile."""
        return percentile(self.turn_ms, share) - percentile(self.plain_ms, share)

    def mean(self, fact: str) -> float:
        """Mean of a number of the decision record."""
        return sum(float(record[fact]) for record in self.records) / len(self.records)

    def searches(self) -> float:
        """Searches a turn."""
        return sum(len(record["searches"]) for record in self.records) / len(self.records)


def kinds() -> dict[str, Kind]:
    """What can come of a guess."""
    return {
        "KEEP, nothing guessed": Kind(ALONE, "KEEP"),
        "KEEP, a name guessed": Kind(MARKED, "KEEP"),
        "RESOLVE, foreseen": Kind(MARKED, NAMED),
        "RESOLVE, not foreseen": Kind(UNMARKED, NAMED),
        "RESOLVE, never searched ahead": Kind(MARKED, NAMED, ahead=False),
    }


async def measure(deps: Deps, turns: int, check_s: float) -> dict[str, Kind]:
    """Run every kind and its pass-through in turns."""
    plain = pass_through(deps.retriever)
    measured = kinds()
    graphs = {name: build_retrieval_graph(_deps_for(kind, deps, check_s)) for name, kind in measured.items()}
    for number in range(turns + 1):
        for name, kind in measured.items():
            messages = {"messages": [*HISTORY, HumanMessage(kind.message)]}
            plain_ms, _ = await _timed(plain, messages)
            turn_ms, state = await _timed(graphs[name], messages)
            if number:  # the first round warms up
                kind.plain_ms.append(plain_ms)
                kind.turn_ms.append(turn_ms)
                kind.records.append(state["retrieval"])
    return measured


def _deps_for(kind: Kind, deps: Deps, check_s: float) -> Deps:
    model = SlowModel(answer=kind.verdict, delay_s=check_s)
    return replace(
        deps,
        reference_resolver=partial(resolve_reference, model=model, timeout_s=10 * check_s),
        reference_deadline_s=10 * check_s,
        foresee=deps.local.reference if deps.local and kind.ahead else None,
        ahead=AheadBudget(1.0),
    )


def pass_through(retriever: Retriever) -> Any:
    """The graph around a node that searches and does nothing else."""

    async def node(state: RetrievalInput) -> RetrievalOutput:
        return {"documents": list(await retriever.ainvoke(str(state["messages"][-1].content)))}

    graph = StateGraph(
        RetrievalState, ChatContext, input_schema=RetrievalInput, output_schema=RetrievalOutput
    )
    graph.add_node("retrieval_node", node)
    graph.add_edge(START, "retrieval_node")
    return graph.compile()


async def _timed(graph: Any, state: dict[str, Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    done = await graph.ainvoke(state, context=ChatContext(TENANT))
    return (time.perf_counter() - started) * 1e3, done


async def run(turns: int, check_ms: float, ways_ms: Sequence[float]) -> None:
    """Measure and print each distance of the engine."""
    settings = get_config("development")
    tenant = await open_tenant(
        settings, TENANT, embedder=build_embedder(settings.embedding), tracer=NO_TRACER
    )
    try:
        for way_ms in ways_ms:
            deps = replace(tenant.deps, retriever=FarEngine(tenant.deps.retriever, way_ms / 1e3))
            _print(await measure(deps, turns, check_ms / 1e3), turns, check_ms, way_ms)
    finally:
        await tenant.close()


def _print(measured: dict[str, Kind], turns: int, check_ms: float, way_ms: float) -> None:
    plain = [ms for kind in measured.values() for ms in kind.plain_ms]
    print(
        f"\ncheck {check_ms:.0f} ms, search p50 {percentile(plain, 0.5):.0f} ms p99 {percentile(plain, 0.99):.0f} ms "
        f"(of which {way_ms:.0f} ms way); {turns} turns of each kind"
    )
    print(f"{'kind':30} {'added p50':>10} {'added p99':>10} {'saved':>8} {'wasted':>8} ms  {'searches':>8}")
    for name, kind in measured.items():
        print(
            f"{name:30} {kind.added_ms(0.5):10.1f} {kind.added_ms(0.99):10.1f} {kind.mean('saved_ms'):8.1f} "
            f"{kind.mean('wasted_ms'):8.1f}     {kind.searches():8.2f}"
        )


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=40, help="turns of each kind")
    parser.add_argument("--check-ms", type=float, default=400.0, help="time of the model's verdict")
    parser.add_argument(
        "--search-ms",
        type=float,
        nargs="*",
        default=[0.0, 600.0],
        help="added to each search; several are run",
    )
    arguments = parser.parse_args()
    asyncio.run(run(arguments.turns, arguments.check_ms, arguments.search_ms))


if __name__ == "__main__":
    main()
