"""What a model wrote for a query, found again by the query's own words or, failing that, by its meaning."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ixrag.query.asked import Asked
from ixrag.query.cache import Cache, CacheKey, Found, look_up, remember
from ixrag.query.near import NearQueries


@dataclass(frozen=True, slots=True)
class RewriteCache:
    """Lists of texts by what was asked. Never raises; an outage is a miss with a reason.

    Attributes:
        cache: Where entries are.
        ttl_s: How long an entry is kept, in seconds.
        near: Finds entries of queries that mean the same; None for the same words alone. Never asked where
            the answer depends on a conversation.
    """

    cache: Cache
    ttl_s: float = 3600.0
    near: NearQueries | None = None

    async def find(self, asked: Asked) -> tuple[Found, list[str]]:
        """How the look-up ended, and the texts; an unreadable or empty entry is `corrupt`."""
        key = asked.key
        found, texts = await self._read(key)
        if texts or key is None or found == "unavailable" or self.near is None or asked.history:
            return found, texts
        digest = await self.near.nearest(asked, ttl_s=self.ttl_s)
        if digest is None or digest == key.digest:
            return found, []
        _, texts = await self._read(CacheKey(asked.tenant_id, asked.kind, digest))
        return ("near", texts) if texts else (found, [])

    async def keep(self, asked: Asked, texts: Sequence[str]) -> None:
        """Remember a model's answer; nothing is kept for an empty one or without a tenant."""
        key = asked.key
        if key is None or not texts:
            return
        await remember(self.cache, key, json.dumps(list(texts)).encode(), ttl_s=self.ttl_s)
        if self.near is not None and not asked.history:
            await self.near.add(asked, key.digest, ttl_s=self.ttl_s)

    async def _read(self, key: CacheKey | None) -> tuple[Found, list[str]]:
        looked = await look_up(self.cache, key)
        if looked is None or looked.value is None:
            return (looked.found if looked else "absent"), []
        try:
            texts = json.loads(looked.value)
        except (ValueError, RecursionError):
            texts = None
        if isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts):
            return "hit", texts
        return "corrupt", []
