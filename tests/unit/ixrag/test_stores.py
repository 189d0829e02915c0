"""Stores by name: what each is told, and what is said when something is missing. No server is asked."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, get_args

import pytest
from pydantic import SecretStr

from ixinfra.config.settings import Storage, VectorDatabaseConfig
from ixinfra.errors import ConfigError, MissingExtraError
from ixrag.lightrag.engine import load_lightrag
from ixrag.lightrag.stores import STORES, expect_stores, store_variables, unreachable


def config(storage: Any, url: str, key: str | None = None) -> VectorDatabaseConfig:
    return VectorDatabaseConfig(storage=storage, url=url, api_key=SecretStr(key) if key else None)


@pytest.mark.parametrize(
    ("storage", "url", "key", "expected"),
    [
        pytest.param("postgres", "postgresql://ix@db:5433/kb?sslmode=require", "a/b", {"POSTGRES_HOST": "db", "POSTGRES_PORT": "5433", "POSTGRES_USER": "ix", "POSTGRES_PASSWORD": "a/b", "POSTGRES_DATABASE": "kb", "POSTGRES_SSL_MODE": "require", "POSTGRES_MAX_CONNECTIONS": "20"}, id="postgres"),
        pytest.param("postgres", "postgresql:///kb?host=/run/pg", None, {"POSTGRES_HOST": "/run/pg", "POSTGRES_PASSWORD": "", "POSTGRES_USER": "postgres"}, id="socket"),
        pytest.param("redis", "rediss://ix@cache:6380/2", "p@ss", {"REDIS_URI": "rediss://ix:p%40ss@cache:6380/2"}, id="redis"),
        pytest.param("qdrant", "https://q.example:6333", "k", {"QDRANT_URL": "https://q.example:6333", "QDRANT_API_KEY": "k"}, id="qdrant"),
        pytest.param("qdrant", "http://localhost:6333", None, {"QDRANT_URL": "http://localhost:6333"}, id="qdrant without key"),
        pytest.param("milvus", "http://m:19530/kb", "t", {"MILVUS_URI": "http://m:19530", "MILVUS_DB_NAME": "kb", "MILVUS_TOKEN": "t"}, id="milvus"),
        pytest.param("neo4j", "neo4j+s://me@g/graph", "k", {"NEO4J_URI": "neo4j+s://g", "NEO4J_USERNAME": "me", "NEO4J_PASSWORD": "k", "NEO4J_DATABASE": "graph"}, id="neo4j"),
        pytest.param("opensearch", "https://me@o:9200", "k", {"OPENSEARCH_HOSTS": "o:9200", "OPENSEARCH_USE_SSL": "true", "OPENSEARCH_USER": "me", "OPENSEARCH_PASSWORD": "k"}, id="opensearch"),
        pytest.param("mongodb", "mongodb://me@m/kb", "k", {"MONGO_URI": "mongodb://me:k@m/kb", "MONGO_DATABASE": "kb"}, id="mongodb"),
    ],
)  # fmt: skip
def test_a_server_is_told_its_address(
    storage: str, url: str, key: str | None, expected: dict[str, str]
) -> None:
    variables = store_variables(config(storage, url, key))
    assert {name: variables.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("storage", "url", "key", "message"),
    [
        pytest.param("postgres", "http://db", None, "expects postgresql:// or postgres://", id="scheme"),
        pytest.param("postgres", "postgresql://db/kb?sslmod=x", None, "unknown option 'sslmod'", id="option"),
        pytest.param("postgres", "postgresql://db:port/kb", None, "vector_database.url", id="port"),
        pytest.param("neo4j", "neo4j://g", None, "IX_VECTOR_DATABASE__API_KEY", id="no password"),
    ],
)
def test_an_address_that_cannot_be_is_refused(storage: str, url: str, key: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        expect_stores(config(storage, url, key))


def test_every_storage_names_classes_lightrag_knows() -> None:
    load_lightrag()
    registry = importlib.import_module("lightrag.kg")
    assert set(STORES) == set(get_args(Storage))
    for stores in STORES.values():
        kinds = {
            "KV": stores.kv,
            "VECTOR": stores.vectors,
            "GRAPH": stores.graph,
            "DOC_STATUS": stores.doc_status,
        }
        for kind, name in kinds.items():
            registry.verify_storage_implementation(f"{kind}_STORAGE", name)
            module = registry.STORAGES[name].rpartition(".")[2]
            assert module in stores.modules or module in (
                "json_kv_impl",
                "nano_vector_db_impl",
                "networkx_impl",
                "json_doc_status_impl",
            )


@pytest.mark.parametrize("storage", ["milvus", "neo4j", "opensearch", "mongodb"])
def test_a_missing_package_is_named_with_its_extra(storage: str) -> None:
    if importlib.util.find_spec(STORES[storage].packages[0]):  # type: ignore[index]  # the names above are storages
        pytest.skip(f"{storage}: its package is installed here")
    url = f"{STORES[storage].schemes[0]}://server"  # type: ignore[index]
    with pytest.raises(MissingExtraError, match=rf"ixchat\[{storage}\]"):
        expect_stores(config(storage, url, "key"))


def test_what_a_server_says_never_shows_the_key() -> None:
    error = unreachable(config("redis", "redis://cache", "sesame"), OSError("redis://:sesame@cache refused"))
    assert "sesame" not in str(error)
    assert "refused" in str(error)
