"""Two searches for one turn, fused: the visitor's words are kept, a rewrite is searched beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document

from ixinfra.config.settings import RagMode
from ixrag.documents import Retriever

RRF_K = 60


@dataclass(frozen=True, slots=True)
class KeepingRetriever:
    """Searches what it is given and, beside it, the visitor's own words.

    Attributes:
        inner: Searches one text.
        own_words: The visitor's message.
    """

    inner: Retriever
    own_words: str

    @property
    def rag_mode(self) -> RagMode:
        """The inner retriever's."""
        return self.inner.rag_mode

    async def ainvoke(self, input: str, **kwargs: Any) -> Sequence[Document]:
        """Documents of both searches by reciprocal rank, as many as the longer one found."""
        if input == self.own_words:
            return await self.inner.ainvoke(input, **kwargs)
        both = (self.own_words, input)
        return fuse(await asyncio.gather(*(self.inner.ainvoke(text, **kwargs) for text in both)))


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
