"""One raw query into everything its indexes may be asked: all components side by side, one deadline."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

from opentelemetry.trace import TracerProvider
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator

from ixrag.query.context import QueryContext
from ixrag.query.decomposer import QueryDecomposer
from ixrag.query.glossary import GlossaryExpander
from ixrag.query.hyde import HyDE, HyDEResult
from ixrag.query.listing import distinct, encodable
from ixrag.query.rewriter import QueryRewriter
from ixrag.query.telemetry import UnderstandSpan, cache_notes, understand_span

# What a component may add at most: a rude one must not decide how many searches a turn makes.
MAX_SUB_QUERIES = 8
MAX_TERMS = 32
MAX_SYNONYMS = 16
MAX_HYDE_DOCUMENTS = 8

_log = logging.getLogger(__name__)


def _verbatim(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("expected a string")
    return value


# pydantic's own strings refuse lone surrogates; what a visitor wrote is kept whatever it is.
Verbatim = Annotated[str, PlainValidator(_verbatim), PlainSerializer(encodable, str, when_used="json")]


class UnderstoodQuery(BaseModel):
    """A query and all that was found out about it; every later stage reads the same instance.

    Attributes:
        original_text: The query, character for character.
        rewrites: Other wordings, best first; never the original.
        sub_queries: The separate questions in it; empty means "not split", not "no answer".
        expansion_terms: `{matched term in lower case: [synonym, ...]}`.
        hyde_documents: Made-up answers.
        hyde_vector: Mean vector of them, at unit length; None without documents or embedder.
        metadata: `elapsed_ms`, `hyde_embed_model`; where it applies `partial_failures` (labels of the
            components that failed, sorted), `cache` (how each look-up ended), `hyde_cache_hits` and
            `hyde_cache_misses`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    original_text: Verbatim
    rewrites: list[str] = Field(default_factory=list)
    sub_queries: list[str] = Field(default_factory=list)
    expansion_terms: dict[str, list[str]] = Field(default_factory=dict)
    hyde_documents: list[str] = Field(default_factory=list)
    hyde_vector: list[float] | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)

    @property
    def keyword_queries(self) -> list[str]:
        """The original first, then the rewrites that differ from it by more than case."""
        return [self.original_text, *distinct(self.rewrites, other_than=[self.original_text])]


Call = Callable[[], Awaitable[Any]]
Outcomes = Mapping[str, Any]
"""What each component returned, or the exception that stands for it, by label."""


class QueryUnderstandingPipeline:
    """Runs whichever components are wired and keeps their contracts for them.

    A component that raises, breaks its contract beyond repair or is late contributes nothing and is
    named in `metadata["partial_failures"]`; the others are not touched by it. Cancellation,
    KeyboardInterrupt and SystemExit pass. When `understand` ends, no component is still running,
    unless it ignores its cancellation for longer than `grace_s`; what it then says is not used.

    Args:
        rewriter: None for none, as with the others.
        decomposer: Label `decomposer`.
        glossary: Label `glossary`.
        hyde: Label `hyde`.
        rewrite_n: Most rewrites wanted.
        timeout_s: Deadline of all components together, in seconds; None waits for them.
        grace_s: Longest wait for cancelled components, in seconds.
        tracer_provider: Where OpenTelemetry spans go outside a traced turn; None is the global one.
    """

    def __init__(
        self,
        *,
        rewriter: QueryRewriter | None = None,
        decomposer: QueryDecomposer | None = None,
        glossary: GlossaryExpander | None = None,
        hyde: HyDE | None = None,
        rewrite_n: int = 3,
        timeout_s: float | None = 3.0,
        grace_s: float = 0.05,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        if rewrite_n < 0:
            raise ValueError(f"`rewrite_n` must be >= 0, got {rewrite_n}")
        if timeout_s is not None and not timeout_s > 0:
            raise ValueError(f"`timeout_s` must be > 0 or None, got {timeout_s}")
        self._rewriter = rewriter
        self._decomposer = decomposer
        self._glossary = glossary
        self._hyde = hyde
        self._rewrite_n = rewrite_n
        self._timeout_s = timeout_s
        self._grace_s = grace_s
        self._tracer_provider = tracer_provider

    async def understand(self, ctx: QueryContext, query_text: str) -> UnderstoodQuery:
        """Everything the components make of `query_text`, within the deadline.

        A blank query is returned as it is and no component is asked.
        """
        started = time.perf_counter()
        with understand_span(query_text, self._tracer_provider) as span, cache_notes() as notes:
            calls = self._calls(ctx, query_text) if query_text.strip() else {}
            outcomes = await self._run_all(calls)
            understood = self._assemble(query_text, outcomes, notes, started)
            _record(span, ctx, understood)
        return understood

    async def _run_all(self, calls: Mapping[str, Call]) -> Outcomes:
        """The outcome of every call by label. Override it for another order than all at once."""
        if not calls:
            return {}
        tasks = {
            label: asyncio.create_task(_await(call), name=f"ix:{label}") for label, call in calls.items()
        }
        try:
            in_time, _ = await asyncio.wait(tasks.values(), timeout=self._timeout_s)
        finally:
            await _stop(tasks.values(), self._grace_s)
        return {label: _outcome(task) if task in in_time else TimeoutError() for label, task in tasks.items()}

    def _calls(self, ctx: QueryContext, text: str) -> dict[str, Call]:
        calls: dict[str, Call] = {}
        if (rewriter := self._rewriter) is not None:
            calls["rewriter"] = lambda: rewriter.rewrite(ctx, text, n=self._rewrite_n)
        if (decomposer := self._decomposer) is not None:
            calls["decomposer"] = lambda: decomposer.decompose(ctx, text)
        if (glossary := self._glossary) is not None:
            calls["glossary"] = lambda: glossary.expand(ctx, text)
        if (hyde := self._hyde) is not None:
            calls["hyde"] = lambda: hyde.generate(ctx, text)
        return calls

    def _assemble(
        self, text: str, outcomes: Outcomes, notes: Mapping[str, str], started: float
    ) -> UnderstoodQuery:
        checked = _Checked(outcomes)
        rewrites = checked.take("rewriter", lambda found: _texts(found, text, self._rewrite_n), [])
        sub_queries = checked.take("decomposer", lambda found: _texts(found, text, MAX_SUB_QUERIES), [])
        terms = checked.take("glossary", _terms, {})
        hyde = checked.take("hyde", _hyde, HyDEResult())
        metadata: dict[str, Any] = {"hyde_embed_model": hyde.model}
        if hyde.cache_hits or hyde.cache_misses:
            metadata |= {"hyde_cache_hits": hyde.cache_hits, "hyde_cache_misses": hyde.cache_misses}
        if notes:
            metadata["cache"] = dict(notes)
        if checked.failed:
            metadata["partial_failures"] = sorted(checked.failed)
        metadata["elapsed_ms"] = (time.perf_counter() - started) * 1000.0
        return UnderstoodQuery(
            original_text=text,
            rewrites=rewrites,
            sub_queries=sub_queries,
            expansion_terms=terms,
            hyde_documents=hyde.documents,
            hyde_vector=hyde.vector,
            metadata=metadata,
        )


class _Checked:
    """Reads outcomes, keeps each contract, and remembers who failed."""

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self.failed: list[str] = []

    def take(self, label: str, check: Callable[[Any], Any], identity: Any) -> Any:
        if label not in self._outcomes:
            return identity
        outcome = self._outcomes[label]
        try:
            if isinstance(outcome, Exception):
                raise outcome
            return check(outcome)
        except Exception as error:
            # The class alone: the text of a third party's exception may hold what the visitor wrote.
            _log.warning("query.understand.component_failed: %s: %s", label, type(error).__name__)
            self.failed.append(label)
            return identity


def _texts(found: object, original: str, limit: int) -> list[str]:
    if isinstance(found, str) or not isinstance(found, Sequence):
        raise TypeError(f"expected a list of strings, got {type(found).__name__}")
    return distinct(found, other_than=[original], limit=limit)


def _terms(found: object) -> dict[str, list[str]]:
    if not isinstance(found, Mapping):
        raise TypeError(f"expected a mapping, got {type(found).__name__}")
    terms: dict[str, list[str]] = {}
    for term, synonyms in found.items():
        if len(terms) == MAX_TERMS:
            break
        if not isinstance(term, str) or isinstance(synonyms, str) or not isinstance(synonyms, Sequence):
            continue
        key = encodable(term.strip().lower())
        kept = distinct(synonyms, other_than=[term], limit=MAX_SYNONYMS)
        if key and kept and key not in terms:
            terms[key] = kept
    return terms


def _hyde(found: object) -> HyDEResult:
    if not isinstance(found, HyDEResult):
        raise TypeError(f"expected a HyDEResult, got {type(found).__name__}")
    documents = distinct(found.documents, limit=MAX_HYDE_DOCUMENTS)
    return HyDEResult(documents, _unit(found.vector), found.model, found.cache_hits, found.cache_misses)


def _unit(vector: Sequence[float] | None) -> list[float] | None:
    if vector is None:
        return None
    values = [float(value) for value in vector]
    length = math.hypot(*values)
    if not math.isfinite(length) or length == 0.0:
        return None
    return values if math.isclose(length, 1.0, rel_tol=1e-6) else [value / length for value in values]


async def _await(call: Call) -> Any:
    return await call()


async def _stop(tasks: Iterable[asyncio.Task[Any]], grace_s: float) -> None:
    live = {task for task in tasks if not task.done()}
    for task in live:
        task.cancel()
    if live:
        await asyncio.wait(live, timeout=grace_s)
    for task in live:
        # Reading it keeps the loop from reporting a loser's error as "never retrieved".
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


def _outcome(task: asyncio.Task[Any]) -> Any:
    if task.cancelled():
        return RuntimeError("the component cancelled itself")
    error = task.exception()
    if error is None:
        return task.result()
    if not isinstance(error, Exception):
        raise error
    return error


def _record(span: UnderstandSpan, ctx: QueryContext, understood: UnderstoodQuery) -> None:
    failed = understood.metadata.get("partial_failures", [])
    attributes: dict[str, str | int | float | bool] = {
        "rag.tenant_id": encodable(ctx.tenant_id),
        "rag.query.length_chars": len(understood.original_text),
        "rag.query.rewrites_n": len(understood.rewrites),
        "rag.query.sub_queries_n": len(understood.sub_queries),
        "rag.query.expansions_n": len(understood.expansion_terms),
        "rag.query.hyde_docs_n": len(understood.hyde_documents),
        "rag.query.hyde_vector_present": understood.hyde_vector is not None,
        "rag.query.partial_failures_n": len(failed),
        "rag.query.elapsed_ms": understood.metadata["elapsed_ms"],
    }
    if failed:
        attributes["rag.query.failed_components"] = ",".join(failed)
    output = {
        "rewrites": understood.rewrites,
        "sub_queries": understood.sub_queries,
        # Not as keys: where visitor text is kept out of spans, values are hidden and keys are not.
        "expansion_terms": [
            {"term": term, "synonyms": synonyms} for term, synonyms in understood.expansion_terms.items()
        ],
        "hyde_documents": understood.hyde_documents,
    }
    span.finish(attributes, output)
