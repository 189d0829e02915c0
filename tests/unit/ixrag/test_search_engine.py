from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from fakes import HashEmbedder, ScriptedModel, run_in_virtual_time
from langchain_core.documents import Document
from search_fakes import FakeIndex, engine, fake_hit, hash_encoders

from ixinfra.errors import RetrievalError
from ixinfra.tracing_tree import RecordingTracer
from ixrag.documents import search_report
from ixrag.query import (
    HeuristicQueryDecomposer,
    HyDE,
    HyDEResult,
    InMemoryGlossary,
    LLMQueryRewriter,
    MemoryCache,
    QueryContext,
    QueryUnderstandingPipeline,
    RedisCache,
)
from ixrag.query.cache import CacheKey
from ixrag.query.decomposer import QueryDecomposer
from ixrag.query.near import NearQueries
from ixrag.search.engine import HybridRetriever, Limits
from ixrag.search.fan_out import Deadline
from ixrag.search.index import Channel
from ixrag.search.quota import Quota
from ixrag.search.rerank import Candidate, ScoreMix
from ixrag.search.telemetry import SearchRecord

FOUND: dict[Channel, Any] = {"dense": ["a", "b", "c"], "sparse": ["b", "a", "d"], "bm25": ["b", "e"]}


def ids(documents: Sequence[Document]) -> list[str | None]:
    return [document.id for document in documents]


def search(
    retriever: HybridRetriever, query: str = "shift planning", **kwargs: Any
) -> tuple[list[str | None], dict[str, Any]]:
    async def run() -> tuple[list[str | None], dict[str, Any]]:
        with search_report() as report:
            return ids(await retriever.ainvoke(query, **kwargs)), report.facts

    return run_in_virtual_time(run())


def states(facts: dict[str, Any]) -> dict[str, str]:
    return {probe["channel"]: probe["state"] for probe in facts["probes"] if probe["source"] == "query"}


def test_the_lists_are_fused_by_reciprocal_rank() -> None:
    # With k = 10: b = 1/12+1/11+1/11 = .265, a = 1/11+1/12 = .174, e = 1/12, then c and d = 1/13.
    found, facts = search(engine(FakeIndex(FOUND)))
    assert found == ["b", "a", "e", "c", "d"]
    assert states(facts) == {"dense": "found", "sparse": "found", "bm25": "found"}
    assert facts["index_calls"] == 3


def test_documents_carry_rank_tenant_and_kind() -> None:
    documents = run_in_virtual_time(engine(FakeIndex(FOUND)).ainvoke("q"))
    assert [d.metadata["rank"] for d in documents] == [1, 2, 3, 4, 5]
    assert {(d.metadata["tenant"], d.metadata["kind"]) for d in documents} == {("acme", "chunk")}


@pytest.mark.parametrize("broken", ["dense", "sparse", "bm25"])
@pytest.mark.parametrize(
    ("fault", "state"),
    [
        pytest.param(RetrievalError("away", reason="unavailable"), "failed", id="down"),
        pytest.param(RuntimeError("bug"), "failed", id="bug"),
        pytest.param([], "empty", id="empty"),
        pytest.param("garbage", "garbage", id="a string"),
        pytest.param(None, "garbage", id="none"),
        pytest.param(({"id": 1},), "garbage", id="foreign hits"),
        pytest.param((fake_hit("x"), fake_hit("x")), "garbage", id="the same passage twice"),
        pytest.param((fake_hit("x", float("nan")),), "garbage", id="not a number"),
    ],
)
def test_one_broken_index_is_recorded_and_left_out(broken: Channel, fault: Any, state: str) -> None:
    found, facts = search(engine(FakeIndex({**FOUND, broken: fault})))
    assert states(facts)[broken] == state
    expected, _ = search(engine(FakeIndex({**FOUND, broken: []})))
    assert found == expected
    assert found


@pytest.mark.parametrize("slow", ["dense", "sparse", "bm25"])
@pytest.mark.parametrize("deaf", [False, True])
def test_a_slow_index_is_not_waited_for(slow: Channel, deaf: bool) -> None:
    async def run() -> tuple[float, dict[str, Any]]:
        loop = asyncio.get_running_loop()
        with search_report() as report:
            await engine(FakeIndex(FOUND, delays_s={slow: 5.0}, deaf={slow} if deaf else ())).ainvoke("q")
        return loop.time(), report.facts

    took_s, facts = run_in_virtual_time(run())
    assert states(facts)[slow] == "late"
    assert took_s < 0.25


def test_deadline_zero_takes_the_first_answer() -> None:
    index = FakeIndex(FOUND, delays_s={"dense": 0.3, "sparse": 0.2, "bm25": 0.1})
    found, facts = search(engine(index, limits=Limits(deadline=Deadline(0.0, 2.0))))
    assert found == ["b", "e"]
    assert states(facts) == {"dense": "late", "bm25": "found", "sparse": "late"}


def test_the_query_is_waited_for_while_nothing_was_found() -> None:
    found, facts = search(engine(FakeIndex(FOUND, delays_s=dict.fromkeys(FOUND, 1.0))))
    assert found
    assert "found" in states(facts).values()


def test_no_index_in_time_is_a_timeout() -> None:
    with pytest.raises(RetrievalError) as caught:
        search(engine(FakeIndex(FOUND, delays_s=dict.fromkeys(FOUND, 60.0))))
    assert caught.value.reason == "timeout"


def test_all_indexes_down_is_an_error_and_all_empty_is_none() -> None:
    down = RetrievalError("away", reason="unavailable")
    with pytest.raises(RetrievalError) as caught:
        search(engine(FakeIndex(dict.fromkeys(FOUND, down))))
    assert caught.value.reason == "unavailable"
    found, facts = search(engine(FakeIndex({"dense": [], "sparse": down, "bm25": []})))
    assert (found, facts["reason"]) == ([], "nothing_found")


def test_nothing_runs_on_after_a_cancelled_search() -> None:
    index = FakeIndex(FOUND, delays_s=dict.fromkeys(FOUND, 5.0))

    async def run() -> int:
        task = asyncio.create_task(engine(index).ainvoke("q"))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return index.running

    assert run_in_virtual_time(run()) == 0


@pytest.mark.parametrize("blank", ["", "  ", "\u200b", "\0"])
def test_a_blank_query_asks_nobody(blank: str) -> None:
    index = FakeIndex(FOUND)
    assert search(engine(index), blank)[0] == []
    assert index.calls == []


def test_words_are_left_out_where_no_passage_is_in_the_language_of_the_query() -> None:
    german = FakeIndex(FOUND)
    _, facts = search(
        engine(german, languages={"fr": 9, "en": 3}), "Was kostet das für die Filialen und wie lange ist es?"
    )
    assert {channel for channel, _ in german.calls} == {"dense", "sparse"}
    assert facts["left_out"] == ["query/bm25: no_passage_in_language"]


@pytest.mark.parametrize(
    ("languages", "order"),
    [
        pytest.param({"fr": 12}, ["w1", "d2", "d1"], id="all in the query's language"),
        pytest.param({"fr": 1, "en": 11}, ["d2", "w1", "d1"], id="few in the query's language"),
        pytest.param({}, ["w1", "d2", "d1"], id="languages unknown"),
    ],
)
def test_words_have_the_say_of_the_passages_in_their_language(
    languages: dict[str, int], order: list[str]
) -> None:
    index = FakeIndex({"dense": ["d2", "d1", "w1"], "bm25": ["w1"]})
    found, _ = search(
        engine(index, languages=languages, channels=("dense", "bm25")),
        "Quel est le prix de la formule pour les restaurants ?",
    )
    assert found == order


def test_keywords_are_searched_as_words() -> None:
    index = FakeIndex(FOUND)
    _, facts = search(engine(index), "Oui", ll_keywords=["Brodal"], hl_keywords=["prix"])
    assert [probe["source"] for probe in facts["probes"]].count("keywords") == 1


def test_repeated_passages_are_returned_once() -> None:
    texts = {
        "a": "Brodal costs three euros a month for each person.",
        "b": "BRODAL costs three euros, a month, for each person!",
    }

    class Repeating(FakeIndex):
        async def search(self, *args: Any, **kwargs: Any) -> Any:
            hits = await super().search(*args, **kwargs)
            return [type(h)(h.id, h.score, Document(texts[h.id], id=h.id)) for h in hits]

    found, _ = search(engine(Repeating({"dense": ["a", "b"], "sparse": ["a", "b"], "bm25": ["a"]})))
    assert found == ["a"]


# --- other forms of the query ---

TWO = "What does the payroll module cost? And how do I export the hours of a month?"


def decomposing() -> QueryUnderstandingPipeline:
    return QueryUnderstandingPipeline(decomposer=HeuristicQueryDecomposer())


def test_a_split_query_is_searched_part_by_part_within_twelve_calls() -> None:
    index = FakeIndex(FOUND)
    retriever = engine(index, pipelines={"decompose": decomposing()}).with_strategy("decompose", 0.9)
    _, facts = search(retriever, TWO)
    assert facts["index_calls"] == len(index.calls) == 9
    assert [p["source"] for p in facts["probes"]].count("decomposer") == 6


class Four(QueryDecomposer):
    async def decompose(self, ctx: QueryContext, query_text: str) -> list[str]:
        return [f"part {n}" for n in range(4)]


def test_four_parts_never_take_more_than_twelve_calls() -> None:
    index = FakeIndex(FOUND)
    pipeline = QueryUnderstandingPipeline(decomposer=Four())
    _, facts = search(engine(index, pipelines={"decompose": pipeline}, strategy="decompose"))
    assert len(index.calls) == 12
    assert all(out.endswith("budget") for out in facts["left_out"])


def test_a_compound_follow_up_is_searched_twice_within_twelve_calls() -> None:
    """By its own words and by what they refer to: the node makes both searches with this engine."""
    index = FakeIndex(FOUND)
    pipeline = QueryUnderstandingPipeline(decomposer=Four())
    retriever = engine(index, pipelines={"coref_decompose": pipeline}).with_strategy("coref_decompose", 0.9)
    for query in ("what is it and who runs it?", "what is it and who runs it? — Stokarel"):
        _, facts = search(retriever, query)
        assert [probe["source"] for probe in facts["probes"]] == ["query"] * 3 + ["decomposer"] * 3
    assert len(index.calls) == 12


def test_a_strategy_without_components_searches_the_query_alone() -> None:
    index = FakeIndex(FOUND)
    search(engine(index, pipelines={"decompose": decomposing()}, strategy="expand"), TWO)
    assert len(index.calls) == 3


def test_synonyms_are_searched_as_words() -> None:
    index = FakeIndex(FOUND)
    pipeline = QueryUnderstandingPipeline(glossary=InMemoryGlossary({"hcm": ["human capital management"]}))
    _, facts = search(engine(index, pipelines={"expand": pipeline}, strategy="expand"), "HCM pricing")
    assert {(p["channel"], p["source"]) for p in facts["probes"]} >= {("bm25", "glossary")}


class Hanging(QueryDecomposer):
    async def decompose(self, ctx: QueryContext, query_text: str) -> list[str]:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(1)  # a library that is slow to let go
        return ["too late"]


def test_a_hanging_model_costs_no_more_than_the_deadline() -> None:
    async def run() -> tuple[float, dict[str, Any], list[str | None]]:
        pipeline = QueryUnderstandingPipeline(decomposer=Hanging(), timeout_s=None)
        retriever = engine(FakeIndex(FOUND), pipelines={"decompose": pipeline}, strategy="decompose")
        with search_report() as report:
            found = ids(await retriever.ainvoke("q"))
        return asyncio.get_running_loop().time(), report.facts, found

    took_s, facts, found = run_in_virtual_time(run())
    assert (facts["forms"], found) == ("late", ["b", "a", "e", "c", "d"])
    assert took_s < 0.3


def rewording(*script: Any, **model: Any) -> QueryUnderstandingPipeline:
    asked = ScriptedModel(script=list(script) or ["pay slip download\nwage file"], **model)
    return QueryUnderstandingPipeline(rewriter=LLMQueryRewriter(asked), timeout_s=0.045)


@pytest.mark.parametrize(
    "quota",
    [
        pytest.param(lambda: Quota(calls=1), id="calls"),
        pytest.param(lambda: Quota(tokens=14), id="tokens: the first call took fifteen"),
        pytest.param(lambda: Quota(tokens=5000), id="never used up"),
    ],
)
def test_an_exhausted_quota_searches_the_query_and_says_so(quota: Any) -> None:
    index, sink = FakeIndex(FOUND), Kept()
    retriever = engine(index, pipelines={"expand": rewording()}, strategy="expand", quota=quota(), sink=sink)
    search(retriever)
    found, facts = search(retriever)
    search(replace(retriever, tenant_id="other"))
    first, second, other = sink.records
    exhausted = retriever.quota.tokens != 5000 if retriever.quota else False
    assert (facts.get("forms") == "quota") is exhausted
    assert facts["index_calls"] == (3 if exhausted else 7)
    assert set(found) == set("abcde")
    assert second.facts.get("forms") == ("quota" if exhausted else None)
    nothing = {"index_calls": 3, "model_calls": 0, "model_tokens": 0}
    asked = {"index_calls": 7, "model_calls": 1, "model_tokens": 15}
    assert [first.cost, second.cost, other.cost] == [asked, nothing if exhausted else asked, asked]


def test_what_asks_no_model_uses_no_quota() -> None:
    retriever = engine(
        FakeIndex(FOUND), pipelines={"decompose": decomposing()}, strategy="decompose", quota=Quota(calls=1)
    )
    assert [search(retriever, TWO)[1]["index_calls"] for _ in range(3)] == [9, 9, 9]


def test_a_call_that_never_came_back_is_not_free() -> None:
    sink = Kept()
    retriever = engine(
        FakeIndex(FOUND),
        pipelines={"expand": rewording(delay_s=60.0)},
        strategy="expand",
        quota=Quota(calls=1),
        sink=sink,
    )
    for _ in range(2):
        search(retriever)
    late, refused = sink.records
    assert late.facts["forms_failed"] == ["rewriter"]
    assert (late.cost["model_calls"], late.cost["model_tokens"] > 50) == (1, True)
    assert refused.facts["forms"] == "quota"


# --- the cache of other wordings ---


class BadServer:
    """A Redis client whose every call fails, hangs, or brings something odd."""

    def __init__(self, answer: Any = None, *, hangs: bool = False) -> None:
        self.answer, self.hangs = answer, hangs
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        async def call(*_args: Any, **_kwargs: Any) -> Any:
            self.calls += 1
            if self.hangs:
                await asyncio.sleep(3600)
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        return call


class Raising(MemoryCache):
    """A cache that breaks its promise."""

    async def get(self, key: CacheKey) -> Any:
        raise OSError("gone")

    async def put(self, key: CacheKey, value: bytes, *, ttl_s: float) -> None:
        raise OSError("gone")


@pytest.mark.parametrize(
    ("cache", "note"),
    [
        pytest.param(lambda: RedisCache(BadServer(ConnectionError("away"))), "unavailable", id="down"),
        pytest.param(lambda: RedisCache(BadServer(hangs=True), timeout_s=0.015), "unavailable", id="slow"),
        pytest.param(lambda: RedisCache(BadServer(b"\xff{")), "corrupt", id="corrupt"),
        pytest.param(lambda: RedisCache(BadServer("no bytes")), "corrupt", id="another type"),
        pytest.param(Raising, "unavailable", id="raises"),
    ],
)
def test_a_cache_that_is_down_slow_or_corrupt_costs_the_search_nothing(cache: Any, note: str) -> None:
    async def run() -> tuple[list[list[str | None]], list[dict[str, Any]], float]:
        broken, loop = cache(), asyncio.get_running_loop()
        near = NearQueries(
            HashEmbedder(), at_least=0.9, shared=broken if isinstance(broken, RedisCache) else None
        )
        model = ScriptedModel(script=["pay slip download\nwage file"], delay_s=0.005)
        rewriter = LLMQueryRewriter(model, cache=broken, near=near)
        pipeline = QueryUnderstandingPipeline(rewriter=rewriter, timeout_s=0.045)
        retriever = engine(FakeIndex(FOUND), pipelines={"expand": pipeline}, strategy="expand")
        found, facts = [], []
        for _ in range(3):
            with search_report() as report:
                found.append(ids(await retriever.ainvoke("payroll export")))
            facts.append(report.facts)
        return found, facts, loop.time()

    found, facts, took_s = run_in_virtual_time(run())
    plain, _ = search(engine(FakeIndex(FOUND)))
    assert all(set(plain) <= set(one) for one in found)
    assert [fact["cache"] for fact in facts] == [{"rewrites": note}] * 3
    sources = [{probe["source"] for probe in fact["probes"]} for fact in facts]
    assert sources == [{"query", "rewriter"}] * 3  # the model was asked all the same
    assert took_s < 3 * 0.045


# --- made-up answers ---


class MadeUp(HyDE):
    """A passage that a model made up, with a vector of its own."""

    async def generate(self, ctx: QueryContext, query_text: str) -> HyDEResult:
        return HyDEResult(["Payroll costs four euros a head."], [1.0] + [0.0] * 63, "made-up")


class Watching(FakeIndex):
    """Keeps the vectors it was asked with."""

    async def search(self, tenant: str, channel: Channel, vector: Any, **kwargs: Any) -> Any:
        self.calls_with = [*getattr(self, "calls_with", []), (channel, vector)]
        return await super().search(tenant, channel, vector, **kwargs)


def test_a_made_up_answer_is_one_more_dense_probe_by_its_vector() -> None:
    index = Watching(FOUND)
    pipeline = QueryUnderstandingPipeline(hyde=MadeUp())
    _, facts = search(engine(index, pipelines={"expand": pipeline}, strategy="expand"))
    (probe,) = [probe for probe in facts["probes"] if probe["source"] == "hyde"]
    assert (probe["channel"], facts["index_calls"]) == ("dense", 4)
    assert ("dense", (1.0, *[0.0] * 63)) in index.calls_with


def test_a_made_up_answer_is_the_first_to_go_where_twelve_calls_are_not_enough() -> None:
    index = FakeIndex(FOUND)
    pipeline = QueryUnderstandingPipeline(decomposer=Four(), hyde=MadeUp())
    _, facts = search(engine(index, pipelines={"decompose": pipeline}, strategy="decompose"))
    assert len(index.calls) == 12
    assert "hyde/dense: budget" in facts["left_out"]


# --- the last word on the order ---


class Reverse:
    name = "reverse"

    def __init__(self, *, delay_s: float = 0.0, answer: Any = None) -> None:
        self.delay_s, self.answer = delay_s, answer

    async def scores(self, query: str, candidates: Sequence[Candidate]) -> list[float]:
        await asyncio.sleep(self.delay_s)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if self.answer is not None else [float(n) for n in range(len(candidates))]


def test_a_reranker_decides_the_order() -> None:
    found, facts = search(engine(FakeIndex(FOUND), reranker=Reverse()))
    assert found == ["d", "c", "e", "a", "b"]
    assert facts["reranker"] == "reverse"


@pytest.mark.parametrize(
    ("reranker", "why"),
    [
        pytest.param(Reverse(delay_s=9.0), "TimeoutError", id="late"),
        pytest.param(Reverse(answer=RuntimeError("x")), "RuntimeError", id="raises"),
        pytest.param(Reverse(answer=[1.0]), "ValueError", id="too few scores"),
    ],
)
def test_a_broken_reranker_leaves_the_fused_order(reranker: Reverse, why: str) -> None:
    found, facts = search(engine(FakeIndex(FOUND), reranker=reranker))
    assert found == ["b", "a", "e", "c", "d"]
    assert facts["reranker"] == f"reverse: {why}"


async def test_the_score_mix_adds_what_each_channel_said() -> None:
    def candidate(key: str, fused: float, **scores: float) -> Candidate:
        return Candidate(Document(key, id=key), fused, scores)  # type: ignore[arg-type]  # keys are channels

    three = [
        candidate("x", 0.3, dense=0.9, bm25=2.0),
        candidate("y", 0.2, dense=0.8, bm25=6.0),
        candidate("z", 0.1, dense=0.5),
    ]
    mix = ScoreMix({"dense": 0.6, "bm25": 0.4}, fused_weight=0.0)
    # dense stretched: 1, .75, 0; words: 0, 1 and the last place for z.
    assert await mix.scores("q", three) == pytest.approx([0.6, 0.45 + 0.4, 0.0])
    assert await ScoreMix({}, fused_weight=1.0).scores("q", three) == pytest.approx([1.0, 0.5, 0.0])
    assert await ScoreMix().scores("q", []) == []


# --- what others see ---


class Kept:
    def __init__(self) -> None:
        self.records: list[SearchRecord] = []

    def put(self, record: SearchRecord) -> None:
        self.records.append(record)


def test_a_record_tells_the_whole_search() -> None:
    sink = Kept()
    retriever = engine(FakeIndex(FOUND), pipelines={"decompose": decomposing()}, sink=sink)
    search(retriever.with_strategy("decompose", 0.8), TWO)
    (record,) = sink.records
    assert (record.strategy, record.confidence, record.tenant_id) == ("decompose", 0.8, "acme")
    assert record.selected[0] == record.fused[0][0] == "b"
    assert record.cost == {"index_calls": 9, "model_calls": 0, "model_tokens": 0}
    assert {probe["ids"][0] for probe in record.probes} == {"a", "b"}
    assert list(record.timings_ms) == ["forms", "fan_out", "fusion", "rerank"]


async def test_every_index_call_is_a_span() -> None:
    tracer = RecordingTracer()
    with tracer.turn(), tracer.span("agent-knowledge-retriever", "agent"):
        await engine(FakeIndex({**FOUND, "bm25": RuntimeError("visitor text")})).ainvoke("q")
    (turn,) = tracer.turns
    (root,) = turn.spans
    assert {span.name: (span.status, span.error) for span in root.children} == {
        "tool-search-dense": ("ok", ""),
        "tool-search-sparse": ("ok", ""),
        "tool-search-bm25": ("error", "RuntimeError"),
    }


def test_the_mode_is_passages_alone() -> None:
    assert HybridRetriever(FakeIndex({}), hash_encoders(), "base").rag_mode == "naive"
