"""One suite, two indexes: the shard in this process and the client's stand-in for a server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient

from ixinfra.errors import KnowledgeBaseError, RetrievalError
from ixrag.search.encoders import written_words
from ixrag.search.fusion import rrf
from ixrag.search.index import CHANNELS, Channel, Entry, FusingIndex, SparseVector, Vector
from ixrag.search.qdrant import open_server_index
from ixrag.search.qdrant_edge import EmbeddedIndex

DIM = 8


async def in_local_mode(client: AsyncQdrantClient) -> FusingIndex:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Payload indexes have no effect")
        return await open_server_index(client, "passages", DIM)


@pytest.fixture(params=["embedded", "client in local mode"])
async def index(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FusingIndex]:
    if request.param == "embedded":
        opened: FusingIndex = EmbeddedIndex(tmp_path / "shard", DIM)
    else:
        opened = await in_local_mode(AsyncQdrantClient(":memory:"))
    yield opened
    await opened.close()


def entry(
    passage_id: str, text: str, *, lang: str = "en", seed: int | None = None, digest: str = ""
) -> Entry:
    rng = np.random.default_rng(sum(map(ord, passage_id)) if seed is None else seed)
    terms = sorted(rng.choice(40, 6, replace=False).tolist())
    vectors: dict[Channel, Vector] = {
        "dense": rng.normal(size=DIM).tolist(),
        "sparse": SparseVector(tuple(terms), tuple(rng.random(6).tolist())),
        "bm25": written_words(text, lang, is_query=False),
    }
    return Entry(passage_id, text, vectors, lang, f"{passage_id}.pdf", passage_id.title(), digest)


PASSAGES = [
    entry("price", "Brodal costs three euros a month"),
    entry("stock", "Lumquat counts the stock of a shop"),
    entry("shifts", "Brodal plans the shifts of a restaurant"),
    entry("conges", "Les congés payés des salariés", lang="fr"),
]


@pytest.mark.parametrize("channel", CHANNELS)
async def test_a_search_never_sees_another_tenant(index: FusingIndex, channel: Channel) -> None:
    await index.upsert("a", PASSAGES[:2])
    await index.upsert("b", PASSAGES[2:])
    for tenant, own in (("a", {"price", "stock"}), ("b", {"shifts", "conges"}), ("c", set())):
        for passage in PASSAGES:
            hits = await index.search(tenant, channel, passage.vectors[channel], limit=10)
            assert {hit.id for hit in hits} <= own


@pytest.mark.parametrize("tenant", ["", "  "])
async def test_a_search_without_tenant_is_refused(index: FusingIndex, tenant: str) -> None:
    with pytest.raises(RetrievalError, match="needs a tenant"):
        await index.search(tenant, "dense", [1.0] * DIM, limit=1)
    with pytest.raises(RetrievalError, match="needs a tenant"):
        await index.fused(tenant, [("dense", [1.0] * DIM)], limit=1, depth=1, k=10)
    with pytest.raises(RetrievalError, match="needs a tenant"):
        await index.upsert(tenant, PASSAGES)


async def test_the_same_passage_id_in_two_tenants_is_two_passages(index: FusingIndex) -> None:
    await index.upsert("a", [entry("price", "three euros")])
    await index.upsert("b", [entry("price", "five dollars")])
    for tenant, text in (("a", "three euros"), ("b", "five dollars")):
        (hit,) = await index.search(tenant, "dense", PASSAGES[0].vectors["dense"], limit=5)
        assert hit.document.page_content == text


async def test_dense_hits_come_in_the_order_of_the_cosine(index: FusingIndex) -> None:
    await index.upsert("a", PASSAGES)
    query = np.random.default_rng(3).normal(size=DIM)
    by_hand = {
        p.id: float(
            np.dot(query, p.vectors["dense"]) / np.linalg.norm(query) / np.linalg.norm(p.vectors["dense"])
        )
        for p in PASSAGES
    }
    hits = await index.search("a", "dense", query.tolist(), limit=10)
    assert [hit.id for hit in hits] == sorted(by_hand, key=lambda key: -by_hand[key])
    assert {hit.id: hit.score for hit in hits} == pytest.approx(by_hand, abs=1e-5)


async def test_rare_words_weigh_by_the_tenants_own_passages(index: FusingIndex) -> None:
    """Another tenant's thousand mentions of a word change nothing here."""
    await index.upsert("a", PASSAGES)
    query = written_words("Brodal stock", "en", is_query=True)
    before = [(hit.id, round(hit.score, 4)) for hit in await index.search("a", "bm25", query, limit=5)]
    assert before[0][0] == "stock"  # one passage of four has it, two have Brodal
    await index.upsert("b", [entry(f"n{n}", "stock of the stock", seed=n) for n in range(50)])
    after = [(hit.id, round(hit.score, 4)) for hit in await index.search("a", "bm25", query, limit=5)]
    assert after == before


async def test_words_are_found_in_the_language_asked_for(index: FusingIndex) -> None:
    await index.upsert("a", PASSAGES)
    query = written_words("congé payé", "fr", is_query=True)
    assert [hit.id for hit in await index.search("a", "bm25", query, limit=5, lang="fr")] == ["conges"]
    assert await index.search("a", "bm25", query, limit=5, lang="en") == []


async def test_languages_are_counted_for_one_tenant(index: FusingIndex) -> None:
    await index.upsert("a", PASSAGES)
    await index.upsert("b", PASSAGES[:1])
    assert await index.languages("a") == {"en": 3, "fr": 1}
    assert await index.languages("c") == {}


async def test_storing_again_replaces(index: FusingIndex) -> None:
    await index.upsert("a", PASSAGES)
    await index.upsert("a", [entry("price", "Brodal costs four euros", digest="new")])
    hits = await index.search("a", "dense", PASSAGES[0].vectors["dense"], limit=10)
    assert len(hits) == len(PASSAGES)
    assert {hit.id: hit.document.page_content for hit in hits}["price"] == "Brodal costs four euros"
    assert await index.digests("a", ["price", "stock", "absent"]) == {"price": "new", "stock": ""}


async def test_surplus_passages_are_removed_from_one_tenant(index: FusingIndex) -> None:
    await index.upsert("a", PASSAGES)
    await index.upsert("b", PASSAGES)
    assert await index.keep_only("a", {"price"}) == 3
    assert [h.id for h in await index.search("a", "dense", [1.0] * DIM, limit=9)] == ["price"]
    assert len(await index.search("b", "dense", [1.0] * DIM, limit=9)) == 4


async def test_fusing_in_the_index_gives_the_ranking_of_our_own_fusion(index: FusingIndex) -> None:
    await index.upsert("a", [entry(f"p{n}", "x", seed=n) for n in range(30)])
    probe = entry("probe", "x", seed=123)
    searches: list[tuple[Channel, Vector]] = [(c, probe.vectors[c]) for c in ("dense", "sparse")]
    lists = [await index.search("a", channel, vector, limit=12) for channel, vector in searches]
    ours = rrf([[hit.id for hit in hits] for hits in lists], k=10)
    # All of them: equal fused scores have no order, and a cut would take either.
    theirs = await index.fused("a", searches, limit=len(ours), depth=12, k=10)
    assert {hit.id: hit.score for hit in theirs} == pytest.approx(dict(ours), abs=1e-6)
    assert [hit.score for hit in theirs] == pytest.approx([score for _, score in ours], abs=1e-6)


async def test_a_closed_index_says_so(index: FusingIndex) -> None:
    await index.close()
    with pytest.raises(RetrievalError) as caught:
        await index.search("a", "dense", [1.0] * DIM, limit=1)
    assert caught.value.reason == "closed"


async def test_searches_go_on_while_passages_are_stored(tmp_path: Path) -> None:
    index = EmbeddedIndex(tmp_path / "shard", DIM)
    await index.upsert("a", PASSAGES)
    storing = asyncio.create_task(
        index.upsert("b", [entry(f"n{n}", "some words here", seed=n) for n in range(400)])
    )
    answered = 0
    while not storing.done():
        answered += len(await index.search("a", "dense", [1.0] * DIM, limit=4)) == 4
    await storing
    await index.optimize()
    assert answered > 0
    await index.close()


async def test_a_reopened_shard_has_everything_and_refuses_another_dimension(tmp_path: Path) -> None:
    index = EmbeddedIndex(tmp_path / "shard", DIM)
    await index.upsert("a", PASSAGES)
    await index.close()
    index = EmbeddedIndex(tmp_path / "shard", DIM)
    assert len(await index.search("a", "dense", [1.0] * DIM, limit=9)) == 4
    await index.close()
    with pytest.raises(KnowledgeBaseError, match="cannot be opened"):
        EmbeddedIndex(tmp_path / "shard", DIM + 1)


async def test_a_second_process_is_told_who_has_the_shard(tmp_path: Path) -> None:
    index = EmbeddedIndex(tmp_path / "shard", DIM)
    code = f"from pathlib import Path; from ixrag.search.qdrant_edge import EmbeddedIndex; EmbeddedIndex(Path({str(tmp_path / 'shard')!r}), {DIM})"
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert "another process has it open" in done.stderr
    await index.close()


async def test_a_collection_of_other_vectors_is_refused() -> None:
    client = AsyncQdrantClient(":memory:")
    await in_local_mode(client)
    with pytest.raises(KnowledgeBaseError, match=f"of {DIM}, not of 3"):
        await open_server_index(client, "passages", 3)
    await client.close()


async def test_a_server_that_is_away_is_an_error_with_the_fix() -> None:
    client = AsyncQdrantClient(url="http://127.0.0.1:9", timeout=1, check_compatibility=False)
    with pytest.raises(KnowledgeBaseError, match=r"vector_database\.url"):
        await open_server_index(client, "passages", DIM)
    await client.close()
