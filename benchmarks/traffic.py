"""The traffic that the load and soak benchmarks send: stub models, stub engine, the real node and graph."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import START, StateGraph

from ixchat.graph import build_retrieval_graph
from ixchat.nodes.deps import Deps
from ixchat.state import ChatContext, RetrievalInput, RetrievalOutput, RetrievalState
from ixchat.utils.resolution import KeywordQuery, Resolution, Turn
from ixinfra.config.settings import RagMode

Kind = Literal["first", "short", "keep", "resolve"]

# Shares of production traffic: half first turns, a seventh short replies, the rest longer follow-ups, of
# which about one in eleven resolves.
MIX: dict[Kind, float] = {"first": 0.52, "short": 0.14, "keep": 0.31, "resolve": 0.03}

HISTORY: list[AnyMessage] = [HumanMessage("Quels modules ?"), AIMessage("Nous proposons Badgeo.")]
MESSAGES: dict[Kind, list[AnyMessage]] = {
    "first": [HumanMessage("Quels modules proposez-vous ?")],
    "short": [*HISTORY, HumanMessage("Santé")],
    "keep": [*HISTORY, HumanMessage("Combien de bureaux avez-vous en France ?")],
    "resolve": [*HISTORY, HumanMessage("Quelles enseignes l'ont déjà installée ?")],
}


@dataclass(slots=True)
class StubEngine:
    """Searches in `search_s` seconds; every `failing`-th call raises."""

    search_s: float
    failing: float = 0.0
    rng: random.Random = field(default_factory=lambda: random.Random(1))

    @property
    def rag_mode(self) -> RagMode:
        return "mix"

    async def ainvoke(self, input: str, **_kwargs: Any) -> list[Document]:
        await asyncio.sleep(self.search_s)
        if self.rng.random() < self.failing:
            raise ConnectionError("down")
        return [Document(f"about {input}", metadata={"kind": "chunk"})]


def stub_deps(search_s: float, check_s: float, *, failing: float = 0.0) -> Deps:
    """Deps whose resolvers take `check_s` seconds; a share `failing` of searches and checks raises."""
    rng = random.Random(2)

    async def keywords(turn: Turn) -> Resolution:
        await asyncio.sleep(check_s)
        if rng.random() < failing:
            raise ConnectionError("down")
        return KeywordQuery(turn.query, "resolve", ll_keywords=(turn.query,), hl_keywords=("secteur",))

    async def reference(turn: Turn) -> Resolution:
        await asyncio.sleep(check_s)
        if rng.random() < failing:
            raise ConnectionError("down")
        if "l'ont" in turn.query:
            return Resolution(f"{turn.query} — Badgeo", "resolve")
        return Resolution(turn.query, "keep")

    return Deps(StubEngine(search_s, failing), keyword_resolver=keywords, reference_resolver=reference)


def ix_graph(deps: Deps) -> Any:
    """The product's retrieval graph."""
    return build_retrieval_graph(deps)


def pass_through_graph(search_s: float) -> Any:
    """The same graph around a node that searches and does nothing else."""
    engine = StubEngine(search_s)

    async def node(state: RetrievalInput) -> RetrievalOutput:
        return {"documents": await engine.ainvoke(str(state["messages"][-1].content))}

    graph = StateGraph(
        RetrievalState, ChatContext, input_schema=RetrievalInput, output_schema=RetrievalOutput
    )
    graph.add_node("retrieval_node", node)
    graph.add_edge(START, "retrieval_node")
    return graph.compile()


def draw(rng: random.Random) -> Kind:
    """One kind of turn, by its share of the traffic."""
    return rng.choices(list(MIX), list(MIX.values()))[0]


async def one_turn(graph: Any, kind: Kind) -> None:
    """Run one turn of that kind to its end."""
    await graph.ainvoke({"messages": MESSAGES[kind]}, context=ChatContext())
