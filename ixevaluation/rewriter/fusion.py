"""Two searches for one turn, fused: the visitor's words are kept, a rewrite is searched beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document

from ixinfra.config.settings import RagMode
from ixrag.documents import Retriever
from ixrag.search.fusion import Ranking, fuse_documents

RRF_K = 60  # the paper's: both searches weigh the same, so no page has to be entered against a weight


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
        """Documents of both searches by reciprocal rank, of each kind as many as the longer one found."""
        if input == self.own_words:
            return await self.inner.ainvoke(input, **kwargs)
        both = (self.own_words, input)
        found = await asyncio.gather(*(self.inner.ainvoke(text, **kwargs) for text in both))
        return fuse_documents([Ranking(documents) for documents in found], k=RRF_K)
