"""Texts into the vectors of the three channels, for passages and for queries."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from ixinfra.embeddings import Embedder
from ixinfra.errors import MissingExtraError
from ixrag.query.languages import exact, language_of
from ixrag.search.index import Channel, Entry, SparseVector, Vector, digest_of
from ixrag.words import words

BM25_LANGUAGES: Mapping[str, str] = {
    "da": "danish", "de": "german", "en": "english", "es": "spanish", "fi": "finnish", "fr": "french",
    "hu": "hungarian", "it": "italian", "nl": "dutch", "no": "norwegian", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "sv": "swedish", "tr": "turkish",
}  # fmt: skip
AVERAGE_WORDS = 100.0  # of a passage; BM25 forgives a factor of two


@runtime_checkable
class SparseEncoder(Protocol):
    """A model of learned terms. `E5Embedder` is one; SPLADE behind the same two calls is another."""

    @property
    def sparse_id(self) -> str:
        """Name of the model; passages encoded with another one cannot be searched."""

    async def sparse(self, texts: Sequence[str]) -> list[tuple[list[int], list[float]]]:
        """Term ids and weights of each text, the same for passages and queries."""


@dataclass(frozen=True, slots=True)
class Encoders:
    """The three models of an index.

    Attributes:
        embedder: Makes the dense vectors.
        sparse: Makes the learned terms.
        language: ISO 639 code of a text that does not show its own.
        bm25_id: Name of the word model.
    """

    embedder: Embedder
    sparse: SparseEncoder
    language: str = ""
    bm25_id: str = field(default="qdrant-bm25-100", init=False)

    @property
    def model_id(self) -> str:
        """Changes when passages must be encoded again."""
        return f"{self.embedder.model_id}+{self.sparse.sparse_id}+{self.bm25_id}"

    def language_of(self, text: str) -> str:
        """The language a text shows, else the default."""
        found = language_of([exact(text, word) for word in words(text)], self.language)
        return found.code if found else self.language

    async def query(self, channel: Channel, text: str, lang: str) -> Vector:
        """The vector of a query for one channel.

        Args:
            channel: Where it will be searched.
            text: The query.
            lang: Its language; counts for `bm25` alone.
        """
        if channel == "dense":
            return [float(value) for value in (await self.embedder.query([text]))[0]]
        if channel == "sparse":
            (terms,) = await self.sparse.sparse([text])
            return SparseVector(tuple(terms[0]), tuple(terms[1]))
        return written_words(text, lang, is_query=True)

    def with_words(self, vector: SparseVector, words: Mapping[str, float], lang: str) -> SparseVector:
        """A vector of written words with further words beside it, each at the weight it is given."""
        weights = dict(zip(vector.indices, vector.values, strict=True))
        for word, weight in words.items():
            for term in written_words(word, lang, is_query=True).indices:
                weights.setdefault(term, weight)
        return SparseVector(tuple(weights), tuple(weights.values()))

    async def entries(self, passages: Sequence[Text]) -> list[Entry]:
        """Passages with their vectors, in order."""
        texts = [passage.text for passage in passages]
        dense, sparse = await asyncio.gather(self.embedder.passage(texts), self.sparse.sparse(texts))
        return [
            Entry(
                passage.id,
                passage.text,
                {
                    "dense": [float(value) for value in row],
                    "sparse": SparseVector(tuple(ids), tuple(weights)),
                    "bm25": written_words(passage.text, passage.lang or self.language, is_query=False),
                },
                passage.lang,
                passage.source,
                passage.title,
                self.digest(passage),
            )
            for passage, row, (ids, weights) in zip(passages, dense, sparse, strict=True)
        ]

    def digest(self, passage: Text) -> str:
        """Changes with anything that is stored of a passage."""
        return digest_of(
            self.model_id, self.language, passage.text, passage.lang, passage.source, passage.title
        )


@dataclass(frozen=True, slots=True)
class Text:
    """A passage before it has vectors. `text` is what is searched and returned, title included."""

    id: str
    text: str
    lang: str = ""
    source: str = ""
    title: str = ""


def written_words(text: str, lang: str, *, is_query: bool) -> SparseVector:
    """Qdrant's BM25 vector of a text: hashed stems, weighed by frequency and length in a passage.

    Raises:
        MissingExtraError: The package with the model is missing.
    """
    model = _bm25(lang if lang in BM25_LANGUAGES else "")
    clean = text.encode("utf-8", "replace").decode("utf-8")
    found = model.embed_query(clean) if is_query else model.embed_document(clean)
    return SparseVector(tuple(found.indices), tuple(found.values))


@lru_cache(maxsize=32)
def _bm25(lang: str) -> Any:
    try:
        import qdrant_edge as edge
    except ImportError as error:
        raise MissingExtraError(
            "the engine's word index needs qdrant-edge-py: pip install 'ixchat[engine]'"
        ) from error
    if lang:
        return edge.Bm25(
            edge.Bm25Config(language=BM25_LANGUAGES[lang], ascii_folding=True, avg_len=AVERAGE_WORDS)
        )
    return edge.Bm25(
        edge.Bm25Config(
            tokenizer=edge.TokenizerType.Multilingual,
            stopwords=edge.StopwordsSet(),
            stemmer=edge.DisabledStemmer(),
            ascii_folding=True,
            avg_len=AVERAGE_WORDS,
        )
    )
