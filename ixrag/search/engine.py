"""`HybridRetriever`: three indexes asked at once, their lists fused into one that beats each of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from langchain_core.documents import Document

from ixinfra.config.settings import RagMode
from ixinfra.embeddings import remember_vectors
from ixinfra.errors import RetrievalError
from ixinfra.spending import CHARS_A_TOKEN, Spending, spending
from ixrag.documents import SearchReport, current_report
from ixrag.lightrag.langgraph_retriever import searchable
from ixrag.query.context import QueryContext
from ixrag.query.forms import Form, Wanted, forms
from ixrag.query.understanding import QueryUnderstandingPipeline, UnderstoodQuery
from ixrag.search.encoders import Encoders
from ixrag.search.fan_out import Deadline, FanOut, Outcome
from ixrag.search.fusion import diversified, rrf, without_near_duplicates
from ixrag.search.index import CHANNELS, Channel, Hit, Index, SparseVector
from ixrag.search.plan import MAX_PROBES, Probe, SearchPlan, plan_search
from ixrag.search.quota import Quota
from ixrag.search.rerank import Candidate, FusedOrder, Reranker
from ixrag.search.telemetry import SearchRecord, Sink, probe_facts

Strategy = Literal["passthrough", "coref", "decompose", "expand", "coref_decompose"]
"""What a message needs before it can be searched. The engine acts on the part that needs no conversation."""

WANTED: Wanted = {
    "lexical": ("rewriter", "decomposer", "glossary", "hyde"),
    "dense": ("rewriter", "decomposer", "glossary", "hyde"),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one search may take and give.

    Attributes:
        passages: Most documents returned.
        depth: Hits taken from each index, and candidates that are reranked.
        probes: Most index calls of a message; a follow-up, which is searched twice, has half of them each time.
        deadline: How long they may take.
        rerank_s: Longest wait for the reranker; after it the fused order stands.
        rrf_k: Damping of the fusion, in ranks.
        relevance: 1 keeps the order; less prefers passages unlike those above them.
        duplicate: Share of common word runs from which two passages count as one.
        channel_weights: Say of each index in the fused ranking. Where not named it is 1, and of words the
            share of passages in the query's language.
    """

    passages: int = 20
    depth: int = 40
    probes: int = MAX_PROBES
    deadline: Deadline = field(default_factory=Deadline)
    rerank_s: float = 0.05
    rrf_k: float = 10
    relevance: float = 1.0
    duplicate: float = 0.9
    channel_weights: Mapping[Channel, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a search would ask, before any index is asked.

    Attributes:
        query: What is searched.
        lang: Language of the query, as the engine takes it.
        strategy: What the message needs.
        confidence: How sure the gate was; None where none was asked.
        plan: Which form goes to which index, and what is left out.
        facts: What became of looking for other forms: `forms`, `forms_failed`, `cache`.
        forms_ms: How long that took, in milliseconds.
    """

    query: str
    lang: str
    strategy: Strategy
    confidence: float | None
    plan: SearchPlan
    facts: Mapping[str, Any]
    forms_ms: float


@dataclass(frozen=True, slots=True)
class HybridRetriever:
    """Searches passages by meaning, by learned terms and by written words, and fuses the lists.

    `ainvoke` is that of `LightRAGRetriever`. There is no graph: keywords, where given, are searched as
    words beside the query. Whatever fails, is late or answers nonsense is left out and reported; the
    query itself on one index is enough for an answer.

    Attributes:
        index: Where passages are.
        encoders: What they were stored with.
        partition: Whose passages are searched; a knowledge base's name.
        languages: Number of its passages by language, as `Index.languages` gives it.
        pipelines: Finds other forms of a query, for the strategies that want some.
        strategy: What the message needs.
        confidence: How sure the gate was of it; None where none was asked.
        tenant_id: Key of caches, quota and records.
        quota: Model work a tenant may ask for; None for no limit.
        channels: Indexes that are asked.
        limits: How much a search may take and give.
        reranker: Has the last word on the order.
        sink: Takes a record of each search; None for none.
    """

    index: Index
    encoders: Encoders
    partition: str
    languages: Mapping[str, int] = field(default_factory=dict)
    pipelines: Mapping[Strategy, QueryUnderstandingPipeline] = field(default_factory=dict)
    strategy: Strategy = "passthrough"
    confidence: float | None = None
    tenant_id: str = ""
    quota: Quota | None = None
    channels: tuple[Channel, ...] = CHANNELS
    limits: Limits = Limits()
    reranker: Reranker = field(default_factory=FusedOrder)
    sink: Sink | None = None

    @property
    def rag_mode(self) -> RagMode:
        """`naive`: passages and no graph."""
        return "naive"

    @property
    def span_name(self) -> str:
        """Name of the span around the index calls of a search."""
        return "tool-hybrid-retrieval"

    def without_forms(self) -> HybridRetriever:
        """The same engine, searching the query alone: no model is asked."""
        return replace(self, pipelines={})

    def with_strategy(self, strategy: Strategy, confidence: float | None = None) -> HybridRetriever:
        """The same engine for a message that needs this."""
        return replace(self, strategy=strategy, confidence=confidence)

    async def explain(self, input: str) -> Explanation:
        """What a search for `input` would ask, and why; a chat model is asked for other forms, no index is."""
        query = searchable(input)
        search = _Search(self, query, (), SearchReport())
        with remember_vectors(self.tenant_id):
            return await search.explain()

    async def ainvoke(self, input: str, **kwargs: Any) -> Sequence[Document]:
        """Passages for `input`, best first.

        Args:
            input: The query.
            **kwargs: `ll_keywords` and `hl_keywords`, searched as words; `missing_words`, weighed beside the
                query's own in the word index; anything else is ignored.

        Returns:
            Documents whose metadata holds `kind` ("chunk"), `rank` (from 1), `score`, `source`,
            `title`, `lang`, `chunk_id`, `passage_id` and `tenant`.

        Raises:
            RetrievalError: No index answered the query.
        """
        report, query = current_report(), searchable(input)
        report.vector_text = query
        report.facts["mode"] = "hybrid"
        if not query:
            report.facts["reason"] = "empty_query"
            return []
        keywords = [*_terms(kwargs.get("ll_keywords")), *_terms(kwargs.get("hl_keywords"))]
        with remember_vectors(self.tenant_id):
            search = _Search(self, query, keywords, report, kwargs.get("missing_words"))
            return await search.run()

    async def said_in(self, texts: Sequence[str], passages: int) -> list[list[str]]:
        """Texts of the best passages for each text by written words, best first; all are asked at once."""
        found = await asyncio.gather(*(self._words_of(text, passages) for text in texts))
        return [[hit.document.page_content for hit in hits] for hits in found]

    async def _words_of(self, text: str, passages: int) -> list[Hit]:
        vector = await self.encoders.query("bm25", text, self.encoders.language_of(text))
        return await self.index.search(self.partition, "bm25", vector, limit=passages)


class _Search:
    """One search: its state, and its steps in order."""

    def __init__(
        self,
        engine: HybridRetriever,
        query: str,
        keywords: Sequence[str],
        report: SearchReport,
        missing_words: Mapping[str, float] | None = None,
    ) -> None:
        self._engine = engine
        self._query = query
        self._keywords = keywords
        self._missing_words = missing_words or {}
        self._report = report
        self._lang = engine.encoders.language_of(query)
        self._started_s = time.perf_counter()
        self._timings_ms: dict[str, float] = {}
        self._forms: list[Form] = []
        self._facts: dict[str, Any] = {}
        self._spent = Spending()

    async def run(self) -> list[Document]:
        async with FanOut(self._ask, self._engine.limits.deadline) as fan_out:
            own = self._plan()
            fan_out.start(own.probes)
            self._forms = await self._find_forms(fan_out.left_s)
            plan = self._plan(self._forms)
            fan_out.start([probe for probe in plan.probes if probe not in own.probes])
            outcomes = await fan_out.outcomes()
        self._mark("fan_out")
        self._facts |= _facts(plan, outcomes)
        self._report.facts |= self._facts
        self._expect_an_answer(outcomes)
        candidates = self._fuse(outcomes)
        self._mark("fusion")
        documents = await self._rerank(candidates)
        self._mark("rerank")
        self._report.facts |= {"chunks": len(documents), "reranker": self._facts.get("reranker")}
        if not documents:
            self._report.facts["reason"] = "nothing_found"
        self._record(outcomes, candidates, documents)
        return documents

    async def explain(self) -> Explanation:
        engine = self._engine
        found = await self._find_forms(engine.limits.deadline.soft_s)
        return Explanation(
            self._query,
            self._lang,
            engine.strategy,
            engine.confidence,
            self._plan(found),
            self._facts,
            self._timings_ms.get("forms", 0.0),
        )

    def _plan(self, found: Sequence[Form] = ()) -> SearchPlan:
        engine = self._engine
        # A follow-up is searched twice, by its own words and by what they refer to: both share the calls.
        share = 2 if engine.strategy.startswith("coref") else 1
        return plan_search(
            self._query,
            found,
            keywords=self._keywords,
            channels=engine.channels,
            budget=max(1, engine.limits.probes // share),
            words_match=_words_match(self._lang, engine.languages),
        )

    async def _find_forms(self, left_s: float) -> list[Form]:
        engine = self._engine
        pipeline = engine.pipelines.get(engine.strategy)
        if pipeline is None or left_s <= 0:
            return []
        reserved = len(self._query) // CHARS_A_TOKEN + 1
        if engine.quota and not engine.quota.take(engine.tenant_id, reserved):
            self._facts["forms"] = "quota"
            return []
        with spending() as self._spent:
            try:
                understood = await self._understand(pipeline, left_s)
            finally:
                if engine.quota:
                    engine.quota.settle(engine.tenant_id, reserved, self._spent)
        self._mark("forms")
        if understood is None:
            self._facts["forms"] = "late"
            return []
        if failed := understood.metadata.get("partial_failures"):
            self._facts["forms_failed"] = failed
        if cached := understood.metadata.get("cache"):
            self._facts["cache"] = cached
        return forms(understood, WANTED)

    async def _understand(
        self, pipeline: QueryUnderstandingPipeline, left_s: float
    ) -> UnderstoodQuery | None:
        """What the pipeline found in time; None when it was late."""
        task = asyncio.ensure_future(
            pipeline.understand(QueryContext(self._engine.tenant_id, self._lang), self._query)
        )
        try:
            done, _ = await asyncio.wait({task}, timeout=left_s)
        finally:
            if not task.done():
                task.cancel("deadline")
                task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return task.result() if done else None

    async def _ask(self, probe: Probe) -> list[Hit]:
        engine = self._engine
        lang = self._lang if probe.channel == "bm25" else ""
        vector = probe.vector or await engine.encoders.query(probe.channel, probe.text, lang)
        if (
            self._missing_words
            and probe.source == "query"
            and isinstance(vector, SparseVector)
            and probe.channel == "bm25"
        ):
            vector = engine.encoders.with_words(vector, self._missing_words, lang)
        return await engine.index.search(
            engine.partition,
            probe.channel,
            vector,
            limit=engine.limits.depth,
        )

    def _expect_an_answer(self, outcomes: Sequence[Outcome]) -> None:
        states = {outcome.state for outcome in outcomes}
        if states & {"found", "empty"}:
            return
        reason = "timeout" if "late" in states else "unavailable"
        self._report.facts["reason"] = reason
        raise RetrievalError(f"no index answered ({', '.join(sorted(states))})", reason=reason)

    def _fuse(self, outcomes: Sequence[Outcome]) -> list[Candidate]:
        limits = self._engine.limits
        found = [outcome for outcome in outcomes if outcome.state == "found"]
        documents = {hit.id: hit.document for outcome in reversed(found) for hit in outcome.hits}
        says = {"bm25": _share_of(self._lang, self._engine.languages), **limits.channel_weights}
        weights = [outcome.probe.weight * says.get(outcome.probe.channel, 1.0) for outcome in found]
        ranked = rrf([[hit.id for hit in outcome.hits] for outcome in found], weights=weights, k=limits.rrf_k)
        scores = dict(ranked)
        distinct = without_near_duplicates(
            [documents[key] for key, _ in ranked[: limits.depth]], at_least=limits.duplicate
        )
        if limits.relevance < 1:
            distinct = diversified([(d, scores[str(d.id)]) for d in distinct], relevance=limits.relevance)
        said = _said(found)
        return [Candidate(d, scores[str(d.id)], said.get(str(d.id), {})) for d in distinct]

    async def _rerank(self, candidates: Sequence[Candidate]) -> list[Document]:
        engine, limits = self._engine, self._engine.limits
        order = list(candidates)
        self._facts["reranker"] = engine.reranker.name
        try:
            scores = await _within(engine.reranker.scores(self._query, candidates), limits.rerank_s)
            if len(scores) != len(candidates):
                raise ValueError("one score for each candidate")
            place = sorted(range(len(candidates)), key=lambda at: -scores[at])
            order = [candidates[at] for at in place]
        except Exception as error:  # the last component of several: the fused order stands
            self._facts["reranker"] = f"{engine.reranker.name}: {type(error).__name__}"
        return [
            _returned(candidate, rank, engine.tenant_id)
            for rank, candidate in enumerate(order[: limits.passages], start=1)
        ]

    def _record(
        self, outcomes: Sequence[Outcome], candidates: Sequence[Candidate], documents: Sequence[Document]
    ) -> None:
        engine = self._engine
        if engine.sink is None:
            return
        engine.sink.put(
            SearchRecord(
                self._query,
                engine.tenant_id,
                strategy=engine.strategy,
                confidence=engine.confidence,
                forms=[{"component": form.component, "text": form.text} for form in self._forms],
                probes=[probe_facts(outcome) for outcome in outcomes],
                fused=[(str(candidate.document.id), candidate.fused) for candidate in candidates],
                selected=[str(document.id) for document in documents],
                timings_ms=self._timings_ms,
                cost={
                    "index_calls": len(outcomes),
                    "model_calls": self._spent.calls,
                    "model_tokens": self._spent.tokens,
                },
                facts={key: value for key, value in self._facts.items() if key != "probes"},
            )
        )

    def _mark(self, part: str) -> None:
        """Milliseconds from the start of the search to the end of this part."""
        self._timings_ms[part] = (time.perf_counter() - self._started_s) * 1000.0


def _words_match(lang: str, languages: Mapping[str, int]) -> bool:
    """Whether written words can find anything meant: some passage is in this language, or in none known."""
    return not languages or "" in languages or lang in languages


def _share_of(lang: str, languages: Mapping[str, int]) -> float:
    """Share of the passages that a query's written words can match; 1 where no language is known.

    It is what the word index has to say in the fused list: on the sample, whose answers are often in
    another language, nDCG@10 of the list is .912 with it, .901 without, and .863 where words are searched
    in passages of the query's language alone.
    """
    total = sum(languages.values())
    return (languages.get(lang, 0) + languages.get("", 0)) / total if total else 1.0


def _said(found: Sequence[Outcome]) -> dict[str, dict[Channel, float]]:
    said: dict[str, dict[Channel, float]] = {}
    for outcome in found:
        if outcome.probe.source == "query":
            for hit in outcome.hits:
                said.setdefault(hit.id, {})[outcome.probe.channel] = hit.score
    return said


def _facts(plan: SearchPlan, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        "index_calls": len(outcomes),
        "probes": [
            {
                "channel": outcome.probe.channel,
                "source": outcome.probe.source,
                "state": outcome.state,
                "error": outcome.error,
                "hits": len(outcome.hits),
                "ms": round(outcome.elapsed_ms, 2),
            }
            for outcome in outcomes
        ],
        "left_out": [f"{out.probe.source}/{out.probe.channel}: {out.reason}" for out in plan.left_out],
    }


def _returned(candidate: Candidate, rank: int, tenant_id: str) -> Document:
    facts = {"rank": rank, "score": candidate.fused, "tenant": tenant_id}
    return candidate.document.model_copy(update={"metadata": {**candidate.document.metadata, **facts}})


async def _within(scores: Any, timeout_s: float) -> list[float]:
    """The awaited scores; what is late is dropped, whether it listens to its cancellation or not."""
    task = asyncio.ensure_future(scores)
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout_s)
        if not done:
            raise TimeoutError
        result: list[float] = task.result()
        return result
    finally:
        if not task.done():
            task.cancel("deadline")
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


def _terms(keywords: Any) -> list[str]:
    return [keywords] if isinstance(keywords, str) else list(keywords or ())
