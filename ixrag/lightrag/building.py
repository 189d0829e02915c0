"""Builds the index of a corpus, beside the old one until it is complete."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from ixinfra.config.settings import LightRAGConfig, VectorDatabaseConfig
from ixinfra.embeddings import Embedder
from ixinfra.errors import KnowledgeBaseError
from ixrag.lightrag import custom_graph, extraction
from ixrag.lightrag.calls import stop_lightrag
from ixrag.lightrag.corpus import Corpus
from ixrag.lightrag.engine import refuse_environment, start_lightrag
from ixrag.lightrag.known_vectors import load_known_vectors
from ixrag.lightrag.manifest import (
    FORMAT,
    Builds,
    Catalog,
    Manifest,
    Origin,
    read_builds,
    read_manifest,
    write_record,
)
from ixrag.lightrag.records import Records, open_records
from ixrag.lightrag.stores import FILES, STORES


async def build_knowledge_base(
    corpus: Corpus,
    name: str,
    *,
    config: LightRAGConfig,
    embedder: Embedder,
    database: VectorDatabaseConfig = FILES,
    extractor: extraction.Extractor | None = None,
    origin: Origin | None = None,
    rebuild: bool = False,
) -> Manifest:
    """Build the index of a corpus, unless it is there already.

    The new index stands beside an older one until it is complete; a crash leaves the older one valid.

    Args:
        corpus: What to index.
        name: Name of the knowledge base.
        config: Where its files go, and the batch size.
        embedder: Embeds passages, entities and relations.
        database: Where the index is kept: in files, or on a server.
        extractor: Finds entities and relations by a model; those of the corpus are not used then.
        origin: What the manifest says of where the corpus comes from.
        rebuild: Build even when content, model and layout are the same.

    Raises:
        ConfigError: The environment holds a variable that would mix tenants, or the stores cannot be used.
        MissingExtraError: The stores need a package that is not installed.
        KnowledgeBaseError: LightRAG could not build it.
    """
    refuse_environment(os.environ)
    folder = config.working_dir / name
    content = f"{name}-{corpus.fingerprint}-{embedder.model_id}-{embedder.dim}-{FORMAT}"
    if extractor:
        content += f"-{extractor.fingerprint}"
    async with _build_lock(folder), open_records(name, config, database) as records:
        previous = await _readable_manifest(records)
        if previous and not rebuild and await _is_built(previous, content, records):
            return previous
        # A name of its own for a repeated build, which LightRAG would mix with the old one in memory; for
        # extraction, which skips documents it remembers; and on a server, where a build that was
        # interrupted leaves rows behind.
        once = rebuild or extractor is not None or STORES[database.storage].has_server
        workspace = f"{content}-{secrets.token_hex(3)}" if once else content
        part = folder / f".part-{os.getpid()}-{secrets.token_hex(4)}"
        site = _Site(part, config, embedder, database)
        try:
            builds = await _begin(records, workspace)
            manifest, catalog = await _build(site, workspace, name, corpus, extractor, origin or Origin())
            await _publish(part / workspace, folder, manifest, catalog, records)
            await _clean(site, folder, records, builds, {workspace, previous.workspace if previous else ""})
        finally:
            await asyncio.to_thread(shutil.rmtree, part, ignore_errors=True)
    return manifest


@dataclass(frozen=True, slots=True)
class _Site:
    """Where something is built, and with what."""

    part: Path
    config: LightRAGConfig
    embedder: Embedder
    database: VectorDatabaseConfig

    async def start(self, workspace: str, extractor: extraction.Extractor | None = None) -> Any:
        return await start_lightrag(
            self.part,
            workspace,
            config=self.config,
            embedder=self.embedder,
            database=self.database,
            extract_model=extractor.model if extractor else None,
        )


_BUILDS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Path, asyncio.Lock]] = WeakKeyDictionary()


def _build_lock(folder: Path) -> asyncio.Lock:
    """Tenants that are opened together must not build the knowledge base they share twice."""
    return _BUILDS.setdefault(asyncio.get_running_loop(), {}).setdefault(folder, asyncio.Lock())


async def _readable_manifest(records: Records) -> Manifest | None:
    with suppress(KnowledgeBaseError):
        return await read_manifest(records)
    return None


async def _is_built(manifest: Manifest, content: str, records: Records) -> bool:
    same = manifest.workspace == content or manifest.workspace.startswith(f"{content}-")
    return same and await records.read(f"{manifest.workspace}/catalog.json") is not None


async def _begin(records: Records, workspace: str) -> Builds:
    """Write down what is about to be built, so that the next build finds what a crash leaves behind."""
    builds = await read_builds(records)
    builds = Builds(workspaces=(*builds.workspaces, workspace))
    await write_record(records, "builds.json", builds)
    return builds


async def _build(
    site: _Site,
    workspace: str,
    name: str,
    corpus: Corpus,
    extractor: extraction.Extractor | None,
    origin: Origin,
) -> tuple[Manifest, Catalog]:
    embedder = site.embedder
    if corpus.vectors is not None:
        embedder = await asyncio.to_thread(load_known_vectors, corpus.vectors, embedder)
    rag = await _Site(site.part, site.config, embedder, site.database).start(workspace, extractor)
    try:
        if extractor:
            catalog, relations = await extraction.insert(rag, corpus, extractor)
        else:
            catalog, relations = await custom_graph.insert(rag, corpus), len(corpus.relations)
    finally:
        await stop_lightrag(rag)
    manifest = Manifest(
        format=FORMAT,
        name=name,
        workspace=workspace,
        model_id=embedder.model_id,
        dim=embedder.dim,
        passages=len(corpus.passages),
        entities=len(catalog.names),
        relations=relations,
        built_at=datetime.now(UTC).isoformat(timespec="seconds"),
        origin=origin,
    )
    return manifest, catalog


async def _publish(built: Path, folder: Path, manifest: Manifest, catalog: Catalog, records: Records) -> None:
    with suppress(OSError):  # nothing in files, or another process has just published the same content
        await asyncio.to_thread(built.replace, folder / manifest.workspace)
    await write_record(records, f"{manifest.workspace}/catalog.json", catalog)
    await write_record(records, "manifest.json", manifest)


async def _clean(site: _Site, folder: Path, records: Records, builds: Builds, kept: set[str]) -> None:
    """Remove earlier builds: from files all but the newest, from a server all but the newest two, because
    other processes may still search the one before."""
    newest = builds.workspaces[-1]
    await asyncio.to_thread(_remove_folders, folder, newest)
    if STORES[site.database.storage].has_server:
        for workspace in builds.workspaces:
            if workspace not in kept:
                await _drop(site, workspace)
                await records.remove(f"{workspace}/catalog.json")
    remaining = tuple(workspace for workspace in builds.workspaces if workspace in kept)
    await write_record(records, "builds.json", Builds(workspaces=remaining))


def _remove_folders(folder: Path, newest: str) -> None:
    for old in folder.iterdir():
        if old.is_dir() and old.name != newest and not old.name.startswith(".part-"):
            shutil.rmtree(old, ignore_errors=True)


async def _drop(site: _Site, workspace: str) -> None:
    rag = await site.start(workspace)
    try:
        for storage in (
            rag.full_docs,
            rag.text_chunks,
            rag.full_entities,
            rag.full_relations,
            rag.entity_chunks,
            rag.relation_chunks,
            rag.entities_vdb,
            rag.relationships_vdb,
            rag.chunks_vdb,
            rag.chunk_entity_relation_graph,
            rag.llm_response_cache,
            rag.doc_status,
        ):
            await storage.drop()
    finally:
        await stop_lightrag(rag)
