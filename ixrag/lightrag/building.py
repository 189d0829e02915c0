"""Builds the index of a corpus, beside the old one until it is complete."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from weakref import WeakKeyDictionary

from ixinfra.config.settings import LightRAGConfig
from ixinfra.embeddings import Embedder
from ixinfra.errors import KnowledgeBaseError
from ixrag.lightrag import custom_graph
from ixrag.lightrag.calls import stop_lightrag
from ixrag.lightrag.corpus import Corpus
from ixrag.lightrag.engine import refuse_environment, start_lightrag
from ixrag.lightrag.known_vectors import load_known_vectors
from ixrag.lightrag.manifest import FORMAT, Catalog, Manifest, read_manifest, write_json


async def build_knowledge_base(
    corpus: Corpus, name: str, *, config: LightRAGConfig, embedder: Embedder, rebuild: bool = False
) -> Manifest:
    """Build the index of a corpus in `config.working_dir / name`, unless it is there already.

    The new index stands beside an older one until it is complete; a crash leaves the older one valid.

    Args:
        corpus: What to index.
        name: Name of the knowledge base.
        config: Where it goes, and the batch size.
        embedder: Embeds passages, entities and relations.
        rebuild: Build even when content, model and layout are the same.

    Raises:
        ConfigError: The environment holds a variable that would mix tenants.
        KnowledgeBaseError: LightRAG could not build it.
    """
    refuse_environment(os.environ)
    folder = config.working_dir / name
    content = f"{name}-{corpus.fingerprint}-{embedder.model_id}-{embedder.dim}-{FORMAT}"
    async with _build_lock(folder):
        with suppress(KnowledgeBaseError):
            manifest = await asyncio.to_thread(read_manifest, folder)
            if manifest and manifest.workspace == content and not rebuild and (folder / content).is_dir():
                return manifest
        # A name of its own for a repeated build: LightRAG would mix it with the old one in memory.
        workspace = f"{content}-{secrets.token_hex(3)}" if rebuild else content
        manifest = _manifest(name, workspace, corpus, embedder)
        part = folder / f".part-{os.getpid()}-{secrets.token_hex(4)}"
        try:
            catalog = await _fill(part, workspace, corpus, config, embedder)
            await asyncio.to_thread(_publish, part / workspace, folder, manifest, catalog)
        finally:
            await asyncio.to_thread(shutil.rmtree, part, ignore_errors=True)
    return manifest


_BUILDS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Path, asyncio.Lock]] = WeakKeyDictionary()


def _build_lock(folder: Path) -> asyncio.Lock:
    """Tenants that are opened together must not build the knowledge base they share twice."""
    return _BUILDS.setdefault(asyncio.get_running_loop(), {}).setdefault(folder, asyncio.Lock())


def _manifest(name: str, workspace: str, corpus: Corpus, embedder: Embedder) -> Manifest:
    return Manifest(
        format=FORMAT,
        name=name,
        workspace=workspace,
        model_id=embedder.model_id,
        dim=embedder.dim,
        passages=len(corpus.passages),
        entities=len(corpus.entities),
        relations=len(corpus.relations),
        built_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


async def _fill(
    part: Path, workspace: str, corpus: Corpus, config: LightRAGConfig, embedder: Embedder
) -> Catalog:
    if corpus.vectors is not None:
        embedder = await asyncio.to_thread(load_known_vectors, corpus.vectors, embedder)
    rag = await start_lightrag(part, workspace, config=config, embedder=embedder)
    try:
        return await custom_graph.insert(rag, corpus)
    finally:
        await stop_lightrag(rag)


def _publish(built: Path, folder: Path, manifest: Manifest, catalog: Catalog) -> None:
    write_json(built / "catalog.json", catalog)
    target = folder / manifest.workspace
    with suppress(OSError):  # another process has just published the same content
        built.replace(target)
    write_json(folder / "manifest.json", manifest)
    for old in folder.iterdir():
        if old.is_dir() and old != target and not old.name.startswith(".part-"):
            shutil.rmtree(old, ignore_errors=True)
