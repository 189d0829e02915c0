"""Texts, status and manifests in a real Redis, vectors and graph in files."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from fakes import HashEmbedder
from small_base import small_config, small_corpus

from ixinfra.config.settings import VectorDatabaseConfig
from ixinfra.errors import KnowledgeBaseError
from ixrag.lightrag.knowledge_base import build_knowledge_base, open_knowledge_base
from ixrag.lightrag.langgraph_retriever import LightRAGRetriever

pytestmark = pytest.mark.service

URL = os.environ.get("TEST_REDIS_URL", "redis://127.0.0.1:6379/9")


@pytest.fixture
def name() -> Iterator[str]:
    """A knowledge base of this test alone, in a Redis that may hold others."""
    client = redis.Redis.from_url(URL, socket_connect_timeout=1)
    try:
        client.ping()
    except redis.RedisError as error:
        pytest.skip(f"no Redis at {URL}: {type(error).__name__}")
    name = f"ixtest{secrets.token_hex(4)}"
    yield name
    for key in client.keys(f"*{name}*"):
        client.delete(key)
    client.close()


async def test_build_search_and_find_it_again(tmp_path: Path, name: str) -> None:
    database = VectorDatabaseConfig(storage="redis", url=URL)
    config, embedder = small_config(tmp_path), HashEmbedder()
    first = await build_knowledge_base(
        small_corpus(), name, config=config, embedder=embedder, database=database
    )
    embedder.calls.clear()
    again = await build_knowledge_base(
        small_corpus(), name, config=config, embedder=embedder, database=database
    )
    assert (again, embedder.calls) == (first, [])
    base = await open_knowledge_base(name, config=config, embedder=embedder, database=database)
    try:
        retriever = LightRAGRetriever(knowledge_base=base, rag_mode="mix", tenant_id="t")
        documents = await retriever.ainvoke("Brodal payroll")
    finally:
        await base.close()
    assert {document.metadata["kind"] for document in documents} == {"chunk", "entity", "relation"}
    with pytest.raises(KnowledgeBaseError, match="share that folder"):  # its vectors are on the other machine
        await open_knowledge_base(
            name, config=small_config(tmp_path / "other"), embedder=embedder, database=database
        )
