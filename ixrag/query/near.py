"""Earlier queries that mean the same: what a cache falls back to when nobody asked in these very words.

Each tenant has a bounded list of the queries whose answers are remembered: a vector and a digest each, no
text. It is kept in this process and, where a log is shared, brought up to date from it at every look-up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ixinfra.embeddings import Embedder, Vectors
from ixrag.query.asked import Asked
from ixrag.query.languages import exact, language_of
from ixrag.words import words

MAX_A_TENANT = 1000  # queries; 0.8 MB at 384 dimensions
MAX_TENANTS = 64  # kept in this process; the one unused for longest goes
READ_AT_ONCE = 256  # of a shared log: a fresh process catches up over a few look-ups
MARKS_BYTES = 16
DIGEST_BYTES = 16

NamesIn = Callable[[str], Iterable[str]]
"""The tenant's own names in a text, as its knowledge base spells them."""

_log = logging.getLogger(__name__)


class SharedLog(Protocol):
    """A bounded list of bytes that several processes write and read. `RedisCache` is one."""

    async def append(self, tenant_id: str, value: bytes, *, keep: int, ttl_s: float) -> None:
        """Add a value; the oldest beyond `keep` go. Does nothing where the server is away."""

    async def read_after(self, tenant_id: str, place: str, *, limit: int) -> tuple[list[bytes], str]:
        """Values added after `place` ("" for the start), oldest first, and the place they end at."""


@dataclass(slots=True)
class _Seen:
    """The queries of one tenant; a ring, so that the newest replaces the oldest."""

    vectors: NDArray[np.float16]
    marks: list[bytes] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    expires_s: list[float] = field(default_factory=list)
    oldest: int = 0
    place: str = ""

    def add(self, marks: bytes, digest: bytes, vector: NDArray[Any], expires_s: float, *, keep: int) -> None:
        if digest in self.digests:
            at = self.digests.index(digest)
        elif len(self.digests) < keep:
            at = len(self.digests)
            self.marks.append(b"")
            self.digests.append(b"")
            self.expires_s.append(0.0)
            if at == len(self.vectors):
                room = np.zeros((min(keep, 2 * at), self.vectors.shape[1]), np.float16)
                room[:at] = self.vectors
                self.vectors = room
        else:
            at, self.oldest = self.oldest, (self.oldest + 1) % keep
        self.marks[at], self.digests[at], self.expires_s[at] = marks, digest, expires_s
        self.vectors[at] = vector

    def nearest(self, marks: bytes, vector: Vectors, now_s: float, at_least: float) -> bytes | None:
        rows = [
            at
            for at, known in enumerate(self.marks)
            if known == marks and self.expires_s[at] > now_s  # marks first: they differ for nearly all
        ]
        if not rows:
            return None
        likeness = self.vectors[rows].astype(np.float32) @ vector
        best = int(likeness.argmax())
        return self.digests[rows[best]] if likeness[best] >= at_least else None


class NearQueries:
    """Finds an earlier query of the same tenant that means the same, by vector and by what it names.

    Vectors alone take "the price of A" for "the price of B". So both queries must also show the same
    language, figures, capitalised words and names of the tenant, and their answers must depend on the same
    model, prompt and glossary (`Asked.scope`). It never raises; what fails is a miss.

    Args:
        embedder: Makes the vectors, those of the dense index; inside `remember_vectors` a search that needs
            the same one does not compute it twice.
        at_least: Least cosine, above 0; 1 still takes other spellings of the same vector.
        names: The tenant's own names in a text.
        shared: Log that other processes use as well; None for this process alone.
        max_a_tenant: Queries kept for a tenant.
        timeout_s: Longest wait for a look-up.
        clock: Seconds, never going back.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        at_least: float,
        names: NamesIn = lambda _text: (),
        shared: SharedLog | None = None,
        max_a_tenant: int = MAX_A_TENANT,
        timeout_s: float = 0.1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 0 < at_least <= 1:
            raise ValueError(f"`at_least` must be above 0 and at most 1, got {at_least}")
        if max_a_tenant < 1:
            raise ValueError(f"`max_a_tenant` must be >= 1, got {max_a_tenant}")
        self._embedder = embedder
        self._at_least = at_least
        self._names = names
        self._shared = shared
        self._max_a_tenant = max_a_tenant
        self._timeout_s = timeout_s
        self._clock = clock
        self._tenants: OrderedDict[str, _Seen] = OrderedDict()

    async def nearest(self, asked: Asked, *, ttl_s: float) -> str | None:
        """Digest of the cache key of the nearest earlier query of the same tenant, or None.

        Args:
            asked: What is asked now, without a conversation.
            ttl_s: How long what a shared log brings is worth keeping.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                (vector,) = await self._embedder.query([asked.query])
                seen = self._seen(asked.tenant_id)
                await self._catch_up(asked.tenant_id, seen, ttl_s)
            found = seen.nearest(self._marks(asked), vector, self._clock(), self._at_least)
        except Exception as error:  # a fallback of a cache: what fails is a miss
            _log.warning("query.cache.near_failed: %s", type(error).__name__)
            return None
        return found.hex() if found else None

    async def add(self, asked: Asked, digest: str, *, ttl_s: float) -> None:
        """Remember that the answer is kept under the key with this digest."""
        tenant_id, keep = asked.tenant_id, self._max_a_tenant
        try:
            async with asyncio.timeout(self._timeout_s):
                (vector,) = await self._embedder.query([asked.query])
                marks, key = self._marks(asked), bytes.fromhex(digest)
                self._seen(tenant_id).add(marks, key, vector, self._clock() + ttl_s, keep=keep)
                if self._shared:
                    entry = marks + key + np.asarray(vector, np.float16).tobytes()
                    await self._shared.append(tenant_id, entry, keep=keep, ttl_s=ttl_s)
        except Exception as error:
            _log.warning("query.cache.near_failed: %s", type(error).__name__)

    def _seen(self, tenant_id: str) -> _Seen:
        seen = self._tenants.get(tenant_id)
        if seen is None:
            room = np.zeros((min(16, self._max_a_tenant), self._embedder.dim), np.float16)
            seen = self._tenants[tenant_id] = _Seen(room)
        self._tenants.move_to_end(tenant_id)
        if len(self._tenants) > MAX_TENANTS:
            self._tenants.popitem(last=False)
        return seen

    async def _catch_up(self, tenant_id: str, seen: _Seen, ttl_s: float) -> None:
        if self._shared is None:
            return
        entries, seen.place = await self._shared.read_after(tenant_id, seen.place, limit=READ_AT_ONCE)
        head, whole = MARKS_BYTES + DIGEST_BYTES, MARKS_BYTES + DIGEST_BYTES + 2 * self._embedder.dim
        for entry in entries:
            vector = np.frombuffer(entry[head:], np.float16) if len(entry) == whole else None
            if vector is None or not np.isfinite(vector).all():
                continue  # of another embedder, or damaged
            marks, digest = entry[:MARKS_BYTES], entry[MARKS_BYTES:head]
            seen.add(marks, digest, vector, self._clock() + ttl_s, keep=self._max_a_tenant)

    def _marks(self, asked: Asked) -> bytes:
        own = marks_of(asked.query, self._names(asked.query), language=asked.language)
        marks = [asked.scope, self._embedder.model_id, *own]
        return blake2b("\x1f".join(marks).encode("utf-8", "replace"), digest_size=MARKS_BYTES).digest()


def marks_of(query: str, names: Iterable[str] = (), *, language: str = "") -> Sequence[str]:
    """What two queries must share to mean the same: language, figures, capitalised words, names; sorted.

    A capital at the start of the query says nothing.
    """
    found = words(query)
    shown = language_of([exact(query, word) for word in found], language)
    marked = {f"name:{name}" for name in names}
    for place, word in enumerate(found):
        written = query[word.start : word.end]
        if any(letter.isdigit() for letter in written) or (place and written[0].isupper()):
            marked.add(word.folded)
    return [shown.code if shown else language, *sorted(marked)]
