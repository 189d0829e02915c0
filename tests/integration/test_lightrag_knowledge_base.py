"""Building and opening knowledge bases on real LightRAG."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from fakes import HashEmbedder
from small_base import opened, small_config, small_corpus

from ixinfra.errors import ConfigError, KnowledgeBaseError
from ixrag.lightrag.corpus import Corpus, Entity, Passage, Relation
from ixrag.lightrag.engine import WORKSPACE_VARIABLES
from ixrag.lightrag.knowledge_base import build_knowledge_base, open_knowledge_base
from ixrag.lightrag.known_vectors import KnownVectors, load_known_vectors
from ixrag.lightrag.langgraph_retriever import LightRAGRetriever


async def build(folder: Path, embedder: HashEmbedder, corpus: Corpus | None = None, **kwargs: Any) -> Any:
    return await build_knowledge_base(
        corpus or small_corpus(), "orvelle", config=small_config(folder), embedder=embedder, **kwargs
    )


async def texts_found(folder: Path, query: str = "Brodal") -> set[str]:
    base = await open_knowledge_base("orvelle", config=small_config(folder), embedder=HashEmbedder())
    try:
        return {d.page_content for d in await LightRAGRetriever(knowledge_base=base).ainvoke(query)}
    finally:
        await base.close()


async def test_unchanged_content_is_not_built_again(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    first = await build(tmp_path, embedder)
    assert (first.passages, first.entities, first.relations) == (5, 4, 2)
    embedder.calls.clear()
    assert await build(tmp_path, embedder) == first
    assert embedder.calls == []
    await build(tmp_path, embedder, rebuild=True)
    assert embedder.calls
    assert await texts_found(tmp_path)


async def test_passages_are_embedded_as_passages_and_in_batches(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    await build(tmp_path, embedder)
    assert {kind for kind, _ in embedder.calls} == {"passage"}
    assert len(embedder.calls) == 3  # passages, entities, relations


async def test_changed_content_replaces_the_old_one(tmp_path: Path) -> None:
    await build(tmp_path, HashEmbedder())
    changed = Corpus((Passage(id="new", text="Brodal now costs 5 euros."),))
    await build(tmp_path, HashEmbedder(), changed)
    assert await texts_found(tmp_path) == {"Brodal now costs 5 euros."}
    assert len([path for path in (tmp_path / "orvelle").iterdir() if path.is_dir()]) == 1


async def test_a_build_that_fails_leaves_the_old_index_in_place(tmp_path: Path) -> None:
    class Broken(HashEmbedder):
        async def passage(self, texts: Any) -> Any:
            raise ConnectionError

    await build(tmp_path, HashEmbedder())
    before = await texts_found(tmp_path)
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever LightRAG makes of it
        await build(tmp_path, Broken(), small_corpus("Zamprine"))
    assert await texts_found(tmp_path) == before
    assert not list((tmp_path / "orvelle").glob(".part-*"))


async def test_two_builds_at_once_are_one(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    first, second = await asyncio.gather(build(tmp_path, embedder), build(tmp_path, embedder))
    assert first == second
    assert len(embedder.calls) == 3


async def test_bases_of_the_same_name_in_two_folders_stay_apart(tmp_path: Path) -> None:
    async with (
        opened(tmp_path / "a") as ours,
        opened(tmp_path / "b", corpus=small_corpus("Zamprine")) as theirs,
    ):
        for base, foreign in ((ours, "Zamprine"), (theirs, "Orvelle")):
            for mode in ("naive", "mix"):
                documents = await LightRAGRetriever(knowledge_base=base, rag_mode=mode).ainvoke("offices")
                assert documents
                assert foreign not in str(documents)


async def test_names_keep_type_and_aliases(tmp_path: Path) -> None:
    async with opened(tmp_path) as base:
        assert [(name.name, name.type, name.aliases) for name in base.names] == [
            ("Brodal", "product", ("Brodal Plan",)),
            ("Lumquat", "product", ()),
            ("Fenstrel", "module", ()),
            ("Orvelle", "company", ()),
        ]
        assert [hit.name for hit in base.name_index.find("is brodal plan new?")] == ["Brodal"]


@pytest.mark.parametrize(
    "other", [HashEmbedder(model_id="another"), HashEmbedder(dim=32)], ids=["model", "dimensions"]
)
async def test_an_index_of_another_model_is_refused_with_the_fix(tmp_path: Path, other: HashEmbedder) -> None:
    await build(tmp_path, HashEmbedder())
    with pytest.raises(KnowledgeBaseError, match=r"'hash' \(64 dimensions\).*build it again"):
        await open_knowledge_base("orvelle", config=small_config(tmp_path), embedder=other)


async def test_a_base_that_was_never_built_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeBaseError, match="build it first"):
        await open_knowledge_base("orvelle", config=small_config(tmp_path), embedder=HashEmbedder())


@pytest.mark.parametrize("content", ["", "{}", "not json", '{"format": 1}'])
async def test_a_damaged_manifest_is_refused_and_a_build_repairs_it(tmp_path: Path, content: str) -> None:
    await build(tmp_path, HashEmbedder())
    manifest = tmp_path / "orvelle" / "manifest.json"
    manifest.write_text(content)
    with pytest.raises(KnowledgeBaseError, match="manifest"):
        await open_knowledge_base("orvelle", config=small_config(tmp_path), embedder=HashEmbedder())
    await build(tmp_path, HashEmbedder())
    assert await texts_found(tmp_path)


async def test_another_layout_is_refused(tmp_path: Path) -> None:
    await build(tmp_path, HashEmbedder())
    manifest = tmp_path / "orvelle" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 0}))
    with pytest.raises(KnowledgeBaseError, match="layout 0"):
        await open_knowledge_base("orvelle", config=small_config(tmp_path), embedder=HashEmbedder())


@pytest.mark.parametrize("variable", [*WORKSPACE_VARIABLES, "ENTITY_TYPES"])
async def test_variables_that_reach_through_lightrag_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "shared")
    with pytest.raises(ConfigError, match=variable):
        await build(tmp_path, HashEmbedder())
    with pytest.raises(ConfigError, match=variable):
        await open_knowledge_base("orvelle", config=small_config(tmp_path), embedder=HashEmbedder())


async def test_relations_between_the_same_two_entities_are_merged(tmp_path: Path) -> None:
    passages = (Passage(id="p1", text="Brodal first fact"), Passage(id="p2", text="Brodal second fact"))
    entities = tuple(Entity(name=name, type="product", description=name) for name in ("Brodal", "Lumquat"))
    relations = (
        Relation(source="Brodal", target="Lumquat", description="One.", keywords="a, b", passage="p1"),
        Relation(source="Lumquat", target="Brodal", description="Two.", keywords="b, c", passage="p2"),
    )
    async with opened(tmp_path, corpus=Corpus(passages, entities, relations)) as base:
        documents = await LightRAGRetriever(knowledge_base=base, rag_mode="global").ainvoke("Brodal")
    [relation] = [d for d in documents if d.metadata["kind"] == "relation"]
    assert relation.page_content.endswith(": One. Two.")
    assert relation.metadata["keywords"] == "a, b, c"
    assert relation.metadata["passage_ids"] == ["p1", "p2"]


async def test_known_vectors_spare_the_model_and_another_model_ignores_them(tmp_path: Path) -> None:
    recorder = KnownVectors(HashEmbedder())
    await build(tmp_path / "first", recorder)  # type: ignore[arg-type]  # a wrapper, not a HashEmbedder
    recorder.save(tmp_path / "vectors.npz")
    corpus = Corpus(
        small_corpus().passages, small_corpus().entities, small_corpus().relations, tmp_path / "vectors.npz"
    )
    embedder = HashEmbedder()
    await build(tmp_path / "second", embedder, corpus)
    assert embedder.calls == []
    assert await texts_found(tmp_path / "second") == await texts_found(tmp_path / "first")
    assert load_known_vectors(tmp_path / "vectors.npz", HashEmbedder(model_id="other")).rows == {}
