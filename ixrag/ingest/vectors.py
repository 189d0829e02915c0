"""Passage vectors that are paid for once: what has been embedded before comes from the record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from ixinfra.embeddings import Embedder, Vectors
from ixrag.ingest.state import IngestState, text_digest


class RememberedVectors:
    """An embedder whose passage vectors outlive the process. Every call is saved before it returns.

    Args:
        embedder: Asked for queries, and for texts that are new.
        state: Where vectors are remembered.

    Attributes:
        told: Called after each call with the number of texts that were wanted.
        embedded: How many texts the other embedder was asked for.
        used: Digests of all texts that were wanted.
    """

    def __init__(self, embedder: Embedder, state: IngestState) -> None:
        self._embedder = embedder
        self._state = state
        self.told: Callable[[int], None] | None = None
        self.embedded = 0
        self.used: set[bytes] = set()

    @property
    def dim(self) -> int:
        """That of the other embedder."""
        return self._embedder.dim

    @property
    def model_id(self) -> str:
        """That of the other embedder."""
        return self._embedder.model_id

    async def query(self, texts: Sequence[str]) -> Vectors:
        """Vectors of the other embedder."""
        return await self._embedder.query(texts)

    async def passage(self, texts: Sequence[str]) -> Vectors:
        """Remembered vectors, and those of the other embedder for the rest."""
        known = await asyncio.to_thread(self._state.vectors, self.model_id, texts, self.dim)
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            vectors = await self._embedder.passage(missing)
            new = dict(zip(missing, vectors, strict=True))
            await asyncio.to_thread(self._state.put_vectors, self.model_id, new)
            known |= new
            self.embedded += len(missing)
        self.used.update(map(text_digest, texts))
        if self.told:
            self.told(len(texts))
        return np.stack([known[text] for text in texts]) if texts else np.empty((0, self.dim), np.float32)
