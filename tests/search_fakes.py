"""Stand-ins for the engine's parts, with their protocols."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fakes import HashEmbedder
from langchain_core.documents import Document

from ixrag.search.encoders import Encoders
from ixrag.search.engine import HybridRetriever
from ixrag.search.index import Channel, Entry, Hit, Vector
from ixrag.words import words


class HashTerms:
    """Learned terms that are hashed words."""

    sparse_id = "hash-terms"

    async def sparse(self, texts: Sequence[str]) -> list[tuple[list[int], list[float]]]:
        found = [sorted({zlib.crc32(word.folded.encode()) % 1000 for word in words(text)}) for text in texts]
        return [(ids, [1.0] * len(ids)) for ids in found]


def hash_encoders(language: str = "en") -> Encoders:
    return Encoders(HashEmbedder(), HashTerms(), language)


class FakeIndex:
    """An index whose channels are scripted: what each finds, how long it takes, how it misbehaves.

    Args:
        found: Passage ids by channel, best first; an exception is raised, anything else is returned as is.
        delays_s: How long each channel takes.
        deaf: Channels that ignore their cancellation.
    """

    def __init__(
        self,
        found: Mapping[Channel, Any],
        *,
        delays_s: Mapping[Channel, float] | None = None,
        deaf: Collection[Channel] = (),
    ) -> None:
        self.found = found
        self.delays_s = delays_s or {}
        self.deaf = deaf
        self.calls: list[tuple[Channel, str]] = []
        self.running = 0

    async def search(
        self, tenant: str, channel: Channel, vector: Vector, *, limit: int, lang: str = ""
    ) -> Any:
        self.calls.append((channel, lang))
        self.running += 1
        try:
            await self._sleep(channel)
        finally:
            self.running -= 1
        found = self.found.get(channel, [])
        if isinstance(found, Exception):
            raise found
        if not isinstance(found, list):
            return found
        return [fake_hit(key, 1.0 / rank) for rank, key in enumerate(found[:limit], start=1)]

    async def _sleep(self, channel: Channel) -> None:
        delay_s = self.delays_s.get(channel, 0.0)
        try:
            await asyncio.sleep(delay_s)
        except asyncio.CancelledError:
            if channel not in self.deaf:
                raise
            await asyncio.sleep(delay_s)

    async def upsert(self, tenant: str, entries: Sequence[Entry]) -> None:
        raise NotImplementedError

    async def digests(self, tenant: str, ids: Sequence[str]) -> dict[str, str]:
        return {}

    async def keep_only(self, tenant: str, ids: Collection[str]) -> int:
        return 0

    async def languages(self, tenant: str) -> dict[str, int]:
        return {}

    async def close(self) -> None:
        return None


def fake_hit(key: str, score: float = 1.0) -> Hit:
    return Hit(
        key,
        score,
        Document(f"text of {key}, all its own", id=key, metadata={"kind": "chunk", "source": f"{key}.md"}),
    )


def engine(index: FakeIndex, **changes: Any) -> HybridRetriever:
    return HybridRetriever(index, hash_encoders(), "base", **{"tenant_id": "acme", **changes})
