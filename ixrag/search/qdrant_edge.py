"""The index in this process: one Qdrant shard in a folder, written ahead to a log."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from ixinfra.errors import KnowledgeBaseError, MissingExtraError, RetrievalError
from ixrag.search.index import CHANNELS, Channel, Entry, Hit, SparseVector, Vector, expect_tenant, point_id
from ixrag.search.payload import LANG, PASSAGE, RETURNED, TENANT, hit, payload_of

try:
    import qdrant_edge as edge
except ImportError as error:
    raise MissingExtraError(
        "the embedded engine needs qdrant-edge-py: pip install 'ixchat[engine]'"
    ) from error

T = TypeVar("T")

PAGE = 1000  # points listed or removed at once
HNSW_M = 16
HNSW_EF_CONSTRUCT = 100
FULL_SCAN_KB = 10_000  # smaller sets are scanned, which is exact and faster


class EmbeddedIndex:
    """A shard on disk. One process may have it open, as often as it likes; more processes need a server.

    What `upsert` stored is in the write-ahead log when it returns: killing the process loses none of
    it. Calls run on threads of their own, so storing and `optimize` do not stop searches.

    Args:
        folder: Where the shard is, or will be.
        dim: Length of a dense vector.

    Raises:
        KnowledgeBaseError: The folder is not a shard, is of another dimension, or another process has it.
    """

    def __init__(self, folder: Path, dim: int) -> None:
        self._folder = folder.resolve()
        self._shard = _lease(self._folder, dim)
        self._pool = ThreadPoolExecutor(min(4, (os.cpu_count() or 1) + 1), "ix-index")
        self._writing = asyncio.Lock()
        self._closed = False

    async def upsert(self, tenant: str, entries: Sequence[Entry]) -> None:
        """Store passages; see `Index.upsert`."""
        expect_tenant(tenant)
        points = [
            edge.Point(
                point_id(tenant, entry.id),
                {channel: _native(entry.vectors[channel]) for channel in entry.vectors},
                payload_of(tenant, entry),
            )
            for entry in entries
        ]
        await self._write(edge.UpdateOperation.upsert_points(points))

    async def digests(self, tenant: str, ids: Sequence[str]) -> dict[str, str]:
        """The digest of each stored passage among `ids`."""
        wanted = [point_id(expect_tenant(tenant), passage_id) for passage_id in ids]
        rows = await self._run(lambda: self._shard.retrieve(wanted, [PASSAGE, "digest"], False))
        return {row.payload[PASSAGE]: row.payload.get("digest", "") for row in rows}

    async def keep_only(self, tenant: str, ids: Collection[str]) -> int:
        """Remove the tenant's other passages; how many."""
        wanted = {point_id(expect_tenant(tenant), passage_id) for passage_id in ids}
        stored = await self._run(lambda: list(self._ids(tenant)))
        surplus: list[Any] = [known for known in stored if known not in wanted]
        for at in range(0, len(surplus), PAGE):
            await self._write(edge.UpdateOperation.delete_points(surplus[at : at + PAGE]))
        return len(surplus)

    async def search(
        self, tenant: str, channel: Channel, vector: Vector, *, limit: int, lang: str = ""
    ) -> list[Hit]:
        """The best passages of one channel; see `Index.search`."""
        request = edge.QueryRequest(
            limit=limit,
            query=edge.Query.Nearest(_native(vector), using=channel),
            filter=_only(expect_tenant(tenant), lang),
            params=_params(tenant, channel),
            with_payload=RETURNED,
        )
        return await self._hits(request, tenant)

    async def fused(
        self,
        tenant: str,
        searches: Sequence[tuple[Channel, Vector]],
        *,
        limit: int,
        depth: int,
        k: int,
        lang: str = "",
    ) -> list[Hit]:
        """One ranking of several searches; see `FusingIndex.fused`."""
        expect_tenant(tenant)
        prefetches = [
            edge.Prefetch(
                limit=depth,
                query=edge.Query.Nearest(_native(vector), using=channel),
                filter=_only(tenant, lang if channel == "bm25" else ""),
                params=_params(tenant, channel),
            )
            for channel, vector in searches
        ]
        fusion: Any = edge.Fusion.Rrf(k=k + 1)  # Qdrant counts ranks from 0 and subtracts 1 from `k`
        request = edge.QueryRequest(limit=limit, prefetches=prefetches, query=fusion, with_payload=RETURNED)
        return await self._hits(request, tenant)

    async def languages(self, tenant: str) -> dict[str, int]:
        """Number of passages by language."""
        request = edge.FacetRequest(key=LANG, limit=PAGE, exact=True, filter=_only(expect_tenant(tenant), ""))
        found = await self._run(lambda: self._shard.facet(request))
        return {str(hit.value): int(hit.count) for hit in found.hits}

    async def optimize(self) -> None:
        """Build the graph of the dense vectors for what was stored; searches go on meanwhile."""
        async with self._writing:
            await self._run(self._shard.optimize)
            await self._run(self._shard.flush)

    async def close(self) -> None:
        """Write everything to disk and let go of the folder."""
        if self._closed:
            return
        async with self._writing:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(self._pool, _release, self._folder)
        self._pool.shutdown(wait=False)

    async def _hits(self, request: Any, tenant: str) -> list[Hit]:
        rows = await self._run(lambda: self._shard.query(request))
        hits = [hit(row.payload, float(row.score), tenant) for row in rows]
        return sorted(hits, key=lambda found: (-found.score, found.id))

    async def _write(self, operation: Any) -> None:
        async with self._writing:
            await self._run(lambda: self._shard.update(operation))

    async def _run(self, call: Callable[[], T]) -> T:
        if self._closed:
            raise RetrievalError("the index is closed", reason="closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, call)
        except RetrievalError:
            raise
        except Exception as error:  # the bindings raise bare `Exception`s
            raise RetrievalError(
                f"the embedded index failed ({type(error).__name__})", reason="unavailable"
            ) from error

    def _ids(self, tenant: str) -> Iterator[str]:
        offset = None
        while True:
            rows, offset = self._shard.scroll(
                edge.ScrollRequest(
                    offset=offset, limit=PAGE, filter=_only(tenant, ""), with_payload=False, with_vector=False
                )
            )
            yield from (str(row.id) for row in rows)
            if offset is None or not rows:
                return


@dataclass(slots=True)
class _Lease:
    shard: Any
    dim: int
    users: int = 0


_LEASES: dict[Path, _Lease] = {}
_LEASING = threading.Lock()


def _lease(folder: Path, dim: int) -> Any:
    """The shard of a folder, opened by the first of its users: a process can open it only once."""
    with _LEASING:
        lease = _LEASES.get(folder)
        if lease is None:
            lease = _LEASES[folder] = _Lease(_open(folder, dim), dim)
        elif lease.dim != dim:
            raise KnowledgeBaseError(
                f"the index in {str(folder)!r} is open with vectors of {lease.dim}, not of {dim}"
            )
        lease.users += 1
        return lease.shard


def _release(folder: Path) -> None:
    with _LEASING:
        lease = _LEASES[folder]
        lease.users -= 1
        if lease.users:
            lease.shard.flush()
            return
        del _LEASES[folder]
        lease.shard.close()


def _open(folder: Path, dim: int) -> Any:
    try:
        if (folder / "edge_config.json").is_file():
            return edge.EdgeShard.load(str(folder), _config(dim))
        folder.mkdir(parents=True, exist_ok=True)
        shard = edge.EdgeShard.create(str(folder), _config(dim))
        for name in (TENANT, LANG):
            index = edge.KeywordIndexParams(is_tenant=name == TENANT)
            shard.update(edge.UpdateOperation.create_field_index(name, index))
        return shard
    except Exception as error:  # the bindings raise bare `Exception`s
        taken = "WouldBlock" in str(error)
        why = "another process has it open; use a server for more than one" if taken else f"{error}"
        raise KnowledgeBaseError(f"the index in {str(folder)!r} cannot be opened: {why}") from None


def _config(dim: int) -> Any:
    return edge.EdgeConfig(
        vectors={"dense": edge.EdgeVectorParams(size=dim, distance=edge.Distance.Cosine)},
        sparse_vectors={
            name: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)
            for name in islice(CHANNELS, 1, None)
        },
        hnsw_config=edge.HnswIndexConfig(HNSW_M, HNSW_EF_CONSTRUCT, FULL_SCAN_KB),
    )


def _only(tenant: str, lang: str) -> Any:
    conditions: list[Any] = [edge.FieldCondition(TENANT, match=edge.MatchValue(tenant))]
    if lang:
        conditions.append(edge.FieldCondition(LANG, match=edge.MatchValue(lang)))
    return edge.Filter(must=conditions)


def _params(tenant: str, channel: Channel) -> Any:
    """How rare a term is counts within the tenant: others must not be felt in its scores."""
    if channel == "dense":
        return None
    return edge.SearchParams(idf=edge.IdfParams(corpus=_only(tenant, "")))


def _native(vector: Vector) -> Any:
    if isinstance(vector, SparseVector):
        return edge.SparseVector(list(vector.indices), list(vector.values))
    return list(vector)
