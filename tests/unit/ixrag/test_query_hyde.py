from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from fakes import ScriptedModel
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ixinfra.embeddings import Vectors
from ixinfra.errors import ModelError
from ixrag.query import HyDEGenerator, MemoryCache, QueryContext
from ixrag.query.cache import CacheKey
from ixrag.query.hyde import embedding_key, mean_vector

CTX = QueryContext("acme")


class TableEmbedder:
    """Looks vectors up in a table; unknown texts point along the first axis."""

    dim = 2
    model_id = "table-1"

    def __init__(self, table: dict[str, tuple[float, float]] | None = None) -> None:
        self.table = table or {}
        self.embedded: list[str] = []

    async def query(self, texts: Sequence[str]) -> Vectors:
        raise AssertionError("a made-up passage is no question")

    async def passage(self, texts: Sequence[str]) -> Vectors:
        self.embedded += texts
        return np.array([self.table.get(text, (1.0, 0.0)) for text in texts], np.float32)


async def test_one_passage_is_its_own_mean() -> None:
    embedder = TableEmbedder({"A passage.": (0.6, 0.8)})
    result = await HyDEGenerator(ScriptedModel(script=["A passage."]), embedder).generate(CTX, "a question")

    assert result.documents == ["A passage."]
    assert result.vector == pytest.approx([0.6, 0.8])
    assert result.model == "table-1"
    assert (result.cache_hits, result.cache_misses) == (0, 0)


async def test_several_passages_are_averaged_to_unit_length() -> None:
    embedder = TableEmbedder({"one": (1.0, 0.0), "two": (0.0, 1.0), "three": (0.0, 1.0)})
    model = ScriptedModel(script=["one", "two", "three"])

    result = await HyDEGenerator(model, embedder, n=3).generate(CTX, "a question")

    assert sorted(result.documents) == ["one", "three", "two"]
    # By hand: the mean is (1/3, 2/3), its length sqrt(5)/3.
    assert result.vector == pytest.approx([1 / 5**0.5, 2 / 5**0.5])


async def test_without_an_embedder_there_are_passages_and_no_vector() -> None:
    result = await HyDEGenerator(ScriptedModel(script=["A passage."])).generate(CTX, "a question")

    assert (result.documents, result.vector, result.model) == (["A passage."], None, None)


async def test_a_cache_needs_an_embedder() -> None:
    with pytest.raises(ValueError, match="embedder"):
        HyDEGenerator(ScriptedModel(), embedding_cache=MemoryCache())


def test_there_is_at_least_one_passage() -> None:
    with pytest.raises(ValueError, match="`n` must be >= 1, got 0"):
        HyDEGenerator(ScriptedModel(), n=0)


async def test_a_passage_seen_before_is_not_embedded_again() -> None:
    embedder, model = TableEmbedder(), ScriptedModel(script=["one", "two", "two", "three"])
    hyde = HyDEGenerator(model, embedder, n=2, embedding_cache=MemoryCache())

    first = await hyde.generate(CTX, "a question")
    second = await hyde.generate(CTX, "a question")

    assert (first.cache_hits, first.cache_misses) == (0, 2)
    assert (second.cache_hits, second.cache_misses) == (1, 1)
    assert sorted(embedder.embedded) == ["one", "three", "two"]


async def test_vectors_are_kept_by_tenant_and_never_without_one() -> None:
    cache, embedder = MemoryCache(), TableEmbedder()
    hyde = HyDEGenerator(ScriptedModel(script=["one"]), embedder, embedding_cache=cache)

    for tenant_id in ("a", "b", "", ""):
        await hyde.generate(QueryContext(tenant_id), "a question")

    assert len(cache) == 2
    assert len(embedder.embedded) == 4


@pytest.mark.parametrize("stored", [b"", b"123", np.array([np.nan, 1], np.float32).tobytes(), b"x" * 80])
async def test_an_unreadable_vector_is_computed_again(stored: bytes) -> None:
    cache, embedder = MemoryCache(), TableEmbedder({"one": (0.0, 1.0)})
    key = embedding_key("acme", "table-1", "v1", "one")
    assert isinstance(key, CacheKey)
    await cache.put(key, stored, ttl_s=60)
    hyde = HyDEGenerator(ScriptedModel(script=["one"]), embedder, embedding_cache=cache)

    assert (await hyde.generate(CTX, "a question")).vector == pytest.approx([0, 1])
    assert (await hyde.generate(CTX, "a question")).cache_hits == 1


async def test_others_can_fill_the_cache() -> None:
    cache, embedder = MemoryCache(), TableEmbedder()
    key = embedding_key("acme", "table-1", "v1", "a  passage ")
    assert key is not None
    await cache.put(key, np.array([0, 1], np.float32).tobytes(), ttl_s=60)
    hyde = HyDEGenerator(ScriptedModel(script=["a passage"]), embedder, embedding_cache=cache)

    result = await hyde.generate(CTX, "a question")

    assert (result.vector, result.cache_hits, embedder.embedded) == ([0.0, 1.0], 1, [])


async def test_one_failed_passage_of_several_is_missing() -> None:
    model = ScriptedModel(script=["one", RuntimeError("down"), "two"])

    assert len((await HyDEGenerator(model, n=3).generate(CTX, "a question")).documents) == 2


async def test_all_passages_failing_is_an_error() -> None:
    with pytest.raises(ModelError):
        await HyDEGenerator(ScriptedModel(script=[RuntimeError("down")]), n=2).generate(CTX, "a question")


@pytest.mark.parametrize(("query", "script"), [("", ["a passage"]), ("a question", [""])])
async def test_nothing_written_has_no_vector(query: str, script: list[str]) -> None:
    result = await HyDEGenerator(ScriptedModel(script=script), TableEmbedder()).generate(CTX, query)

    assert (result.documents, result.vector) == ([], None)


async def test_a_prompt_of_ones_own_is_sent() -> None:
    model = ScriptedModel()
    await HyDEGenerator(model, system_prompt="Write {it}.").generate(CTX, "a question")

    assert [message.content for message in model.asked[0]] == ["Write {it}.", "a question"]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([], id="no rows"),
        pytest.param([[1, 0], [-1, 0]], id="they cancel out"),
        pytest.param([[np.inf, 0]], id="infinite"),
        pytest.param([[np.nan, 0]], id="not a number"),
    ],
)
def test_no_direction_is_no_vector(rows: list[list[float]]) -> None:
    assert mean_vector(np.array(rows, np.float32).reshape(-1, 2)) is None


@given(
    hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 5), st.integers(1, 8)),
        elements=st.floats(-1, 1, width=32),
    )
)
def test_the_mean_is_the_loop_written_out(rows: Vectors) -> None:
    mean = [sum(float(row[column]) for row in rows) / len(rows) for column in range(rows.shape[1])]
    length = sum(value * value for value in mean) ** 0.5
    vector = mean_vector(rows)

    if vector is None:
        assert length < 1e-5
    else:
        assert vector == pytest.approx([value / length for value in mean], abs=1e-6)
