"""The same code on a real PostgreSQL with pgvector, by another `vector_database` alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import HashEmbedder
from postgres_server import postgres, url_of
from small_base import small_config, small_corpus

from ixinfra.config.settings import VectorDatabaseConfig
from ixinfra.errors import ConfigError, KnowledgeBaseError
from ixrag.ingest.run import IngestPlan, ingest
from ixrag.lightrag.knowledge_base import build_knowledge_base, open_knowledge_base
from ixrag.lightrag.langgraph_retriever import LightRAGRetriever

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with postgres(tmp_path_factory.mktemp("pg")) as running:
        yield running


@pytest.fixture
def database(server: Any) -> VectorDatabaseConfig:
    return VectorDatabaseConfig(storage="postgres", url=url_of(server), max_connections=6)


async def search(
    name: str, folder: Path, database: VectorDatabaseConfig, query: str, mode: Any = "mix"
) -> list[tuple[str, str]]:
    base = await open_knowledge_base(
        name, config=small_config(folder), embedder=HashEmbedder(), database=database
    )
    try:
        documents = await LightRAGRetriever(knowledge_base=base, rag_mode=mode, tenant_id="t").ainvoke(query)
    finally:
        await base.close()
    return [(document.metadata["kind"], document.page_content) for document in documents]


async def test_ingest_and_search_and_nothing_in_files(tmp_path: Path, database: VectorDatabaseConfig) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "brodal.md").write_text("# Brodal\n\nBrodal plans shifts. In every shop Brodal needs Fenstrel.")
    (docs / "lumquat.txt").write_text("Lumquat keeps stock for 5 euros.")
    plan = IngestPlan("shop", (docs,), small_config(tmp_path / "here"), database=database)
    before = dict(os.environ)
    first = await ingest(plan, HashEmbedder())
    assert first.manifest.passages == 2
    again = await ingest(plan, HashEmbedder())
    assert (again.built, again.embedded, again.manifest) == (False, 0, first.manifest)
    assert {file.name for file in (tmp_path / "here").rglob("*") if file.is_file()} <= {"ingest.sqlite3"}
    # Another machine, that is another folder, finds it: manifest, names and index are on the server.
    hits = await search("shop", tmp_path / "elsewhere", database, "Brodal shifts")
    assert {kind for kind, _ in hits} == {"chunk", "entity", "relation"}
    (docs / "lumquat.txt").write_text("Lumquat keeps stock for 7 euros.")
    changed = await ingest(plan, HashEmbedder())
    assert changed.embedded >= 1
    texts = [
        text
        for kind, text in await search("shop", tmp_path, database, "Lumquat euros", "naive")
        if kind == "chunk"
    ]
    assert any("7 euros" in text for text in texts)
    assert not any("5 euros" in text for text in texts)
    assert dict(os.environ) == before


async def test_only_two_builds_are_kept(tmp_path: Path, database: VectorDatabaseConfig, server: Any) -> None:
    config, embedder = small_config(tmp_path), HashEmbedder()
    for company in ("Orvelle", "Halvane", "Tarvo"):
        newest = await build_knowledge_base(
            small_corpus(company), "kept", config=config, embedder=embedder, database=database
        )
    rows = server.psql("SELECT DISTINCT workspace FROM lightrag_doc_chunks WHERE workspace LIKE 'kept-%';")
    assert newest.workspace in rows
    assert rows.count("kept-") == 2
    assert any("Tarvo" in text for _, text in await search("kept", tmp_path, database, "offices", "naive"))


async def test_knowledge_bases_do_not_see_each_other(tmp_path: Path, database: VectorDatabaseConfig) -> None:
    config, embedder = small_config(tmp_path), HashEmbedder()
    for name, company in (("one", "Orvelle"), ("two", "Halvane")):
        await build_knowledge_base(
            small_corpus(company), name, config=config, embedder=embedder, database=database
        )
    hits = await search("one", tmp_path, database, "Brodal prices and offices")
    assert any("Orvelle" in text for _, text in hits)
    assert not any("Halvane" in text for _, text in hits)


async def test_the_environment_and_config_ini_have_no_say(
    tmp_path: Path, database: VectorDatabaseConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.ini").write_text("[postgres]\nssl_mode = verify-full\nworkspace = shared\nport = 1\n")
    (tmp_path / ".env").write_text("POSTGRES_WORKSPACE=shared\nPOSTGRES_HOST=db.invalid\n")
    for name, value in {"HOST": "db.invalid", "PORT": "1", "USER": "nobody", "DATABASE": "none"}.items():
        monkeypatch.setenv(f"POSTGRES_{name}", value)
    config, embedder = small_config(tmp_path / "kb"), HashEmbedder()
    await build_knowledge_base(small_corpus(), "own", config=config, embedder=embedder, database=database)
    assert await search("own", tmp_path / "kb", database, "Brodal", "naive")
    assert "POSTGRES_WORKSPACE" not in os.environ


async def test_a_second_server_in_one_process_is_refused_while_the_first_is_open(
    tmp_path: Path, database: VectorDatabaseConfig
) -> None:
    config, embedder = small_config(tmp_path), HashEmbedder()
    await build_knowledge_base(small_corpus(), "first", config=config, embedder=embedder, database=database)
    base = await open_knowledge_base("first", config=config, embedder=embedder, database=database)
    other = database.model_copy(update={"max_connections": 7})
    try:
        with pytest.raises(ConfigError, match="one connection pool a process"):
            await open_knowledge_base("first", config=config, embedder=embedder, database=other)
    finally:
        await base.close()
    again = await open_knowledge_base("first", config=config, embedder=embedder, database=other)
    await again.close()


async def test_a_server_that_is_not_there_is_told_in_seconds(tmp_path: Path) -> None:
    nowhere = VectorDatabaseConfig(storage="postgres", url="postgresql://ix@127.0.0.1:9/ix", api_key="sesame")
    with pytest.raises(KnowledgeBaseError, match="cannot be used") as error:
        await open_knowledge_base(
            "x", config=small_config(tmp_path), embedder=HashEmbedder(), database=nowhere
        )
    assert "sesame" not in str(error.value)
