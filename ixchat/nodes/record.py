"""What one retrieval did: the documents, the decision behind them, and the record of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.documents import Document

from ixchat.utils.resolution import Missing, Resolution, Turn
from ixinfra.tracing import CancelCause
from ixrag.documents import SearchReport

Path = Literal["raw", "intent", "keywords", "reference"]
"""Which resolver the turn was given to; `raw` is none."""

SearchName = Literal["early search", "ahead search", "search", "second search", "raw search"]
Fate = Literal["running", "used", "fused", "unused", "cancelled", "abandoned", "failed"]
Outcome = Literal["found", "nothing_found", "redirected", "failed"]


@dataclass(slots=True)
class Step:
    """One entry of the turn's time line; times are milliseconds since the turn reached the node."""

    name: str
    started_ms: float
    ended_ms: float | None = None

    @property
    def ms(self) -> float:
        """Duration in milliseconds; 0 while it runs."""
        return 0.0 if self.ended_ms is None else self.ended_ms - self.started_ms

    def overlap_ms(self, other: Step) -> float:
        """How long both ran at once, in milliseconds."""
        if self.ended_ms is None or other.ended_ms is None:
            return 0.0
        return max(0.0, min(self.ended_ms, other.ended_ms) - max(self.started_ms, other.started_ms))


@dataclass(slots=True)
class Search:
    """One search of the turn: what it was given, what it sent, what came of it."""

    step: Step
    query: str
    keywords: Mapping[str, list[str]] = field(default_factory=dict)
    missing_words: Mapping[str, Any] = field(default_factory=dict)
    report: SearchReport = field(default_factory=SearchReport)
    documents: Sequence[Document] = ()
    fate: Fate = "running"
    cause: CancelCause | None = None
    error: str | None = None

    @property
    def retriever_kwargs(self) -> dict[str, Any]:
        """What the retriever is given beside the query."""
        return {**self.keywords, **self.missing_words}

    def as_record(self) -> dict[str, Any]:
        """JSON: name, fate, times and the number of documents."""
        return {
            "name": self.step.name,
            "query": self.query,
            "fate": self.fate,
            "cause": self.cause,
            "error": self.error,
            "started_ms": round(self.step.started_ms, 2),
            "ended_ms": None if self.step.ended_ms is None else round(self.step.ended_ms, 2),
            "documents": len(self.documents),
        }


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Everything retrieval has to say about one turn.

    Attributes:
        turn: The turn as it came in.
        path: Which resolver was asked.
        resolution: What retrieval was given, and why.
        documents: Best first; empty when nothing was found, the engine failed or the turn was redirected.
        searches: Every search that was started, in order.
        missing: Words weighed beside the search, and how much the message needs any.
        check: Time line entry of the resolver; None where none ran.
        total_ms: Time spent in the node, in milliseconds.
        rag_mode: Which channels the tenant's searches have.
        redirect: The reply that ended the turn instead; None otherwise.
        problems: Class names or reasons of what went wrong on the way, oldest first.
    """

    turn: Turn
    path: Path
    resolution: Resolution
    documents: Sequence[Document]
    searches: Sequence[Search]
    missing: Missing
    check: Step | None
    total_ms: float
    rag_mode: str
    redirect: str | None = None
    problems: Sequence[str] = ()

    @property
    def used(self) -> Search | None:
        """The search whose documents are returned; None when there is none."""
        return next((search for search in self.searches if search.fate == "used"), None)

    @property
    def outcome(self) -> Outcome:
        """How the turn ended."""
        if self.redirect is not None:
            return "redirected"
        if self.used is None:
            return "failed"
        return "found" if self.documents else "nothing_found"

    @property
    def saved_ms(self) -> float:
        """Milliseconds of the check that a search beside it hid: 0 unless that search was used."""
        used = self.used
        if used is None or self.check is None:
            return 0.0
        return self.check.overlap_ms(used.step)

    @property
    def wasted_ms(self) -> float:
        """Milliseconds of searches that were started and not used."""
        return sum(search.step.ms for search in self.searches if search.fate not in ("used", "fused"))

    @property
    def record(self) -> dict[str, Any]:
        """The decision record: JSON types alone, for state, `--explain` and the span."""
        facts = self.resolution.trace
        used = self.used
        report = used.report if used else SearchReport()
        return {
            "outcome": self.outcome,
            "path": self.path,
            "decision": self.resolution.decision,
            "reason": facts.get("reason"),
            "fallback": self.resolution.fallback,
            "rejected": facts.get("rejected"),
            "entity": facts.get("entity"),
            "evidence": _as_list(facts.get("evidence")),
            "confidence": facts.get("confidence"),
            "asked": facts.get("asked"),
            "local_decision": facts.get("local_decision"),
            "agrees": facts.get("agrees"),
            "model": facts.get("model"),
            "provider": facts.get("provider"),
            "message": self.turn.query,
            "query": used.query if used else self.resolution.query,
            "changed": bool(used and (used.query != self.turn.query or used.retriever_kwargs)),
            "channels": {
                "rag_mode": self.rag_mode,
                "vector_text": report.vector_text or (used.query if used else ""),
                "ll_keywords": list(report.ll_keywords),
                "hl_keywords": list(report.hl_keywords),
                "keyword_source": report.keyword_source or None,
                "facts": dict(report.facts),
            },
            "missing_words": self.missing.as_record(),
            "documents": len(self.documents),
            "searches": [search.as_record() for search in self.searches],
            "check_ms": None if self.check is None else round(self.check.ms, 2),
            "check_started_ms": None if self.check is None else round(self.check.started_ms, 2),
            "saved_ms": round(self.saved_ms, 2),
            "wasted_ms": round(self.wasted_ms, 2),
            "total_ms": round(self.total_ms, 2),
            "redirected": self.redirect is not None,
            "problems": list(self.problems),
        }


def _as_list(evidence: Any) -> list[Any]:
    """The reference check names one place in the history, a short reply's resolver several."""
    if evidence is None:
        return []
    return list(evidence) if isinstance(evidence, list | tuple) else [evidence]


@dataclass(slots=True)
class Clock:
    """Milliseconds since the turn reached the node."""

    now_s: Callable[[], float]
    origin_s: float = 0.0

    def __post_init__(self) -> None:
        self.origin_s = self.now_s()

    @property
    def ms(self) -> float:
        """Milliseconds since creation."""
        return (self.now_s() - self.origin_s) * 1000.0

    def start(self, name: str) -> Step:
        """A time line entry that begins now."""
        return Step(name, self.ms)
