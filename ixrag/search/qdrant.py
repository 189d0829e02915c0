"""The index on a Qdrant server, for as many processes as there are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Collection, Sequence
from typing import Any, TypeVar

from ixinfra.errors import KnowledgeBaseError, MissingExtraError, RetrievalError
from ixrag.search.index import CHANNELS, Channel, Entry, Hit, SparseVector, Vector, expect_tenant, point_id
from ixrag.search.payload import LANG, PASSAGE, RETURNED, TENANT, hit, payload_of

try:
    from qdrant_client import AsyncQdrantClient, models
except ImportError as error:
    raise MissingExtraError(
        "the engine on a server needs qdrant-client: pip install 'ixchat[engine]'"
    ) from error

T = TypeVar("T")

PAGE = 1000  # points listed or removed at once
MAX_LANGUAGES = 100


class ServerIndex:
    """A collection of a Qdrant server (or of the client's own local mode, for tests).

    Make it with `open_server_index`.
    """

    def __init__(self, client: AsyncQdrantClient, collection: str) -> None:
        self._client = client
        self._collection = collection
        self._closed = False

    async def upsert(self, tenant: str, entries: Sequence[Entry]) -> None:
        """Store passages and wait until the server has them; see `Index.upsert`."""
        expect_tenant(tenant)
        points = [
            models.PointStruct(
                id=point_id(tenant, entry.id),
                vector={channel: _native(entry.vectors[channel]) for channel in entry.vectors},
                payload=payload_of(tenant, entry),
            )
            for entry in entries
        ]
        await self._ask(self._api.upsert(self._collection, points, wait=True))

    async def digests(self, tenant: str, ids: Sequence[str]) -> dict[str, str]:
        """The digest of each stored passage among `ids`."""
        wanted = [point_id(expect_tenant(tenant), passage_id) for passage_id in ids]
        rows = await self._ask(self._api.retrieve(self._collection, wanted, with_payload=[PASSAGE, "digest"]))
        return {row.payload[PASSAGE]: row.payload.get("digest", "") for row in rows if row.payload}

    async def keep_only(self, tenant: str, ids: Collection[str]) -> int:
        """Remove the tenant's other passages; how many."""
        wanted = {point_id(expect_tenant(tenant), passage_id) for passage_id in ids}
        surplus = [known async for known in self._ids(tenant) if known not in wanted]
        for at in range(0, len(surplus), PAGE):
            selector = models.PointIdsList(points=list(surplus[at : at + PAGE]))
            await self._ask(self._api.delete(self._collection, selector, wait=True))
        return len(surplus)

    async def search(
        self, tenant: str, channel: Channel, vector: Vector, *, limit: int, lang: str = ""
    ) -> list[Hit]:
        """The best passages of one channel; see `Index.search`."""
        answer = await self._ask(
            self._api.query_points(
                self._collection,
                query=_native(vector),
                using=channel,
                query_filter=_only(expect_tenant(tenant), lang),
                search_params=_params(tenant, channel),
                limit=limit,
                with_payload=RETURNED,
            )
        )
        return _hits(answer.points, tenant)

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
        prefetch = [
            models.Prefetch(
                query=_native(vector),
                using=channel,
                filter=_only(tenant, lang if channel == "bm25" else ""),
                params=_params(tenant, channel),
                limit=depth,
            )
            for channel, vector in searches
        ]
        # Qdrant counts ranks from 0 and subtracts 1 from `k`.
        fusion = models.RrfQuery(rrf=models.Rrf(k=k + 1))
        answer = await self._ask(
            self._api.query_points(
                self._collection, prefetch=prefetch, query=fusion, limit=limit, with_payload=RETURNED
            )
        )
        return _hits(answer.points, tenant)

    async def languages(self, tenant: str) -> dict[str, int]:
        """Number of passages by language."""
        found = await self._ask(
            self._api.facet(
                self._collection,
                key=LANG,
                facet_filter=_only(expect_tenant(tenant), ""),
                limit=MAX_LANGUAGES,
                exact=True,
            )
        )
        return {str(row.value): row.count for row in found.hits}

    async def close(self) -> None:
        """Close the client's connections."""
        if not self._closed:
            self._closed = True
            await self._client.close()

    async def _ids(self, tenant: str) -> AsyncIterator[str]:
        offset = None
        while True:
            rows, offset = await self._ask(
                self._api.scroll(
                    self._collection,
                    scroll_filter=_only(tenant, ""),
                    limit=PAGE,
                    offset=offset,
                    with_payload=False,
                    with_vectors=False,
                )
            )
            for row in rows:
                yield str(row.id)
            if offset is None:
                return

    @property
    def _api(self) -> AsyncQdrantClient:
        if self._closed:
            raise RetrievalError("the index is closed", reason="closed")
        return self._client

    async def _ask(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except Exception as error:  # whatever the client raises
            # The class alone: a client's message may quote the request.
            raise RetrievalError(
                f"the index server failed ({type(error).__name__})", reason="unavailable"
            ) from None


async def open_server_index(
    client: AsyncQdrantClient, collection: str, dim: int, *, shards: int | None = None
) -> ServerIndex:
    """The collection on the client's server, made on first use.

    Args:
        client: Connected to a server, or in local mode.
        collection: Its name.
        dim: Length of a dense vector.
        shards: Shards of a new collection; None for the server's default.

    Raises:
        KnowledgeBaseError: The server does not answer, or the collection has other vectors.
    """
    try:
        if not await client.collection_exists(collection):
            await _create(client, collection, dim, shards)
        info = await client.get_collection(collection)
    except Exception as error:  # whatever the client raises
        raise KnowledgeBaseError(
            f"collection {collection!r}: the server does not answer ({type(error).__name__}); check "
            "vector_database.url and api_key"
        ) from None
    vectors = info.config.params.vectors
    found = vectors["dense"].size if isinstance(vectors, dict) and "dense" in vectors else None
    if found != dim:
        raise KnowledgeBaseError(
            f"collection {collection!r} has dense vectors of {found}, not of {dim}; name another"
        )
    return ServerIndex(client, collection)


async def _create(client: AsyncQdrantClient, collection: str, dim: int, shards: int | None) -> None:
    idf = models.SparseVectorParams(modifier=models.Modifier.IDF)
    await client.create_collection(
        collection,
        vectors_config={"dense": models.VectorParams(size=dim, distance=models.Distance.COSINE)},
        sparse_vectors_config={channel: idf for channel in CHANNELS if channel != "dense"},
        shard_number=shards,
    )
    for name in (TENANT, LANG):
        schema = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=name == TENANT)
        await client.create_payload_index(collection, name, field_schema=schema, wait=True)


def _hits(points: Sequence[Any], tenant: str) -> list[Hit]:
    hits = [hit(point.payload, float(point.score), tenant) for point in points]
    return sorted(hits, key=lambda found: (-found.score, found.id))


def _only(tenant: str, lang: str) -> models.Filter:
    wanted = {TENANT: tenant} | ({LANG: lang} if lang else {})
    return models.Filter(
        must=[
            models.FieldCondition(key=key, match=models.MatchValue(value=value))
            for key, value in wanted.items()
        ]
    )


def _params(tenant: str, channel: Channel) -> models.SearchParams | None:
    """How rare a term is counts within the tenant: others must not be felt in its scores."""
    if channel == "dense":
        return None
    return models.SearchParams(idf=models.IdfCorpusParams(corpus=_only(tenant, "")))


def _native(vector: Vector) -> Any:
    if isinstance(vector, SparseVector):
        return models.SparseVector(indices=list(vector.indices), values=list(vector.values))
    return list(vector)
