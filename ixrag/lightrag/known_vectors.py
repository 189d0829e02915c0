"""Passage vectors computed once and shipped beside a corpus, so that its index is built without the model."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np

from ixinfra.embeddings import Embedder, Vectors
from ixinfra.errors import DatasetError


class KnownVectors:
    """An embedder that looks passages up before it asks another one.

    Args:
        embedder: Asked for queries, and for passages that are not known.
        rows: Vector of each known text, by `text_key`.
    """

    def __init__(self, embedder: Embedder, rows: dict[str, Vectors] | None = None) -> None:
        self._embedder = embedder
        self.rows = {} if rows is None else rows

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
        """Known vectors, and those of the other embedder for the rest, which are known from then on."""
        missing = [text for text in dict.fromkeys(texts) if text_key(text) not in self.rows]
        if missing:
            vectors = await self._embedder.passage(missing)
            self.rows |= {text_key(text): row for text, row in zip(missing, vectors, strict=True)}
        return np.stack([self.rows[text_key(text)] for text in texts])

    def save(self, path: Path) -> None:
        """Write the known vectors, rounded to half precision: 1e-3 of a cosine."""
        keys = sorted(self.rows)
        rows = np.stack([self.rows[key] for key in keys]).astype(np.float16)
        np.savez_compressed(path, model_id=np.array(self.model_id), keys=np.array(keys), rows=rows)


def load_known_vectors(path: Path, embedder: Embedder) -> KnownVectors:
    """The vectors of a file, if they are of this embedder's model; none of another model's.

    Raises:
        DatasetError: The file cannot be read.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            model_id, keys, rows = str(file["model_id"]), file["keys"].tolist(), file["rows"]
    except (OSError, ValueError, KeyError) as error:
        raise DatasetError(f"{path}: not a file of vectors: {error}") from None
    if model_id != embedder.model_id or rows.shape[1:] != (embedder.dim,):
        return KnownVectors(embedder)
    full = rows.astype(np.float32)
    full /= np.linalg.norm(full, axis=1, keepdims=True)
    return KnownVectors(embedder, dict(zip(keys, full, strict=True)))


def text_key(text: str) -> str:
    """Sixteen hex digits that stand for a text."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
