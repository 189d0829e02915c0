from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fakes import run_in_virtual_time
from pydantic import ValidationError

from ixrag.query import (
    HeuristicQueryDecomposer,
    HyDEResult,
    InMemoryGlossary,
    NoopGlossaryExpander,
    NoopHyDE,
    NoopQueryDecomposer,
    NoopQueryRewriter,
    QueryContext,
    QueryUnderstandingPipeline,
    UnderstoodQuery,
)

CTX = QueryContext("acme")
QUERY = "what is RAG used for?"
Do = Callable[[], Awaitable[Any]]


class Part:
    """All four components in one: each does what it is told, and counts."""

    def __init__(self, do: Do) -> None:
        self.do = do
        self.calls = self.running = 0

    async def _run(self) -> Any:
        self.calls += 1
        self.running += 1
        try:
            return await self.do()
        finally:
            self.running -= 1

    async def rewrite(self, ctx: QueryContext, query_text: str, *, n: int = 3) -> Any:
        return await self._run()

    async def decompose(self, ctx: QueryContext, query_text: str) -> Any:
        return await self._run()

    async def expand(self, ctx: QueryContext, query_text: str) -> Any:
        return await self._run()

    async def generate(self, ctx: QueryContext, query_text: str) -> Any:
        return await self._run()


def returns(value: Any, delay_s: float = 0.0) -> Do:
    async def do() -> Any:
        await asyncio.sleep(delay_s)
        return value

    return do


def fails(error: BaseException) -> Do:
    async def do() -> Any:
        raise error

    return do


GOOD: dict[str, Any] = {
    "rewriter": ["RAG purpose"],
    "decomposer": ["what is RAG", "what is it used for"],
    "glossary": {"rag": ["retrieval augmented generation"]},
    "hyde": HyDEResult(["RAG is used for answers."], [0.6, 0.8], "table-1", 2, 1),
}
FIELDS = {
    "rewriter": ("rewrites", []),
    "decomposer": ("sub_queries", []),
    "glossary": ("expansion_terms", {}),
    "hyde": ("hyde_documents", []),
}


def pipeline(*, timeout_s: float | None = 3.0, **parts: Any) -> QueryUnderstandingPipeline:
    return QueryUnderstandingPipeline(**parts, timeout_s=timeout_s)


def good(**others: Any) -> dict[str, Any]:
    return {label: Part(returns(value)) for label, value in GOOD.items()} | others


async def test_everything_that_was_found_is_in_the_result() -> None:
    understood = await pipeline(**good()).understand(CTX, QUERY)

    assert understood.model_dump(exclude={"metadata"}) == {
        "original_text": QUERY,
        "rewrites": ["RAG purpose"],
        "sub_queries": ["what is RAG", "what is it used for"],
        "expansion_terms": {"rag": ["retrieval augmented generation"]},
        "hyde_documents": ["RAG is used for answers."],
        "hyde_vector": [0.6, 0.8],
    }
    elapsed_ms = understood.metadata.pop("elapsed_ms")
    assert 0 < elapsed_ms < 10_000
    assert understood.metadata == {
        "hyde_embed_model": "table-1",
        "hyde_cache_hits": 2,
        "hyde_cache_misses": 1,
    }


async def test_no_components_leave_the_query_alone() -> None:
    understood = await pipeline().understand(CTX, QUERY)

    assert understood.keyword_queries == [QUERY]
    assert (understood.rewrites, understood.sub_queries, understood.expansion_terms) == ([], [], {})
    assert (understood.hyde_documents, understood.hyde_vector) == ([], None)


async def test_noops_are_the_same_as_no_components() -> None:
    noops = pipeline(
        rewriter=NoopQueryRewriter(),
        decomposer=NoopQueryDecomposer(),
        glossary=NoopGlossaryExpander(),
        hyde=NoopHyDE(),
    )
    left, right = await noops.understand(CTX, QUERY), await pipeline().understand(CTX, QUERY)

    assert left.model_dump(exclude={"metadata"}) == right.model_dump(exclude={"metadata"})


@pytest.mark.parametrize("label", FIELDS)
async def test_a_component_that_raises_costs_only_its_own_field(
    label: str, caplog: pytest.LogCaptureFixture
) -> None:
    parts = good(**{label: Part(fails(ValueError(f"cannot read {QUERY}")))})
    understood = await pipeline(**parts).understand(CTX, QUERY)

    assert understood.metadata["partial_failures"] == [label]
    for other, (name, identity) in FIELDS.items():
        assert (getattr(understood, name) == identity) is (other == label)
    assert f"query.understand.component_failed: {label}: ValueError" in caplog.text
    assert "RAG" not in caplog.text


async def test_failures_are_sorted() -> None:
    parts = {label: Part(fails(OSError())) for label in FIELDS}

    assert (await pipeline(**parts).understand(CTX, QUERY)).metadata["partial_failures"] == sorted(FIELDS)


@pytest.mark.parametrize("label", FIELDS)
@pytest.mark.parametrize("wrong", [None, "text", 7, object()], ids=str)
async def test_a_wrong_type_is_a_failure(label: str, wrong: object) -> None:
    understood = await pipeline(**{label: Part(returns(wrong))}).understand(CTX, QUERY)

    assert understood.metadata["partial_failures"] == [label]


async def test_a_component_that_is_not_async_is_a_failure() -> None:
    class Sync:
        def rewrite(self, ctx: QueryContext, query_text: str, *, n: int = 3) -> Any:
            return ["x"]

    understood = await pipeline(rewriter=Sync()).understand(CTX, QUERY)

    assert understood.metadata["partial_failures"] == ["rewriter"]


async def test_a_component_that_cancels_itself_is_a_failure() -> None:
    parts = good(hyde=Part(fails(asyncio.CancelledError())))
    understood = await pipeline(**parts).understand(CTX, QUERY)

    assert understood.metadata["partial_failures"] == ["hyde"]
    assert understood.rewrites == ["RAG purpose"]


@pytest.mark.parametrize("vector", [[float("nan"), 1.0], [0.0, 0.0], [float("inf")], []])
async def test_a_vector_without_direction_is_none(vector: list[float]) -> None:
    hyde = Part(returns(HyDEResult(["a passage"], vector)))

    assert (await pipeline(hyde=hyde).understand(CTX, QUERY)).hyde_vector is None


def test_components_run_side_by_side() -> None:
    parts = {label: Part(returns(value, delay_s=1.0)) for label, value in GOOD.items()}

    async def timed() -> float:
        await pipeline(**parts).understand(CTX, QUERY)
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(timed()) == pytest.approx(1.0)


def test_a_late_component_costs_the_deadline_and_its_own_field() -> None:
    late = Part(returns(["too late"], delay_s=60))

    async def timed() -> tuple[UnderstoodQuery, float]:
        understood = await pipeline(**good(rewriter=late), timeout_s=2.0).understand(CTX, QUERY)
        return understood, asyncio.get_running_loop().time()

    understood, elapsed_s = run_in_virtual_time(timed())
    assert elapsed_s == pytest.approx(2.0)
    assert understood.metadata["partial_failures"] == ["rewriter"]
    assert understood.expansion_terms == GOOD["glossary"]
    assert late.running == 0


@pytest.mark.parametrize("answers_after_s", [0.01, 60])
def test_an_answer_after_the_deadline_is_not_used(answers_after_s: float) -> None:
    async def ignores_cancellation() -> Any:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(answers_after_s)
        return ["too late"]

    async def timed() -> tuple[UnderstoodQuery, float]:
        parts = good(rewriter=Part(ignores_cancellation))
        understood = await pipeline(**parts, timeout_s=2.0).understand(CTX, QUERY)
        return understood, asyncio.get_running_loop().time()

    understood, elapsed_s = run_in_virtual_time(timed())
    assert elapsed_s <= 2.06
    assert understood.rewrites == []
    assert understood.metadata["partial_failures"] == ["rewriter"]


def test_a_loser_that_fails_while_cancelled_makes_no_noise(caplog: pytest.LogCaptureFixture) -> None:
    async def breaks_when_cancelled() -> Any:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise RuntimeError("clean-up failed") from None

    run_in_virtual_time(pipeline(hyde=Part(breaks_when_cancelled), timeout_s=1.0).understand(CTX, QUERY))
    gc.collect()

    assert "never retrieved" not in caplog.text


def test_without_a_deadline_it_waits() -> None:
    slow = Part(returns(["late but used"], delay_s=900))

    assert run_in_virtual_time(pipeline(rewriter=slow, timeout_s=None).understand(CTX, QUERY)).rewrites


async def test_cancellation_passes_and_leaves_nothing_running() -> None:
    parts = {label: Part(returns(value, delay_s=3600)) for label, value in GOOD.items()}
    task = asyncio.create_task(pipeline(**parts).understand(CTX, QUERY))
    await asyncio.sleep(0.01)
    assert [part.running for part in parts.values()] == [1, 1, 1, 1]
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert [part.running for part in parts.values()] == [0, 0, 0, 0]
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("exit_", [KeyboardInterrupt, SystemExit])
def test_an_exit_passes(exit_: type[BaseException]) -> None:
    with pytest.raises(exit_):
        asyncio.run(pipeline(**good(hyde=Part(fails(exit_())))).understand(CTX, QUERY))


@pytest.mark.parametrize("query", ["", " \n", "\u2003"])
async def test_a_blank_query_asks_nobody(query: str) -> None:
    parts = good()
    understood = await pipeline(**parts).understand(CTX, query)

    assert understood.original_text == query
    assert [part.calls for part in parts.values()] == [0, 0, 0, 0]


async def test_another_order_of_work_is_a_subclass() -> None:
    order: list[str] = []

    class OneByOne(QueryUnderstandingPipeline):
        async def _run_all(self, calls: Any) -> dict[str, Any]:
            outcomes = {}
            for label, call in calls.items():
                order.append(label)
                outcomes[label] = await call()
            return outcomes

    understood = await OneByOne(**good()).understand(CTX, QUERY)

    assert understood.rewrites == ["RAG purpose"]
    assert order == ["rewriter", "decomposer", "glossary", "hyde"]


@pytest.mark.parametrize("wrong", [{"rewrite_n": -1}, {"timeout_s": 0}, {"timeout_s": float("nan")}])
def test_a_wrong_limit_is_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        QueryUnderstandingPipeline(**wrong)


def test_the_result_is_frozen_and_strict() -> None:
    understood = UnderstoodQuery(original_text=QUERY)

    with pytest.raises(ValidationError):
        understood.rewrites = ["x"]  # type: ignore[misc]
    with pytest.raises(ValidationError):
        UnderstoodQuery(original_text=QUERY, rewrite=[])  # type: ignore[call-arg]
    with pytest.raises(ValidationError):
        UnderstoodQuery(original_text=7)  # type: ignore[arg-type]


def test_keyword_queries_start_with_the_query_and_differ() -> None:
    understood = UnderstoodQuery(original_text=" RAG ", rewrites=["rag", "retrieval", "RETRIEVAL", "use"])

    assert understood.keyword_queries == [" RAG ", "retrieval", "use"]


def test_a_lone_surrogate_survives_in_python_and_is_replaced_in_json() -> None:
    understood = UnderstoodQuery(original_text="a\ud800b")

    assert understood.original_text == "a\ud800b"
    assert "a\ufffdb" in understood.model_dump_json()


async def test_the_parts_without_a_model_work_together() -> None:
    wired = pipeline(
        decomposer=HeuristicQueryDecomposer(),
        glossary=InMemoryGlossary({"rag": ["retrieval augmented generation"]}),
    )
    understood = await wired.understand(CTX, "What is RAG used for and how does it find passages?")

    assert understood.sub_queries == ["What is RAG used for", "how does it find passages?"]
    assert understood.expansion_terms == {"rag": ["retrieval augmented generation"]}
