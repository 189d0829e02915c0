"""Where the small files of a knowledge base are: its manifest and catalogs, beside the data they describe.

With a server that keeps texts they are kept there, for every machine to see; otherwise in the folder of
the knowledge base.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from ixinfra.config.settings import LightRAGConfig, VectorDatabaseConfig
from ixinfra.errors import KnowledgeBaseError
from ixrag.lightrag.engine import load_lightrag
from ixrag.lightrag.stores import Stores, expect_stores, lease, unreachable

RECORDS_WORKSPACE = "ix-records"  # no knowledge base can have it: a build's name ends in its fingerprint


class Records(Protocol):
    """Texts by key, such as `manifest.json`; a write is seen whole or not at all."""

    @property
    def where(self) -> str:
        """Where they are, for messages."""

    async def read(self, key: str) -> str | None:
        """The text, None where there is none."""

    async def write(self, key: str, text: str) -> None:
        """Replace the text."""

    async def remove(self, key: str) -> None:
        """Remove the text, if it is there."""


class FileRecords:
    """Records as files of a folder; slashes in a key are sub-folders."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def where(self) -> str:
        """The folder."""
        return str(self._folder)

    async def read(self, key: str) -> str | None:
        """The content of the file."""
        return await asyncio.to_thread(self._read, key)

    async def write(self, key: str, text: str) -> None:
        """Write beside the old file, then replace it."""
        await asyncio.to_thread(self._write, key, text)

    async def remove(self, key: str) -> None:
        """Remove the file."""
        await asyncio.to_thread((self._folder / key).unlink, missing_ok=True)

    def _read(self, key: str) -> str | None:
        try:
            return (self._folder / key).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise KnowledgeBaseError(f"{self._folder / key} cannot be read ({error})") from None

    def _write(self, key: str, text: str) -> None:
        path = self._folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)


class StoreRecords:
    """Records in LightRAG's key-value storage, in a workspace of their own.

    Args:
        storage: An initialised storage of the namespace `full_docs`.
        name: Knowledge base, which begins each key.
    """

    def __init__(self, storage: Any, name: str) -> None:
        self._storage = storage
        self._name = name

    @property
    def where(self) -> str:
        """The storage class and the knowledge base."""
        return f"{type(self._storage).__name__}: {self._name}"

    async def read(self, key: str) -> str | None:
        """The content of the record."""
        row = await self._storage.get_by_id(f"{self._name}/{key}")
        return str(row["content"]) if row else None

    async def write(self, key: str, text: str) -> None:
        """One upsert; the storages make it atomic."""
        await self._storage.upsert({f"{self._name}/{key}": {"content": text, "file_path": key}})
        await self._storage.index_done_callback()

    async def remove(self, key: str) -> None:
        """Delete the record."""
        await self._storage.delete([f"{self._name}/{key}"])
        await self._storage.index_done_callback()


@asynccontextmanager
async def open_records(
    name: str, config: LightRAGConfig, database: VectorDatabaseConfig
) -> AsyncIterator[Records]:
    """The records of one knowledge base.

    Raises:
        ConfigError: The stores cannot be used as configured.
        MissingExtraError: A client package is missing.
        KnowledgeBaseError: The server does not answer.
    """
    stores = expect_stores(database)
    if not stores.keeps_records:
        yield FileRecords(config.working_dir / name)
        return
    await asyncio.to_thread(load_lightrag, stores)
    release = lease(database)
    try:
        storage = await _storage(stores, database)
        try:
            yield StoreRecords(storage, name)
        finally:
            await storage.finalize()
    finally:
        release()


async def _storage(stores: Stores, database: VectorDatabaseConfig) -> Any:
    factory = importlib.import_module("lightrag.kg.factory")
    importlib.import_module("lightrag.kg.shared_storage").initialize_share_data()
    storage = factory.get_storage_class(stores.kv)(
        namespace="full_docs",
        workspace=RECORDS_WORKSPACE,
        global_config={"vector_storage": stores.vectors},
        embedding_func=None,
    )
    try:
        await storage.initialize()
    except Exception as error:  # whatever the client raises
        raise unreachable(database, error) from None
    return storage
