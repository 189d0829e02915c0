"""What an index of passages is to the engine: three channels in one place, and a tenant in every call."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, Protocol, get_args

from langchain_core.documents import Document

from ixinfra.errors import RetrievalError

Channel = Literal["dense", "sparse", "bm25"]
"""Vectors of meaning, learned terms, written words."""

CHANNELS: tuple[Channel, ...] = get_args(Channel)

Progress = Callable[[int, int], None]
"""Told after each stored portion: passages in place, passages in all."""


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Weights of the terms that are there. `indices` are distinct and not negative."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


Vector = Sequence[float] | SparseVector
"""Dense for `dense`, `SparseVector` for the two others."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One passage with its three vectors.

    Attributes:
        id: Unique within a tenant.
        text: What is returned.
        vectors: One for each channel.
        lang: ISO 639 code, "" where unknown.
        source: Document it comes from.
        title: For display.
        digest: Changes with the text and with any model that made a vector.
    """

    id: str
    text: str
    vectors: dict[Channel, Vector]
    lang: str = ""
    source: str = ""
    title: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that one channel found; `score` is comparable within one list alone."""

    id: str
    score: float
    document: Document = field(repr=False)


class Index(Protocol):
    """Passages of many tenants. Every call names one tenant and sees that one's passages alone."""

    async def upsert(self, tenant: str, entries: Sequence[Entry]) -> None:
        """Store passages, replacing those with the same ids. When it returns, they outlive a crash."""

    async def digests(self, tenant: str, ids: Sequence[str]) -> dict[str, str]:
        """The digest of each of these passages that is stored."""

    async def keep_only(self, tenant: str, ids: Collection[str]) -> int:
        """Remove the tenant's passages that are not among `ids`; how many were removed."""

    async def search(
        self, tenant: str, channel: Channel, vector: Vector, *, limit: int, lang: str = ""
    ) -> list[Hit]:
        """The best passages of one channel, best first, at most `limit`.

        Args:
            tenant: Whose passages; never empty.
            channel: Where to look.
            vector: What to look for.
            limit: Most hits.
            lang: Only passages in this language; "" for any.

        Raises:
            RetrievalError: No tenant was named, or the index did not answer.
        """

    async def languages(self, tenant: str) -> dict[str, int]:
        """How many passages the tenant has in each language; empty when there are none."""

    async def close(self) -> None:
        """Release what is held; searches afterwards fail."""


class FusingIndex(Index, Protocol):
    """An index that can fuse several searches itself, in one call."""

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
        """Several searches, each `depth` deep and of equal weight, as one ranking.

        The order is that of `fusion.rrf` with the same `k`. Weights stay with `fusion`: Qdrant's formula
        for them is another one.

        Args:
            tenant: Whose passages.
            searches: Channel and vector of each.
            limit: Most hits.
            depth: Hits of each search that take part.
            k: Damping of the formula, at least 1.
            lang: Restricts the channel `bm25` alone.
        """


def expect_tenant(tenant: str) -> str:
    """The tenant, when there is one.

    Raises:
        RetrievalError: It is blank: such a search would see everybody's passages.
    """
    if not tenant.strip():
        raise RetrievalError("a search needs a tenant, got a blank one", reason="unavailable")
    return tenant


def point_id(tenant: str, passage_id: str) -> str:
    """The same UUID for the same passage of the same tenant, wherever it is computed."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"ix:{len(tenant)}:{tenant}:{passage_id}"))


def digest_of(*parts: str) -> str:
    """Sixteen hex digits that change with any part."""
    return sha256("\x1f".join(parts).encode("utf-8", "replace")).hexdigest()[:16]
