"""Two searches for one turn, fused: the raw message is kept, a rewrite is added.

The shipping node searches one text. An arm that wants two joins them; the retriever splits them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document

from ixinfra.config.settings import RagMode
from ixrag.documents import Retriever

SEPARATOR = "\u241e"  # "symbol for record separator": no visitor types it
RRF_K = 60


def join_queries(*queries: str) -> str:
    """One text that `FusingRetriever` searches as several."""
    return SEPARATOR.join(queries)


class FusingRetriever:
    """Searches each part of a joined query and fuses the rankings; a plain query passes through."""

    def __init__(self, inner: Retriever) -> None:
        self.inner = inner

    @property
    def rag_mode(self) -> RagMode:
        """The inner retriever's."""
        return self.inner.rag_mode

    async def ainvoke(self, input: str, **kwargs: Any) -> Sequence[Document]:
        """Documents of all parts by reciprocal rank, as many as the longest single search found."""
        parts = input.split(SEPARATOR)
        if len(parts) == 1:
            return await self.inner.ainvoke(input, **kwargs)
        rankings = await asyncio.gather(*(self.inner.ainvoke(part, **kwargs) for part in parts))
        return fuse(rankings)


def fuse(rankings: Sequence[Sequence[Document]], *, k: int = RRF_K) -> list[Document]:
    """Documents by the sum of 1 / (k + rank), rank from 1; equal sums keep first-seen order.

    Source: Cormack, Clarke, Büttcher, SIGIR 2009.
    """
    scores: dict[str, float] = {}
    documents: dict[str, Document] = {}
    for ranking in rankings:
        for rank, document in enumerate(ranking, start=1):
            documents.setdefault(document.page_content, document)
            scores[document.page_content] = scores.get(document.page_content, 0.0) + 1 / (k + rank)
    best = sorted(scores, key=lambda text: -scores[text])
    return [documents[text] for text in best[: max((len(ranking) for ranking in rankings), default=0)]]
