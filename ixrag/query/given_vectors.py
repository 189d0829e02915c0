"""A vector found elsewhere, searched in place of a text's own: how an averaged vector enters an engine
that only takes texts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar

import numpy as np

from ixinfra.embeddings import Embedder, Vectors

_GIVEN: ContextVar[tuple[str, Vectors] | None] = ContextVar("ix_given_vector", default=None)


class GivenVectors:
    """An embedder that knows the vector `give_vector` named, and asks another one for the rest."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def dim(self) -> int:
        """That of the other embedder."""
        return self._embedder.dim

    @property
    def model_id(self) -> str:
        """That of the other embedder."""
        return self._embedder.model_id

    async def query(self, texts: Sequence[str]) -> Vectors:
        """The given vector for each text that contains the one it stands for: an engine may have wrapped it."""
        given = _GIVEN.get()
        if given is None or len(given[1]) != self.dim:
            return await self._embedder.query(texts)
        others = [text for text in texts if given[0] not in text]
        rows = iter(await self._embedder.query(others) if others else ())
        return np.stack([next(rows) if given[0] not in text else given[1] for text in texts])

    async def passage(self, texts: Sequence[str]) -> Vectors:
        """Vectors of the other embedder."""
        return await self._embedder.passage(texts)


@contextlib.contextmanager
def give_vector(text: str, vector: Sequence[float] | None) -> Iterator[None]:
    """Inside the block `vector` stands for `text`; None changes nothing."""
    given = None if vector is None else (text.strip(), np.asarray(vector, np.float32))
    token = _GIVEN.set(given)
    try:
        yield
    finally:
        _GIVEN.reset(token)
