"""Work that runs beside other work inside one turn, and never outlives it.

LangGraph cancels a node's coroutine but not the tasks the node started, and awaiting a task that
one has cancelled oneself swallows a cancellation of the turn. So every task of a turn is started,
cancelled and collected here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import anyio

from ixinfra.tracing import CancelCause

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Lane(Generic[T]):
    """One task of a turn and, once cancelled, the cause: the task reads it to mark its span."""

    name: str
    cause: CancelCause | None = None
    _task: asyncio.Task[T] | None = None

    @property
    def task(self) -> asyncio.Task[T]:
        """The running task."""
        if self._task is None:
            raise RuntimeError(f"lane {self.name!r} was not started")
        return self._task

    @property
    def finished(self) -> bool:
        """Whether the task ended by itself, with a result or an exception."""
        return self.task.done() and not self.task.cancelled()

    def cancel(self, cause: CancelCause) -> None:
        """Ask the task to stop, once: asking again would interrupt its clean-up. A finished task is
        left alone."""
        if self.cause is None and not self.task.done():
            self.cause = cause
            self.task.cancel(cause)


@dataclass(slots=True)
class Lanes:
    """The lanes of one turn. Use as an async context manager: leaving it stops what still runs.

    Attributes:
        grace_s: Seconds to wait for cancelled tasks on the way out. A task that ignores its
            cancellation longer than that is abandoned: its result is never used and its exception
            is collected, but it is not waited for.
    """

    grace_s: float = 0.15
    abandoned: int = 0
    _lanes: list[Lane[Any]] = field(default_factory=list)

    def start(self, name: str, work: Callable[[Lane[T]], Awaitable[T]]) -> Lane[T]:
        """Run `work(lane)` as a task of this turn."""
        lane: Lane[T] = Lane(name)

        async def run() -> T:
            return await work(lane)

        lane._task = asyncio.create_task(run(), name=f"ix:{name}")
        lane._task.add_done_callback(_collect)
        self._lanes.append(lane)
        return lane

    def cancel_all(self, cause: CancelCause) -> None:
        """Cancel whatever still runs."""
        for lane in self._lanes:
            lane.cancel(cause)

    async def __aenter__(self) -> Lanes:
        return self

    async def __aexit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        self.cancel_all("client_gone" if isinstance(error, asyncio.CancelledError) else "superseded")
        live = {lane.task for lane in self._lanes if not lane.task.done()}
        if not live:
            return
        stubborn, interrupted = await _wait_out(live, self.grace_s)
        self.abandoned += len(stubborn)
        if stubborn:
            _log.warning("%d cancelled task(s) still run after %.2f s", len(stubborn), self.grace_s)
        if interrupted is not None:
            raise interrupted


async def _wait_out(
    live: set[asyncio.Task[Any]], grace_s: float
) -> tuple[set[asyncio.Task[Any]], asyncio.CancelledError | None]:
    """Wait for cancelled tasks; returns those that still run, and a cancellation that came meanwhile.

    LangGraph cancels a node up to three times when a sibling fails, and an AnyIO scope (Starlette's, for
    one) cancels again at every step. Each of them would cut the wait short, so the first kind is noted,
    the second shielded off, and the time limit alone ends it.
    """
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + grace_s
    interrupted: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while live and (left_s := ends_s - loop.time()) > 0:
            try:
                # wait() neither raises a child's error nor mistakes its cancellation for the turn's own.
                _, live = await asyncio.wait(live, timeout=left_s)
            except asyncio.CancelledError as again:
                interrupted = again
    return live, interrupted


def _collect(task: asyncio.Task[Any]) -> None:
    # Reading the exception keeps the loop from reporting a loser's error as "never retrieved".
    if not task.cancelled():
        task.exception()
