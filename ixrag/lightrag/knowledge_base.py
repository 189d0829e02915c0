"""A knowledge base on disk: built once from a corpus, opened by name, searched, closed.

Tenants of one company may name the same knowledge base (a `lite` and an `advanced` one, say). It is
then opened once for each event loop: LightRAG holds all vectors in memory and keeps 26 tasks a copy.
What a tenant may not see lives in another knowledge base, and so in another workspace.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from langchain_core.language_models import BaseChatModel

from ixinfra.config.settings import LightRAGConfig, RagMode, VectorDatabaseConfig
from ixinfra.embeddings import Embedder, remember_vectors
from ixinfra.errors import KnowledgeBaseError, RetrievalError
from ixrag.lightrag.building import build_knowledge_base
from ixrag.lightrag.calls import CALLS, STOP_TIMEOUT_S, Calls, drop, stop_lightrag
from ixrag.lightrag.engine import query_param, refuse_environment, start_lightrag
from ixrag.lightrag.keyword_role import keyword_role
from ixrag.lightrag.manifest import (
    Catalog,
    EntityName,
    Manifest,
    PassageInfo,
    expect_usable,
    read_catalog,
    read_manifest,
)
from ixrag.lightrag.records import Records, open_records
from ixrag.lightrag.stores import FILES, STORES
from ixrag.names import NameIndex

__all__ = ["EntityName", "KnowledgeBase", "Manifest", "build_knowledge_base", "open_knowledge_base"]

logger = logging.getLogger(__name__)

READ_AT_ONCE = 500  # passages in one call of the store

T = TypeVar("T")

REAP_S = 0.25  # longest wait for a cancelled search to clean up; it takes well under a millisecond


async def open_knowledge_base(
    name: str,
    *,
    config: LightRAGConfig,
    embedder: Embedder,
    database: VectorDatabaseConfig = FILES,
    keyword_model: BaseChatModel | None = None,
    keyword_timeout_s: float | None = None,
) -> KnowledgeBase:
    """Open a knowledge base for the running event loop; `close` it when done.

    Args:
        name: Name of the knowledge base.
        config: Where it is, and how it is searched.
        embedder: The one it was built with.
        database: Where its index is kept.
        keyword_model: Extracts graph keywords from queries that bring none. None: no model is ever
            called; keywords come from `extract_keywords`.
        keyword_timeout_s: Hard limit of one extraction; default is that of the model's route.

    Raises:
        ConfigError: The environment holds a variable that would mix tenants.
        KnowledgeBaseError: There is no such index, or it was built with another model or layout.
    """
    refuse_environment(os.environ)
    bases = _bases_of_this_loop()
    settings = (name, config, embedder, database, keyword_model, keyword_timeout_s)
    async with bases.lock, open_records(name, config, database) as records:
        manifest = expect_usable(await read_manifest(records), records.where, embedder)
        key = (manifest, *settings)
        shared = next((base for base in bases.open if base.key == key), None)
        if shared is None:
            shared = await _start(records, manifest, *settings)
            bases.open.append(shared)
        shared.users += 1
    return KnowledgeBase(shared)


class KnowledgeBase:
    """An open knowledge base; one `close` for each `open_knowledge_base`.

    It belongs to the event loop it was opened in. Searches from another loop, or from a thread, run
    there while that loop runs: LightRAG itself hangs when two loops use one object.

    Attributes:
        name: Name of the knowledge base.
        manifest: What was built, and when.
        config: How it is searched.
        names: Entity names with type and aliases.
        name_index: The same, to find them in a text.
        extracts_keywords: Whether a model extracts keywords where a search brings none.
    """

    def __init__(self, shared: _Shared) -> None:
        self.name = shared.manifest.name
        self.manifest = shared.manifest
        self.config = shared.config
        self.extracts_keywords = shared.extracts_keywords
        self._shared = shared
        self._searches: set[asyncio.Task[Answer]] = set()
        self._closed = False

    @property
    def rag(self) -> Any:
        """The `LightRAG` object; other knowledge bases of this process never share its workspace."""
        return self._shared.rag

    @property
    def names(self) -> tuple[EntityName, ...]:
        """Entity names, in the order of the corpus."""
        return self._shared.catalog.names

    @property
    def name_index(self) -> NameIndex:
        """Finds `names` and their aliases in a text."""
        return self._shared.name_index

    @property
    def catalog(self) -> Catalog:
        """Names, and passages by chunk id."""
        return self._shared.catalog

    async def passages(self, most: int | None = None) -> list[tuple[PassageInfo, str]]:
        """Passages and their texts, in no order that means anything.

        Args:
            most: How many to read; the first ones. None for all.
        """
        infos = list(islice(self.catalog.passages.items(), most))
        found: list[tuple[PassageInfo, str]] = []
        for at in range(0, len(infos), READ_AT_ONCE):
            portion = infos[at : at + READ_AT_ONCE]
            rows: list[Mapping[str, Any] | None] = await self.rag.text_chunks.get_by_ids(
                [key for key, _ in portion]
            )
            found += [
                (info, str(row["content"])) for (_, info), row in zip(portion, rows, strict=True) if row
            ]
        return found

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop it was opened in."""
        return self._shared.loop

    async def search(
        self,
        text: str,
        *,
        mode: RagMode,
        ll_keywords: Sequence[str] = (),
        hl_keywords: Sequence[str] = (),
        query: str = "",
        tenant_id: str = "",
    ) -> Answer:
        """Ask LightRAG for data, within `config.query_timeout_s`.

        Args:
            text: What LightRAG is given; see `langgraph_retriever.lift` for how long it must be.
            mode: Channels to search.
            ll_keywords: Entity terms; with `hl_keywords`, both or neither.
            hl_keywords: Theme terms.
            query: The words inside `text` that are embedded, and that keywords are taken from without
                a model; default is `text`.
            tenant_id: Query vectors are kept for this tenant; not at all without one.

        Raises:
            RetrievalError: No answer: `timeout`, `closed`, or `unavailable` for everything else.
        """
        if self._closed:
            raise self._is_closed()
        search = self._search(text, mode, ll_keywords, hl_keywords, query or text, tenant_id)
        if asyncio.get_running_loop() is self.loop:
            return await search
        return await asyncio.wrap_future(self.submit(search))

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run something in the loop of this knowledge base, from any other thread.

        Raises:
            RetrievalError: That loop does not run (any more).
        """
        if not self.loop.is_running():
            work.close()
            raise self._is_closed()
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    async def is_newest(self) -> bool:
        """Whether no newer build has been published since this one was opened."""
        async with open_records(self.name, self.config, self._shared.database) as records:
            return await read_manifest(records) == self.manifest

    async def close(self) -> None:
        """Cancel this handle's searches and, if nobody else uses it, stop LightRAG.

        It can be called twice, takes a few seconds at most whatever LightRAG's calls do, and searches
        raise `RetrievalError(reason="closed")` from then on.
        """
        if self._closed:
            return
        self._closed = True
        if asyncio.get_running_loop() is self.loop:
            await self._release()
        elif self.loop.is_running():
            await asyncio.wrap_future(self.submit(self._release()))

    async def _release(self) -> None:
        searches = set(self._searches)
        for search in searches:
            search.cancel()
        if searches:
            await asyncio.wait(searches, timeout=REAP_S)
        self._shared.users -= 1
        if not self._shared.users:
            _OPEN[self.loop].open.remove(self._shared)
            self._shared.guard.cancel()
            await asyncio.wait({self._shared.guard}, timeout=3 * STOP_TIMEOUT_S)

    async def _search(
        self, text: str, mode: RagMode, ll: Sequence[str], hl: Sequence[str], query: str, tenant_id: str
    ) -> Answer:
        timeout_s = self.config.query_timeout_s
        task = asyncio.ensure_future(self._ask(text, mode, ll, hl, query, tenant_id))
        self._searches.add(task)
        task.add_done_callback(self._searches.discard)
        try:
            await asyncio.wait({task}, timeout=timeout_s)
        except asyncio.CancelledError:
            drop(task)
            await asyncio.wait({task}, timeout=REAP_S)
            raise
        if not task.done():
            drop(task)
            raise RetrievalError(f"LightRAG did not answer within {timeout_s:g} s", reason="timeout")
        if task.cancelled() or self._closed:
            raise self._is_closed()
        error = task.exception()
        if error is None:
            return task.result()
        logger.debug("LightRAG failed", exc_info=error)
        # Not chained: the text of a foreign exception may hold the query.
        raise RetrievalError(f"LightRAG raised {type(error).__name__}", reason="unavailable") from None

    async def _ask(
        self, text: str, mode: RagMode, ll: Sequence[str], hl: Sequence[str], query: str, tenant_id: str
    ) -> Answer:
        calls = Calls(query, text)
        token = CALLS.set(calls)
        try:
            with remember_vectors(tenant_id):
                raw = await self.rag.aquery_data(text, query_param(self.config, mode, ll, hl))
            return Answer(raw, calls.keyword_failure)
        finally:
            CALLS.reset(token)
            calls.cancel()

    def _is_closed(self) -> RetrievalError:
        return RetrievalError(f"knowledge base {self.name!r} is closed", reason="closed")


@dataclass(frozen=True, slots=True)
class Answer:
    """What LightRAG returned, as it came.

    Attributes:
        raw: The dictionary of `aquery_data`.
        keyword_failure: Why the keyword model gave none and words were picked without it; else "".
    """

    raw: dict[str, Any]
    keyword_failure: str = ""


@dataclass(eq=False)
class _Shared:
    """One LightRAG object and how many use it."""

    key: tuple[object, ...]
    manifest: Manifest
    config: LightRAGConfig
    database: VectorDatabaseConfig
    rag: Any
    catalog: Catalog
    name_index: NameIndex
    extracts_keywords: bool
    loop: asyncio.AbstractEventLoop
    guard: asyncio.Task[None]
    users: int = 0


@dataclass(eq=False)
class _LoopBases:
    """What is open in one event loop, and a lock against opening the same thing twice."""

    open: list[_Shared] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


_OPEN: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopBases] = WeakKeyDictionary()


def _bases_of_this_loop() -> _LoopBases:
    return _OPEN.setdefault(asyncio.get_running_loop(), _LoopBases())


async def _start(
    records: Records,
    manifest: Manifest,
    name: str,
    config: LightRAGConfig,
    embedder: Embedder,
    database: VectorDatabaseConfig,
    keyword_model: BaseChatModel | None,
    keyword_timeout_s: float | None,
) -> _Shared:
    folder = config.working_dir / name
    if STORES[database.storage].has_files and not await asyncio.to_thread(
        (folder / manifest.workspace).is_dir
    ):
        # LightRAG takes files that are not there for an empty index.
        raise KnowledgeBaseError(
            f"{str(folder)!r} does not hold the build that {records.where!r} names; share that folder between "
            "machines, or build it again, with `ix ingest`"
        )
    catalog = await read_catalog(records, manifest)
    name_index = await asyncio.to_thread(NameIndex, catalog.names)
    role = keyword_role(keyword_model, name_index, keyword_timeout_s) if keyword_model else None
    rag = await start_lightrag(
        folder,
        manifest.workspace,
        config=config,
        embedder=embedder,
        database=database,
        keyword_model=role,
    )
    guard = asyncio.create_task(_stop_when_cancelled(rag), name=f"ix-lightrag-{name}")
    if await read_manifest(records) != manifest:
        # LightRAG takes a file that has just been removed for an empty one.
        guard.cancel()
        raise KnowledgeBaseError(
            f"knowledge base {name!r} was built again while it was opened; open it again"
        )
    key = (manifest, name, config, embedder, database, keyword_model, keyword_timeout_s)
    loop = asyncio.get_running_loop()
    return _Shared(key, manifest, config, database, rag, catalog, name_index, role is not None, loop, guard)


async def _stop_when_cancelled(rag: Any) -> None:
    """Wait for `close`, or for a loop that ends without it: `asyncio.run` cancels every task once, then
    waits for all of them, and LightRAG's workers survive being cancelled."""
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await stop_lightrag(rag)
