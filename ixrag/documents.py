"""What a search returns, and what it really sent: the part of retrieval that every engine shares."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from langchain_core.documents import Document

from ixinfra.config.settings import RagMode


class Retriever(Protocol):
    """What the retrieval node needs of an engine. `LightRAGRetriever` is one.

    An engine may have a `span_name`; see `span_name_of`.
    """

    @property
    def rag_mode(self) -> RagMode:
        """Which channels a search has; `naive` has no graph."""

    async def ainvoke(self, input: str, **kwargs: Any) -> Sequence[Document]:
        """Search for `input`. Keyword lists travel as `ll_keywords` and `hl_keywords`, both or neither.

        Cancelling the call frees whatever it holds. It raises `RetrievalError` when the engine did
        not answer; an empty list means that nothing was found.
        """


@runtime_checkable
class WordSearch(Protocol):
    """An engine with an index of written words.

    Its `ainvoke` takes `missing_words`, too: words to weigh beside the query's own, with their weights.
    """

    async def said_in(self, texts: Sequence[str], passages: int) -> list[list[str]]:
        """Texts of the best `passages` for each of `texts` by written words, best first.

        Raises:
            RetrievalError: The index did not answer.
        """


def span_name_of(retriever: Retriever) -> str:
    """Name of the span of a search: the retriever's own `span_name`, else LightRAG's."""
    return str(getattr(retriever, "span_name", "tool-lightrag-retrieval"))


@dataclass(slots=True)
class SearchReport:
    """What one search sent to each channel; filled in by the retriever, read by its caller.

    Attributes:
        vector_text: Text that was embedded.
        ll_keywords: Entity terms the graph was searched with, supplied or extracted.
        hl_keywords: Theme terms, likewise.
        keyword_source: `supplied`, `local`, `lightrag`, or "" where no keywords were used.
        facts: Further JSON facts of the engine (counts, what was dropped, failure reason).
    """

    vector_text: str = ""
    ll_keywords: list[str] = field(default_factory=list)
    hl_keywords: list[str] = field(default_factory=list)
    keyword_source: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


_REPORT: ContextVar[SearchReport | None] = ContextVar("ix_search_report", default=None)


@contextlib.contextmanager
def search_report() -> Iterator[SearchReport]:
    """Collect what the search inside the block sends. LangChain's retriever call returns documents
    alone, so the rest travels beside it; a retriever that reports nothing leaves the fields empty."""
    report = SearchReport()
    token = _REPORT.set(report)
    try:
        yield report
    finally:
        _REPORT.reset(token)


def current_report() -> SearchReport:
    """The report of the search being made; a throw-away one when nobody collects."""
    return _REPORT.get() or SearchReport()
