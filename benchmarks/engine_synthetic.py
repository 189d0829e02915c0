"""Made-up passages with the statistics of real ones, in any number: what `benchmarks.engine latency` searches.

Measured on MTRAG passages and questions, and copied here: a passage has about 270 learned terms whose frequency
falls as 1 / (rank + 50), so that the commonest is in nearly every passage, and 45 stems; a question has about 160
terms and 4 stems. A question meets 14 learned terms of an average passage. e5 vectors lie around a mean, and
60 directions hold nearly all of their variance.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ixrag.search.index import Channel, Entry, SparseVector, Vector

DIM = 384
LANGUAGE = "en"
PORTION = 500
TERMS = 16_384  # of the learned model
WORDS = 200_000  # of the vocabulary
STEMS = 50  # drawn for a passage, some twice
QUERY_STEMS = 4
_DIRECTIONS = 64

Rows = NDArray[np.float32]


class Synthetic:
    """Passages and queries of one seed; passage `n` is the same however many there are."""

    def __init__(self, seed: int = 7) -> None:
        self._seed = seed
        rng = np.random.default_rng(seed)
        spread = (np.arange(1, _DIRECTIONS + 1) ** -0.6)[:, None]
        self._directions = (rng.normal(size=(_DIRECTIONS, DIM)) * spread).astype(np.float32)
        self._mean = (rng.normal(size=DIM) * 4.0).astype(np.float32)
        shares = 48.0 / (np.arange(TERMS) + 50.0)
        self._passage_terms = shares.astype(np.float32)
        self._query_terms = (0.28 * shares + 85.0 / TERMS).astype(np.float32)
        frequency = (np.arange(WORDS) + 30.0) ** -1.1
        self._words = np.cumsum(frequency / frequency.sum())

    def portions(self, first: int, end: int) -> Iterator[list[Entry]]:
        """Passages `first` (a multiple of `PORTION`) to `end`, `PORTION` at a time."""
        for at in range(first, end, PORTION):
            count = min(PORTION, end - at)
            vectors = self._vectors(
                np.random.default_rng([self._seed, at]), count, self._passage_terms, STEMS
            )
            yield [
                Entry(f"p{at + n}", _text(found["bm25"]), found, LANGUAGE, f"document {(at + n) // 20}")
                for n, found in enumerate(vectors)
            ]

    def queries(self, count: int) -> list[dict[Channel, Vector]]:
        """The three vectors of questions."""
        rng = np.random.default_rng([self._seed, 1])
        return self._vectors(rng, count, self._query_terms, QUERY_STEMS)

    def _vectors(
        self, rng: np.random.Generator, count: int, shares: Rows, stems: int
    ) -> list[dict[Channel, Vector]]:
        dense = rng.standard_normal((count, _DIRECTIONS), np.float32) @ self._directions + self._mean
        dense += 0.1 * rng.standard_normal((count, DIM), np.float32)
        dense /= np.linalg.norm(dense, axis=1, keepdims=True)
        has_term = rng.random((count, TERMS), np.float32) < shares
        weights = (0.5 + rng.exponential(0.25, int(has_term.sum()))).tolist()
        terms = np.nonzero(has_term)[1].tolist()
        ends = np.cumsum(has_term.sum(axis=1)).tolist()
        words = np.searchsorted(self._words, rng.random((count, stems))).tolist()
        return [
            {
                "dense": dense[n].tolist(),
                "sparse": SparseVector(tuple(terms[start:end]), tuple(weights[start:end])),
                "bm25": SparseVector(found := tuple(sorted(set(words[n]))), (1.0,) * len(found)),
            }
            for n, (start, end) in enumerate(zip([0, *ends], ends, strict=False))
        ]


def _text(written: Vector) -> str:
    """A hundred words whose runs of three are the passage's own, as those of written passages are."""
    assert isinstance(written, SparseVector)
    return " ".join(f"word{number}" for number in [*written.indices, *reversed(written.indices)])
