"""Opens tenants when a turn first needs them, lends them for the length of a turn, closes idle ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from ixchat.nodes.knowledge_retriever import Deps

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenTenant:
    """A tenant that is ready to search, and how to close it."""

    deps: Deps
    close: Callable[[], Awaitable[None]]


@dataclass(eq=False, slots=True)
class _Slot:
    opening: asyncio.Task[OpenTenant]
    users: int = 0


@dataclass(eq=False, slots=True)
class TenantRegistry:
    """The `Tenants` of a process that serves many.

    Attributes:
        open_tenant: Opens one tenant; raises `UnknownTenantError` or `IxError`. A failure is not
            remembered: the next turn tries again.
        max_open: How many idle and busy tenants stay open. A tenant in use is never closed, so more
            may be open for as long as more are in use at once.
    """

    open_tenant: Callable[[str], Awaitable[OpenTenant]]
    max_open: int = 8
    _slots: dict[str, _Slot] = field(default_factory=dict)
    _closing: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    @property
    def open_ids(self) -> list[str]:
        """Tenants that are open or opening, least recently used first."""
        return list(self._slots)

    @asynccontextmanager
    async def lend(self, tenant_id: str) -> AsyncIterator[Deps]:
        """The tenant's `Deps`, open for as long as the block runs.

        Opening is shared: turns that come while a tenant opens wait for the same opening, and one
        of them being cancelled does not stop it.
        """
        slot = self._slots.pop(tenant_id, None)
        if slot is None:
            slot = _Slot(asyncio.create_task(self._open(tenant_id), name=f"ix:open:{tenant_id}"))
        self._slots[tenant_id] = slot  # last: most recently used
        slot.users += 1
        try:
            try:
                tenant = await asyncio.shield(slot.opening)
            except Exception:
                if self._slots.get(tenant_id) is slot:
                    del self._slots[tenant_id]
                raise
            yield tenant.deps
        finally:
            slot.users -= 1
            self._close_surplus()

    async def close(self) -> None:
        """Close every tenant. Turns still running on them lose their search."""
        slots, self._slots = list(self._slots.values()), {}
        await asyncio.gather(*self._closing.values(), *(_close(slot.opening) for slot in slots))

    async def _open(self, tenant_id: str) -> OpenTenant:
        if closing := self._closing.get(tenant_id):  # both would write to the same files
            await asyncio.wait({closing})
        return await self.open_tenant(tenant_id)

    def _close_surplus(self) -> None:
        surplus = len(self._slots) - self.max_open
        for tenant_id in [key for key, slot in self._slots.items() if slot.users == 0][: max(0, surplus)]:
            slot = self._slots.pop(tenant_id)
            task = asyncio.create_task(_close(slot.opening), name=f"ix:close:{tenant_id}")
            self._closing[tenant_id] = task
            task.add_done_callback(partial(self._closed, tenant_id))

    def _closed(self, tenant_id: str, task: asyncio.Task[None]) -> None:
        if self._closing.get(tenant_id) is task:
            del self._closing[tenant_id]


async def _close(opening: asyncio.Task[OpenTenant]) -> None:
    try:
        tenant = await opening
    except Exception:  # it never opened; whoever asked for it was told
        return
    try:
        await tenant.close()
    except Exception as error:
        _log.warning("closing a tenant failed: %s", type(error).__name__)
