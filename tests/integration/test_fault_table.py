"""The fault table: every part that can misbehave, in every way it can, on every kind of turn.

Real resolvers, prompts and parsers; models, engine and tracer are scripted; time is virtual, so every
bound below is exact. In each cell the turn must give what it would give with the switch off, inside its
limit, leave nothing running, hand nothing to the loop's exception handler, and say why once.
"""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Any, Literal

import pytest
from fakes import FakeRetriever, resolver_that, resolves_to, run_in_virtual_time
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from ixchat.nodes.deps import Deps
from ixchat.nodes.knowledge_retriever import retrieve
from ixchat.nodes.record import Retrieval
from ixchat.utils.query_intent import resolve_search_query
from ixchat.utils.query_keywords import build_keyword_query, resolve_reference
from ixchat.utils.resolution import Message, Turn
from ixinfra.errors import RetrievalError
from ixinfra.tracing_tree import RecordingTracer, SinkTracer

Fault = Literal[
    "hang",
    "429",
    "500",
    "refused",
    "TypeError",
    "garbage",
    "empty",
    "late",
    "ignores cancel",
    "raises in cancel",
]
FAULTS: list[Fault] = [
    "hang", "429", "500", "refused", "TypeError", "garbage", "empty", "late", "ignores cancel", "raises in cancel",
]  # fmt: skip

HISTORY = (
    Message("user", "Quels modules proposez-vous ?"),
    Message("assistant", "Nous proposons Badgeo, un module de badgeuse."),
)
FIRST = Turn("Quels modules proposez-vous ?", (), "Solvea", "solvea")
SHORT = Turn("Santé", HISTORY, "Solvea", "solvea")
LONG = Turn("Quelles enseignes l'ont déjà installée ?", HISTORY, "Solvea", "solvea")

SEARCH_S = 0.6
REPLY_S, CHECK_S, GRACE_S = 1.0, 2.0, 0.15


class FaultyModel(BaseChatModel):
    """A chat model with one fault; `late` answers well, after every deadline."""

    fault: str
    answer: str = "RESOLVE: Badgeo"
    asked: int = 0

    @property
    def _llm_type(self) -> str:
        return "faulty"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.asked += 1
        errors = {
            "429": RuntimeError("rate limited: contact@example.com"),
            "500": RuntimeError("server error"),
            "refused": ConnectionRefusedError(),
            "TypeError": TypeError("'NoneType' object is not subscriptable"),
        }
        if self.fault in errors:
            await asyncio.sleep(0.05)
            raise errors[self.fault]
        if self.fault in ("hang", "late", "ignores cancel", "raises in cancel"):
            try:
                await asyncio.sleep(3600 if self.fault == "hang" else 5)
            except asyncio.CancelledError:
                if self.fault == "raises in cancel":
                    raise ValueError("clean-up failed") from None
                if self.fault != "ignores cancel":
                    raise
                await asyncio.sleep(5)
        texts = {"garbage": "```python\nx = 1\n```\n" + " " * 50, "empty": ""}
        text = texts.get(self.fault, self.answer)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


def run(turn: Turn, deps: Deps) -> tuple[Retrieval, list[str]]:
    """The retrieval, and the names of tasks still there five virtual seconds later."""

    async def main() -> tuple[Retrieval, list[str]]:
        reported: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
        retrieval = await retrieve(turn, deps)
        await asyncio.sleep(20)
        assert reported == []
        return retrieval, [t.get_name() for t in asyncio.all_tasks() if t is not asyncio.current_task()]

    return run_in_virtual_time(main())


def with_model(
    fault: Fault, mode: str, tracer: Any, **changes: Any
) -> tuple[Deps, FakeRetriever, FaultyModel]:
    model = FaultyModel(fault=fault)
    retriever = FakeRetriever(["raw"], rag_mode=mode, delay_s=SEARCH_S)  # type: ignore[arg-type]
    deps = Deps(
        retriever,
        text_resolver=partial(resolve_search_query, model=model, timeout_s=REPLY_S),
        keyword_resolver=partial(build_keyword_query, model=model, timeout_s=REPLY_S),
        reference_resolver=partial(resolve_reference, model=model, timeout_s=CHECK_S),
        tenant_id="solvea",
        tracer=tracer,
        short_reply_deadline_s=REPLY_S + 0.05,
        reference_deadline_s=CHECK_S + 0.05,
        **changes,
    )
    return deps, retriever, model


TURNS = {
    "first turn": (FIRST, "mix"),
    "naive": (SHORT, "naive"),
    "short": (SHORT, "mix"),
    "long": (LONG, "mix"),
}


@pytest.mark.parametrize("kind", TURNS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_model_costs_its_deadline_at_most(fault: Fault, kind: str) -> None:
    turn, mode = TURNS[kind]
    tracer = RecordingTracer()
    deps, retriever, model = with_model(fault, mode, tracer)
    retrieval, left = run(turn, deps)
    assert [d.page_content for d in retrieval.documents] == ["raw"]
    assert retriever.calls == [(turn.query, {})], "the visitor's own words, searched once"
    assert left == []
    slow = fault in ("hang", "late", "ignores cancel", "raises in cancel")
    if kind == "first turn":
        assert (model.asked, retrieval.total_ms) == (0, pytest.approx(SEARCH_S * 1000))
        return
    assert model.asked == 1, "no retry"
    if kind == "long":
        limit_s = CHECK_S + 0.1 if slow else SEARCH_S
    else:
        limit_s = SEARCH_S + (REPLY_S + 0.1 if slow else 0.05)
    assert retrieval.total_ms <= limit_s * 1000 + GRACE_S * 1000 + 1
    assert retrieval.resolution.decision in ("error", "raw")
    expected = {"garbage": "unparsable", "empty": "empty"}.get(fault, "timeout" if slow else "model_error")
    if (kind, fault) == ("naive", "garbage"):
        assert retrieval.resolution.fallback is not None
    else:
        assert retrieval.resolution.fallback == expected
    (recorded,) = tracer.turns
    (root,) = recorded.spans
    reasons = [span.output["fallback_reason"] for span in root.children if span.name.startswith("tool-query")]
    assert reasons == [retrieval.resolution.fallback], "one traced reason"
    assert "contact@example.com" not in repr(root), "an exception's text reached a span"


@pytest.mark.parametrize("fault", ["error", "ignores cancel", "raises in cancel", "empty"])
@pytest.mark.parametrize("verdict", ["keep", "resolve"])
def test_a_faulty_early_search(fault: str, verdict: str) -> None:
    scripts: list[Any] = [["raw"], ["resolved"]]
    if fault == "error":
        scripts[0] = RetrievalError("down", reason="unavailable")
    if fault == "empty":
        scripts[0] = []
    retriever = FakeRetriever(
        *scripts,
        delay_s=0.5,
        ignores_cancel_for_s=3.0 if fault == "ignores cancel" else 0.0,
        raises_in_cancel=fault == "raises in cancel",
    )
    answer = "RESOLVE: Badgeo" if verdict == "resolve" else "KEEP"
    model = FaultyModel(fault="none", answer=answer)
    deps = Deps(retriever, reference_resolver=partial(resolve_reference, model=model, timeout_s=CHECK_S))
    retrieval, left = run(LONG, deps)
    found = [d.page_content for d in retrieval.documents]
    if verdict == "resolve":
        assert found == ["resolved"]
        started = retrieval.searches[1].step.started_ms
        assert started <= 20, "the second search waited for the first one's clean-up"
    else:
        assert found == ([] if fault in ("error", "empty") else ["raw"])
        assert retrieval.outcome == (
            "failed" if fault == "error" else "nothing_found" if fault == "empty" else "found"
        )
    assert left == []


@pytest.mark.parametrize("error", [RetrievalError("down", reason="timeout"), OSError(), ValueError()])
def test_a_failing_second_search_is_followed_by_the_visitors_words(error: Exception) -> None:
    retriever = FakeRetriever(["x"], error, ["raw"], delay_s=0.5)
    deps = Deps(retriever, reference_resolver=resolver_that(resolves_to("Badgeo"), delay_s=0.1))
    retrieval, left = run(LONG, deps)
    assert [d.page_content for d in retrieval.documents] == ["raw"]
    assert (retrieval.resolution.fallback, left) == ("search_failed", [])


class BrokenSink:
    """A tracing sink of which every step raises."""

    def outer_trace_id(self, config: Any) -> str:
        raise RuntimeError("tracer")

    enter = start = end = leave = close = outer_trace_id  # type: ignore[assignment]


@pytest.mark.parametrize("kind", TURNS)
def test_a_broken_tracer_changes_nothing(kind: str) -> None:
    turn, mode = TURNS[kind]
    results = []
    for tracer in (SinkTracer([BrokenSink()]), RecordingTracer()):  # type: ignore[list-item]
        model = FaultyModel(fault="none", answer="KEEP")
        retriever = FakeRetriever(["raw"], rag_mode=mode, delay_s=SEARCH_S)  # type: ignore[arg-type]
        deps = Deps(retriever, reference_resolver=partial(resolve_reference, model=model), tracer=tracer)
        retrieval, left = run(turn, deps)
        assert left == []
        results.append((retrieval.record["documents"], retriever.calls, model.asked, retrieval.problems))
    assert results[0] == results[1]


@pytest.mark.parametrize("kind", TURNS)
def test_a_turn_cancelled_at_any_instant_is_cancelled_cleanly(kind: str) -> None:
    turn, mode = TURNS[kind]
    rng = random.Random(7)
    for _ in range(50):
        at_s = rng.uniform(0.0, 1.7)
        model = FaultyModel(fault="none", answer="RESOLVE: Badgeo\nSPECIFIC: a\nTHEME: b")
        retriever = FakeRetriever(["raw"], ["resolved"], rag_mode=mode, delay_s=2.0, cleanup_s=0.02)  # type: ignore[arg-type]
        check = partial(resolve_reference, model=model, timeout_s=CHECK_S)
        deps = Deps(retriever, reference_resolver=check, keyword_resolver=check, text_resolver=check)

        async def main(deps: Deps = deps, at_s: float = at_s) -> None:
            reported: list[Any] = []
            asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
            task = asyncio.create_task(retrieve(turn, deps))
            await asyncio.sleep(at_s)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert reported == []

        run_in_virtual_time(main())
