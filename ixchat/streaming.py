"""Streams a graph to a web client without leaving the turn running when the client goes away.

Web frameworks built on AnyIO (Starlette, FastAPI) stop a streamed response by cancelling a scope. Under
such a scope a run of `graph.astream` goes on to its end: the visitor has left, and searches and models
are still paid for. Here the run has a task of its own, which is cancelled and waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

from langgraph.pregel import Pregel

from ixchat.utils.lanes import Lanes

T = TypeVar("T")
Put = Callable[[T], Awaitable[None]]
"""Hands one item to the reader; waits while the reader is `room` items behind."""


@asynccontextmanager
async def stream_graph(
    graph: Pregel[Any, Any, Any, Any], input: Any, *, room: int = 64, grace_s: float = 2.0, **options: Any
) -> AsyncIterator[AsyncIterator[Any]]:
    """`graph.astream(input, **options)`, safe to leave at any point.

    When the block is left, by its end, `break`, an exception or a cancellation of any kind, the run has
    been cancelled and has cleaned up. What the graph raises comes out of the iteration.

    Args:
        graph: Any compiled graph.
        input: Its input.
        room: How many parts may wait for a slow reader before the run waits, too.
        grace_s: Longest wait for a cancelled run, in seconds.
        options: Everything else goes to `astream`.

    Returns:
        An async context manager that gives an iterator over the parts.
    """

    async def run(put: Put[Any]) -> None:
        async for part in graph.astream(input, **options):
            await put(part)

    async with in_own_task(run, room=room, grace_s=grace_s) as parts:
        yield parts


@asynccontextmanager
async def in_own_task(
    work: Callable[[Put[T]], Awaitable[None]], *, room: int = 64, grace_s: float = 2.0
) -> AsyncIterator[AsyncIterator[T]]:
    """Run `work(put)` as a task and iterate over what it puts; see `stream_graph`.

    For a host that does more in the run's task than to stream a graph, such as opening a span around it.
    """
    items: asyncio.Queue[T] = asyncio.Queue(room)
    async with Lanes(grace_s) as lanes:
        lane = lanes.start("stream", lambda _lane: work(items.put))
        async with aclosing(_items(items, lane.task)) as reader:
            yield reader


async def _items(items: asyncio.Queue[T], task: asyncio.Task[None]) -> AsyncGenerator[T]:
    while not (task.done() and items.empty()):
        item = asyncio.ensure_future(items.get())
        try:
            await asyncio.wait({item, task}, return_when=asyncio.FIRST_COMPLETED)
            if item.done():
                yield item.result()
        finally:
            item.cancel()
    if task.cancelled():  # by the work itself: for the reader this is a failure, not its own cancellation
        raise RuntimeError("the run was cancelled from inside")
    task.result()
