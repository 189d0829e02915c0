"""What a knowledge base's passages say of its names, read while the tenant works already."""

from __future__ import annotations

import asyncio
import logging

from ixrag.lightrag.knowledge_base import KnowledgeBase
from ixrag.profiles import MAX_PASSAGES, NameProfiles

logger = logging.getLogger(__name__)

WAIT_S = 0.5  # when a tenant opens; enough for a thousand passages


class LateProfiles:
    """What the passages say of each name; thousands of them take seconds, which no visitor should wait for.

    Until they are read, and where they cannot be, references are decided by the names alone.
    """

    def __init__(self, base: KnowledgeBase) -> None:
        self._base = base
        self._reading: asyncio.Task[NameProfiles | None] | None = None

    def __call__(self) -> NameProfiles | None:
        """The profiles, if they are read."""
        reading = self._reading
        return reading.result() if reading and reading.done() and not reading.cancelled() else None

    async def start(self) -> None:
        """Begin to read, and wait for the end of it, but no longer than `WAIT_S`."""
        self._reading = asyncio.create_task(_read(self._base))
        await asyncio.wait({self._reading}, timeout=WAIT_S)

    async def close(self) -> None:
        """Stop reading; a store that does not let go is left behind."""
        if self._reading:
            self._reading.cancel()
            await asyncio.wait({self._reading}, timeout=WAIT_S)


async def _read(base: KnowledgeBase) -> NameProfiles | None:
    try:
        texts = [text for _, text in await base.passages(MAX_PASSAGES)]
        return await asyncio.to_thread(NameProfiles.of, texts, base.name_index)
    except Exception as error:
        logger.warning("passages of %r could not be read for its names: %s", base.name, type(error).__name__)
        return None
