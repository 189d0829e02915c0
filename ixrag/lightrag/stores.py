"""Where LightRAG keeps its data: storage classes, the package and the address each server needs.

LightRAG 1.5.7 configures its server storages from environment variables and a `config.ini` in the
working directory, and installs a missing client package by itself. Here the package is checked first,
and each storage module is given an environment of its own, made from `[vector_database]`: the process's
environment is neither read nor changed.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from ixinfra.config.settings import Storage, VectorDatabaseConfig
from ixinfra.errors import ConfigError, KnowledgeBaseError, MissingExtraError

KEY_VARIABLE = "IX_VECTOR_DATABASE__API_KEY"
FILES = VectorDatabaseConfig()

Variables = dict[str, str]


@dataclass(frozen=True, slots=True)
class Stores:
    """The storage classes behind one value of `vector_database.storage`.

    Attributes:
        kv: Texts, and where it is a server, manifests too.
        vectors: Vectors of passages, entities and relations.
        graph: Nodes and edges.
        doc_status: LightRAG's list of documents.
        modules: Modules of `lightrag.kg` with the server classes.
        packages: What must be importable, and the extra that brings all of it.
        schemes: Beginnings of an address.
        variables: The variables of the address and the key, for the modules.
        proven: Whether the test suite runs it against a real server.
    """

    kv: str = "JsonKVStorage"
    vectors: str = "NanoVectorDBStorage"
    graph: str = "NetworkXStorage"
    doc_status: str = "JsonDocStatusStorage"
    modules: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
    variables: Callable[[SplitResult, str, int], Variables] = lambda _url, _key, _connections: {}
    proven: bool = False

    @property
    def has_server(self) -> bool:
        """Whether anything is kept outside `lightrag.working_dir`."""
        return bool(self.modules)

    @property
    def has_files(self) -> bool:
        """Whether anything is kept in `lightrag.working_dir`."""
        files = {"JsonKVStorage", "NanoVectorDBStorage", "NetworkXStorage", "JsonDocStatusStorage"}
        return bool(files & {self.kv, self.vectors, self.graph, self.doc_status})

    @property
    def keeps_records(self) -> bool:
        """Whether manifests are kept on the server, for every machine to see."""
        return self.kv != "JsonKVStorage"


def _postgres(url: SplitResult, key: str, connections: int) -> Variables:
    query = dict(parse_qsl(url.query))
    names = {
        "host": "HOST",
        "port": "PORT",
        "sslmode": "SSL_MODE",
        "sslrootcert": "SSL_ROOT_CERT",
        "sslcert": "SSL_CERT",
        "sslkey": "SSL_KEY",
        "statement_cache_size": "STATEMENT_CACHE_SIZE",
    }
    if unknown := sorted(query.keys() - names.keys()):
        raise ConfigError(f"vector_database.url: unknown option {unknown[0]!r}; known are {sorted(names)}")
    return {
        "POSTGRES_HOST": url.hostname or "localhost",
        "POSTGRES_PORT": str(url.port or 5432),
        "POSTGRES_USER": unquote(url.username or "postgres"),
        "POSTGRES_PASSWORD": key,
        "POSTGRES_DATABASE": _path(url) or "postgres",
        "POSTGRES_MAX_CONNECTIONS": str(connections),
        # A wrong address is told in seconds, not after ten tries three seconds apart.
        "POSTGRES_CONNECTION_RETRIES": "2",
        "POSTGRES_CONNECTION_RETRY_BACKOFF": "0.5",
        "POSTGRES_CONNECTION_RETRY_BACKOFF_MAX": "1",
        **{f"POSTGRES_{names[name]}": value for name, value in query.items()},
    }


def _with_login(url: SplitResult, key: str) -> str:
    """The address with the key as password, for clients that take both in one text."""
    user = url.username or ""
    login = f"{user}:{quote(key, safe='')}@" if key else f"{user}@" if user else ""
    return url._replace(netloc=login + url.netloc.rpartition("@")[2]).geturl()


def _path(url: SplitResult) -> str:
    return unquote(url.path.strip("/"))


def _bare(url: SplitResult) -> str:
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}"


def _neo4j(url: SplitResult, key: str, _connections: int) -> Variables:
    return {
        "NEO4J_URI": _bare(url),
        "NEO4J_USERNAME": unquote(url.username or "neo4j"),
        "NEO4J_PASSWORD": key,
        "NEO4J_DATABASE": _path(url) or "neo4j",
    }


def _milvus(url: SplitResult, key: str, _connections: int) -> Variables:
    token = {"MILVUS_TOKEN": key} if key else {}
    return {"MILVUS_URI": _bare(url), "MILVUS_DB_NAME": _path(url) or "default", **token}


def _opensearch(url: SplitResult, key: str, _connections: int) -> Variables:
    host = url.netloc.rpartition("@")[2]
    login = {"OPENSEARCH_USER": unquote(url.username or "admin"), "OPENSEARCH_PASSWORD": key} if key else {}
    return {"OPENSEARCH_HOSTS": host, "OPENSEARCH_USE_SSL": str(url.scheme == "https").lower(), **login}


STORES: Mapping[Storage, Stores] = {
    "files": Stores(proven=True),
    "postgres": Stores(
        kv="PGKVStorage",
        vectors="PGVectorStorage",
        graph="PGTableGraphStorage",
        doc_status="PGDocStatusStorage",
        modules=("postgres_impl", "pgtable_impl"),
        packages=("asyncpg", "pgvector"),
        schemes=("postgresql", "postgres"),
        variables=_postgres,
        proven=True,
    ),
    "redis": Stores(
        kv="RedisKVStorage",
        doc_status="RedisDocStatusStorage",
        modules=("redis_impl",),
        packages=("redis",),
        schemes=("redis", "rediss"),
        variables=lambda url, key, _connections: {"REDIS_URI": _with_login(url, key)},
        proven=True,
    ),
    "qdrant": Stores(
        vectors="QdrantVectorDBStorage",
        modules=("qdrant_impl",),
        packages=("qdrant_client",),
        schemes=("http", "https"),
        variables=lambda url, key, _connections: {
            "QDRANT_URL": _bare(url),
            **({"QDRANT_API_KEY": key} if key else {}),
        },
    ),
    "milvus": Stores(
        vectors="MilvusVectorDBStorage",
        modules=("milvus_impl",),
        packages=("pymilvus",),
        schemes=("http", "https"),
        variables=_milvus,
    ),
    "neo4j": Stores(
        graph="Neo4JStorage",
        modules=("neo4j_impl",),
        packages=("neo4j",),
        schemes=("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc"),
        variables=_neo4j,
    ),
    "opensearch": Stores(
        kv="OpenSearchKVStorage",
        vectors="OpenSearchVectorDBStorage",
        graph="OpenSearchGraphStorage",
        doc_status="OpenSearchDocStatusStorage",
        modules=("opensearch_impl",),
        packages=("opensearchpy",),
        schemes=("http", "https"),
        variables=_opensearch,
    ),
    "mongodb": Stores(
        kv="MongoKVStorage",
        vectors="MongoVectorDBStorage",
        graph="MongoGraphStorage",
        doc_status="MongoDocStatusStorage",
        modules=("mongo_impl",),
        packages=("pymongo",),
        schemes=("mongodb", "mongodb+srv"),
        variables=lambda url, key, _connections: {
            "MONGO_URI": _with_login(url, key),
            "MONGO_DATABASE": _path(url) or "ix",
        },
    ),
}
"""Every storage that can be named. The vectors of `neo4j` and `redis`, the texts and the graph of `qdrant`
and `milvus`, stay in files."""

NEEDS_KEY = frozenset({"neo4j"})


def expect_stores(database: VectorDatabaseConfig) -> Stores:
    """The stores of a configuration, if everything they need is there. Connects to nothing.

    Raises:
        ConfigError: The address or the key cannot be used.
        MissingExtraError: A client package is not installed.
    """
    stores = STORES[database.storage]
    store_variables(database)
    for package in stores.packages:
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(
                f"vector_database.storage {database.storage!r} needs the package {package!r}: "
                f"pip install 'ixchat[{database.storage}]'"
            )
    return stores


def store_variables(database: VectorDatabaseConfig) -> Variables:
    """What the storage modules are told, from address and key alone.

    Raises:
        ConfigError: The address is of another kind of server, or the key is missing.
    """
    stores = STORES[database.storage]
    if not stores.has_server:
        return {}
    url = urlsplit(database.url or "")
    if url.scheme not in stores.schemes:
        raise ConfigError(
            f"vector_database.url: {database.storage!r} expects {' or '.join(f'{s}://' for s in stores.schemes)}, "
            f"got {url.scheme + '://' if url.scheme else 'no scheme'!r}"
        )
    key = database.api_key.get_secret_value() if database.api_key else ""
    if not key and database.storage in NEEDS_KEY:
        raise ConfigError(
            f"vector_database.storage {database.storage!r} needs a password: set {KEY_VARIABLE}"
        )
    try:
        return stores.variables(url, key, database.max_connections)
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"vector_database.url: {error}") from None  # a port that is no number


def unreachable(database: VectorDatabaseConfig, error: Exception) -> KnowledgeBaseError:
    """The error for a server that failed at start, without the key that the client's words may hold."""
    text = str(error)
    if database.api_key and (key := database.api_key.get_secret_value()):
        text = text.replace(key, "…")
    return KnowledgeBaseError(
        f"{database.storage!r} at {database.url!r} cannot be used ({type(error).__name__}: {text[:200]}); "
        "see vector_database in the TOML file, or run `ix doctor`"
    )


class _OwnEnvironment:
    """Stands in for the module `os` inside one storage module: everything but its environment is real."""

    def __init__(self, environ: Variables) -> None:
        self.environ = environ

    def getenv(self, name: str, default: str | None = None) -> str | None:
        return self.environ.get(name, default)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


class _NoInstaller:
    """Stands in for `pipmaster`, which would call pip."""

    def is_installed(self, _package: str) -> bool:
        return True  # `expect_stores` has looked


class _EmptyConfigFile:
    """Stands in for a `ConfigParser`: a `config.ini` in the working directory has no say."""

    def read(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def get(self, _section: str, _option: str, *, fallback: Any = None) -> Any:
        return fallback

    def has_option(self, _section: str, _option: str) -> bool:
        return False


class _NoConfigFiles:
    """Stands in for the module `configparser`."""

    ConfigParser = _EmptyConfigFile


@dataclass(slots=True)
class _Lease:
    """Who uses the servers of this process. LightRAG's clients are shared by all its objects."""

    database: VectorDatabaseConfig = FILES
    loop: asyncio.AbstractEventLoop | None = None
    users: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


_LEASE = _Lease()


def lease(database: VectorDatabaseConfig) -> Callable[[], None]:
    """Say that this event loop uses the server; call what is returned when it no longer does.

    Raises:
        ConfigError: The process already uses another server, or this one from another event loop.
    """
    if not STORES[database.storage].has_server:
        return lambda: None
    loop = asyncio.get_running_loop()
    with _LEASE.lock:
        if _LEASE.users and _LEASE.loop is not None and _LEASE.loop.is_closed():
            _LEASE.users = 0
        if not _LEASE.users:
            _configure(database)
            _LEASE.database, _LEASE.loop = database, loop
        elif _LEASE.database != database:
            raise ConfigError(
                f"this process already keeps its knowledge bases in another server ({_LEASE.database.storage!r}); "
                "LightRAG has one connection pool a process: close them first, or start another process"
            )
        elif _LEASE.loop is not loop:
            raise ConfigError(
                f"{database.storage!r} is in use by another event loop of this process; run everything in one"
            )
        _LEASE.users += 1
    return _Release()


class _Release:
    """Gives a lease back, once."""

    done = False

    def __call__(self) -> None:
        with _LEASE.lock:
            _LEASE.users -= not self.done
            self.done = True


def _configure(database: VectorDatabaseConfig) -> None:
    variables = store_variables(database)
    for name in STORES[database.storage].modules:
        module = importlib.import_module(f"lightrag.kg.{name}")
        for attribute, value in {
            "os": _OwnEnvironment(variables),
            "pm": _NoInstaller(),
            "configparser": _NoConfigFiles,
            "config": _EmptyConfigFile(),
            "MAX_CONNECTIONS": database.max_connections,
        }.items():
            if hasattr(module, attribute):
                setattr(module, attribute, value)
        if manager := getattr(module, "ClientManager", None):
            manager._lock = asyncio.Lock()  # the last one belongs to the loop that first waited for it
            if name == "postgres_impl":
                manager._instances.update(db=None, ref_count=0, vector_signature=None)
