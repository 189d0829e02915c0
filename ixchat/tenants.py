"""Opens tenants when a turn first needs them, lends them for the length of a turn, closes idle ones, and
takes up a knowledge base that has been built again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ixchat.nodes.knowledge_retriever import Deps

_log = logging.getLogger(__name__)


async def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class OpenTenant:
    """A tenant that is ready to search, how to close it, and whether it is still what a new opening gives."""

    deps: Deps
    close: Callable[[], Awaitable[None]]
    is_current: Callable[[], Awaitable[bool]] = _always


@dataclass(eq=False, slots=True)
class _Slot:
    opening: asyncio.Task[OpenTenant]
    checked_s: float
    users: int = 0
    is_retired: bool = False


@dataclass(eq=False, slots=True)
class TenantRegistry:
    """The `Tenants` of a process that serves many.

    Attributes:
        open_tenant: Opens one tenant; raises `UnknownTenantError` or `IxError`. A failure is not
            remembered: the next turn tries again.
        max_open: How many idle and busy tenants stay open. A tenant in use is never closed, so more
            may be open for as long as more are in use at once.
        refresh_s: How often a tenant in use is asked whether it is current. One that is not is opened
            anew beside the old; turns move over when that is ready.
    """

    open_tenant: Callable[[str], Awaitable[OpenTenant]]
    max_open: int = 8
    refresh_s: float = 10.0
    _slots: dict[str, _Slot] = field(default_factory=dict)
    _closing: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _retired: set[_Slot] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

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
            slot = self._new_slot(tenant_id, self._open(tenant_id))
        self._slots[tenant_id] = slot  # last: most recently used
        slot.users += 1
        try:
            try:
                tenant = await asyncio.shield(slot.opening)
            except Exception:
                if self._slots.get(tenant_id) is slot:
                    del self._slots[tenant_id]
                raise
            self._look_again(tenant_id, slot)
            yield tenant.deps
        finally:
            slot.users -= 1
            self._close_retired(slot)
            self._close_surplus()

    async def close(self) -> None:
        """Close every tenant. Turns still running on them lose their search."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        slots, self._slots = [*self._slots.values(), *self._retired], {}
        self._retired.clear()
        await asyncio.gather(*self._closing.values(), *(_close(slot.opening) for slot in slots))

    def _new_slot(self, tenant_id: str, opening: Coroutine[Any, Any, OpenTenant]) -> _Slot:
        task = asyncio.create_task(opening, name=f"ix:open:{tenant_id}")
        return _Slot(task, asyncio.get_running_loop().time())

    def _look_again(self, tenant_id: str, slot: _Slot) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - slot.checked_s >= self.refresh_s and not slot.is_retired:
            slot.checked_s = now_s
            self._keep(asyncio.create_task(self._refresh(tenant_id, slot), name=f"ix:refresh:{tenant_id}"))

    async def _refresh(self, tenant_id: str, slot: _Slot) -> None:
        """Open a tenant anew if it is no longer current. Whatever goes wrong, the old one stays."""
        fresh: _Slot | None = None
        try:
            if await slot.opening.result().is_current():
                return
            fresh = self._new_slot(tenant_id, self._open(tenant_id))
            await asyncio.shield(fresh.opening)
        except Exception as error:
            _log.warning("a tenant could not be opened anew: %s", type(error).__name__)
            return
        except asyncio.CancelledError:
            if fresh:
                self._retired.add(fresh)  # `close` waits for it and closes it
            raise
        old = fresh  # closed meanwhile, or pushed out: then nobody wants the new one
        if self._slots.get(tenant_id) is slot:
            self._slots[tenant_id], old = fresh, slot
        old.is_retired = True
        self._retired.add(old)
        self._close_retired(old)

    def _close_retired(self, slot: _Slot) -> None:
        if slot.users == 0 and slot in self._retired:
            self._retired.discard(slot)
            self._keep(asyncio.create_task(_close(slot.opening), name="ix:close:retired"))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
