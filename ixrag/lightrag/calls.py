"""The calls LightRAG makes in workers of its own: tied to the search that caused them, and ended with it.

LightRAG 1.5.7 lets a cancelled search's model call run on, which keeps its slot from the next search,
and its workers outlive `finalize_storages`, which can keep a process from ending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

STOP_TIMEOUT_S = 2.0


@dataclass(slots=True)
class Calls:
    """Model and embedding calls of one search, which LightRAG runs in workers of its own.

    Attributes:
        query: The words that are searched for.
        text: What LightRAG was given: the same, bound to the company.
        keyword_failure: Why the keyword model gave none, "" when it was not asked or answered.
    """

    query: str = ""
    text: str = ""
    keyword_failure: str = ""
    running: set[asyncio.Future[Any]] = field(default_factory=set)

    def cancel(self) -> None:
        """Stop what still runs, which frees its slot for the next search."""
        for call in tuple(self.running):
            call.cancel()


CALLS: ContextVar[Calls | None] = ContextVar("ix_lightrag_calls", default=None)
"""The calls of the search being made. LightRAG's workers see the context of whoever asked."""


def cancellable(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Tie the calls of `function` to the search that caused them: LightRAG lets them run on otherwise."""

    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        task = asyncio.ensure_future(function(*args, **kwargs))
        calls = CALLS.get()
        if calls is not None:
            calls.running.add(task)
            task.add_done_callback(calls.running.discard)
        return await task

    return call


async def stop_lightrag(rag: Any) -> None:
    """End LightRAG's workers and close its storages, in at most `STOP_TIMEOUT_S` whatever its calls do.

    `finalize_storages` alone leaves every worker running, and a worker that swallows a cancellation
    keeps `asyncio.run` from ever returning.
    """
    queues = (*rag.role_llm_funcs.values(), rag.embedding_func.func, rag.rerank_model_func)
    stops = [queue.shutdown(graceful=False) for queue in queues if hasattr(queue, "shutdown")]
    tasks = {asyncio.ensure_future(stop) for stop in stops}
    await asyncio.wait(tasks, timeout=STOP_TIMEOUT_S)
    last = asyncio.ensure_future(rag.finalize_storages())
    await asyncio.wait({last}, timeout=STOP_TIMEOUT_S)
    for task in (*tasks, last):
        drop(task)
    rag.ix_release()  # its connections are closed; another event loop may have the server now


def drop(task: asyncio.Future[Any]) -> None:
    """Cancel a task that nobody waits for any more, and collect whatever it ends with."""
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    task.cancel()
