"""Passages into an index: only what is new or changed is encoded, and a broken run is taken up again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ixrag.search.encoders import Encoders, Text
from ixrag.search.index import Index, Progress

PORTION = 32  # passages encoded and stored at once: about two seconds of work


@dataclass(frozen=True, slots=True)
class Ingested:
    """What one run did: passages encoded and stored, found unchanged, and removed."""

    stored: int
    unchanged: int
    removed: int


async def ingest(
    index: Index,
    encoders: Encoders,
    tenant: str,
    passages: Sequence[Text],
    *,
    progress: Progress | None = None,
) -> Ingested:
    """Make the tenant's passages those given.

    Run it again after a crash: what is in place is recognised by its digest and not encoded again.
    Passages that are no longer given are removed at the very end.

    Args:
        index: Where to.
        encoders: The models.
        tenant: Whose passages.
        passages: All of them, ids distinct.
        progress: Told after each portion that was stored.

    Raises:
        ValueError: Two passages share an id.
        RetrievalError: The index failed; what was stored until then stays.
    """
    if len({passage.id for passage in passages}) != len(passages):
        raise ValueError("two passages share an id")
    stored = 0
    for at in range(0, len(passages), PORTION):
        portion = passages[at : at + PORTION]
        known = await index.digests(tenant, [passage.id for passage in portion])
        fresh = [passage for passage in portion if known.get(passage.id) != encoders.digest(passage)]
        if fresh:
            await index.upsert(tenant, await encoders.entries(fresh))
        stored += len(fresh)
        if fresh and progress:
            progress(at + len(portion), len(passages))
    removed = await index.keep_only(tenant, {passage.id for passage in passages})
    return Ingested(stored, len(passages) - stored, removed)
