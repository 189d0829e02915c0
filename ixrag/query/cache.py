"""What model answers and vectors are remembered in: one small interface, in memory or on Redis.

A cache is asked with a `CacheKey`, and a key cannot be made without a tenant: no implementation
can mix tenants up or cache for nobody. A cache never raises; an outage is a miss with a reason.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable
from urllib.parse import quote

from ixinfra.errors import MissingExtraError

Found = Literal["hit", "near", "absent", "no_tenant", "unavailable", "corrupt"]
"""How a look-up ended. Readers say two of them: `corrupt` where the value cannot be decoded, `near` where
it was kept for a query that means the same."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Name of one entry. Make it with `cache_key`."""

    tenant_id: str
    kind: str
    digest: str

    def __post_init__(self) -> None:
        if not self.tenant_id.strip():
            raise ValueError("a cache key needs a tenant")

    def __str__(self) -> str:
        return f"ix:{self.kind}:{quote(self.tenant_id, safe='', errors='replace')}:{self.digest}"


@dataclass(frozen=True, slots=True)
class Lookup:
    """Answer of a cache: the stored bytes, or None and why there are none."""

    value: bytes | None
    found: Found


ABSENT = Lookup(None, "absent")
UNAVAILABLE = Lookup(None, "unavailable")
NO_TENANT = Lookup(None, "no_tenant")


def cache_key(tenant_id: str, kind: str, *parts: str | int) -> CacheKey | None:
    """The key of a value that depends on `parts`, or None where there is no tenant to keep it for.

    Args:
        tenant_id: Whose value it is.
        kind: What the value is, such as `rewrites`; letters and hyphens.
        parts: Everything that would change the value. Only a digest of them enters the key, so no
            visitor text reaches a server's key space.
    """
    if not tenant_id.strip():
        return None
    # JSON escapes lone surrogates and keeps ("a", "b") apart from ("ab", "") and 1 apart from "1".
    digest = hashlib.blake2b(json.dumps([tenant_id, *parts]).encode(), digest_size=16).hexdigest()
    return CacheKey(tenant_id, kind, digest)


@runtime_checkable
class Cache(Protocol):
    """Bytes by key, for a while. Neither method raises anything but `CancelledError`."""

    async def get(self, key: CacheKey) -> Lookup:
        """The stored bytes, or why there are none."""
        raise NotImplementedError

    async def put(self, key: CacheKey, value: bytes, *, ttl_s: float) -> None:
        """Keep `value` for `ttl_s` seconds; silently does nothing where the store is away."""
        raise NotImplementedError


class NoopCache(Cache):
    """Remembers nothing."""

    async def get(self, key: CacheKey) -> Lookup:
        """Always absent."""
        return ABSENT

    async def put(self, key: CacheKey, value: bytes, *, ttl_s: float) -> None:
        """Does nothing."""


class MemoryCache(Cache):
    """The `max_entries` most recently used entries, in this process; for one event loop.

    Args:
        max_entries: Bound on the number of entries, all tenants together.
        clock: Seconds, never going back.
    """

    def __init__(self, max_entries: int = 10_000, *, clock: Callable[[], float] = time.monotonic) -> None:
        if max_entries < 1:
            raise ValueError(f"`max_entries` must be >= 1, got {max_entries}")
        self._max_entries = max_entries
        self._clock = clock
        self._entries: OrderedDict[CacheKey, tuple[bytes, float]] = OrderedDict()  # least recent first

    def __len__(self) -> int:
        return len(self._entries)

    async def get(self, key: CacheKey) -> Lookup:
        """The stored bytes, or absent."""
        value, expires_s = self._entries.get(key, (b"", float("-inf")))
        if self._clock() >= expires_s:
            self._entries.pop(key, None)
            return ABSENT
        self._entries.move_to_end(key)
        return Lookup(value, "hit")

    async def put(self, key: CacheKey, value: bytes, *, ttl_s: float) -> None:
        """Keep `value`; the least recently used entry goes when there is no room."""
        self._entries[key] = (value, self._clock() + ttl_s)
        self._entries.move_to_end(key)
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)


class RedisClient(Protocol):
    """The calls made on a `redis.asyncio.Redis` (or a client that looks like it)."""

    def get(self, name: str) -> Awaitable[Any]: ...

    def set(self, name: str, value: bytes, *, px: int) -> Awaitable[Any]: ...

    def xadd(self, name: str, fields: Any, *, maxlen: int, approximate: bool) -> Awaitable[Any]: ...

    def xrange(self, name: str, min: str, max: str, count: int) -> Awaitable[Any]: ...

    def pexpire(self, name: str, time: int) -> Awaitable[Any]: ...

    async def aclose(self) -> None: ...


class RedisCache(Cache):
    """Entries on a Redis server, shared by every process that uses it.

    Args:
        client: Connected lazily; returns bytes (`decode_responses=False`).
        timeout_s: Longest wait for one call. A cache slower than the model it spares is no use.
        rest_s: After a failed call the server is left alone this long, so that an outage costs one
            wait and not one per turn.
        clock: Seconds, never going back.
    """

    def __init__(
        self,
        client: RedisClient,
        *,
        timeout_s: float = 0.1,
        rest_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._rest_s = rest_s
        self._clock = clock
        self._resting_until = float("-inf")

    async def get(self, key: CacheKey) -> Lookup:
        """The stored bytes; absent, or unavailable when the server failed, hung or rests."""
        answered, value = await self._ask(lambda: self._client.get(str(key)))
        if not answered:
            return UNAVAILABLE
        if value is None:
            return ABSENT
        return Lookup(value, "hit") if isinstance(value, bytes) else Lookup(None, "corrupt")

    async def put(self, key: CacheKey, value: bytes, *, ttl_s: float) -> None:
        """Keep `value` until the server drops it."""
        if ttl_s > 0:
            await self._ask(lambda: self._client.set(str(key), value, px=_milliseconds(ttl_s)))

    async def append(self, tenant_id: str, value: bytes, *, keep: int, ttl_s: float) -> None:
        """Add a value to the tenant's log; see `ixrag.query.near.SharedLog`."""
        name = _log_name(tenant_id)
        added, _ = await self._ask(
            lambda: self._client.xadd(name, {"v": value}, maxlen=keep, approximate=False)
        )
        if added:
            await self._ask(lambda: self._client.pexpire(name, _milliseconds(ttl_s)))

    async def read_after(self, tenant_id: str, place: str, *, limit: int) -> tuple[list[bytes], str]:
        """What was added to the tenant's log since; see `ixrag.query.near.SharedLog`."""
        start = f"({place}" if place else "-"
        _, rows = await self._ask(
            lambda: self._client.xrange(_log_name(tenant_id), min=start, max="+", count=limit)
        )
        values = [fields[b"v"] for _, fields in rows or () if b"v" in fields]
        return values, rows[-1][0].decode() if rows else place

    async def close(self) -> None:
        """Close the client's connections."""
        await self._client.aclose()

    async def _ask(self, call: Callable[[], Awaitable[Any]]) -> tuple[bool, Any]:
        """Whether the server answered, and what."""
        if self._clock() < self._resting_until:
            return False, None
        try:
            async with asyncio.timeout(self._timeout_s):
                return True, await call()
        except Exception as error:
            self._rest(error)
            return False, None

    def _rest(self, error: Exception) -> None:
        self._resting_until = self._clock() + self._rest_s
        # The class alone: a client's message may hold the address with its password.
        _log.warning("query.cache.unavailable: %s; retried in %g s", type(error).__name__, self._rest_s)


def open_redis_cache(url: str, *, timeout_s: float = 0.1, rest_s: float = 5.0) -> RedisCache:
    """A cache on the server at `url` (`redis://host:port/db`); nothing is connected yet.

    Raises:
        MissingExtraError: The redis package is not installed.
        ValueError: `url` is not a Redis address.
    """
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError as error:
        raise MissingExtraError("the Redis cache needs the redis package; install 'ixchat[redis]'") from error
    client = Redis.from_url(
        url,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
    )
    return RedisCache(client, timeout_s=timeout_s, rest_s=rest_s)


def _milliseconds(ttl_s: float) -> int:
    return max(1, int(ttl_s * 1000))


def _log_name(tenant_id: str) -> str:
    return f"ix:near:{quote(tenant_id, safe='', errors='replace')}"


async def look_up(cache: Cache | None, key: CacheKey | None) -> Lookup | None:
    """Ask `cache`; None where none is configured. A cache that breaks its promise counts as away."""
    if cache is None:
        return None
    if key is None:
        return NO_TENANT
    try:
        return await cache.get(key)
    except Exception as error:
        _log.warning("query.cache.broken: %s", type(error).__name__)
        return UNAVAILABLE


async def remember(cache: Cache | None, key: CacheKey | None, value: bytes, *, ttl_s: float) -> None:
    """Keep `value` where there is a cache and a tenant; never raises for a cache's sake."""
    if cache is None or key is None:
        return
    try:
        await cache.put(key, value, ttl_s=ttl_s)
    except Exception as error:
        _log.warning("query.cache.broken: %s", type(error).__name__)
