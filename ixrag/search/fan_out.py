"""All probes at once, under one deadline: what is slow or broken is recorded and left out."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ixinfra.tracing import current_tracer
from ixrag.search.index import Hit
from ixrag.search.plan import Probe

State = Literal["found", "empty", "failed", "late", "garbage"]
"""How a probe ended. `late` missed the deadline, `garbage` answered what no index answers."""

Ask = Callable[[Probe], Awaitable[Sequence[Hit]]]
"""Searches for one probe; raises whatever goes wrong."""

GRACE_S = 0.02  # longest wait for cancelled probes


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one probe; `error` is a class name, never a text."""

    probe: Probe
    state: State
    hits: tuple[Hit, ...] = ()
    elapsed_ms: float = 0.0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Deadline:
    """How long probes are waited for, in seconds from the start.

    Attributes:
        soft_s: After it, whoever has answered is enough. 0 makes the engine take the first answer.
        hard_s: While nobody has found anything, the query's own probes are waited for until here.
    """

    soft_s: float = 0.18
    hard_s: float = 2.0

    def __post_init__(self) -> None:
        if not 0 <= self.soft_s <= self.hard_s:
            raise ValueError(f"expected 0 <= soft_s <= hard_s, got {self.soft_s} and {self.hard_s}")


class FanOut:
    """The probes of one search. Add them as they become known, then take the outcomes.

    Use it as an asynchronous context manager: whatever happens, no probe outlives the block, unless it
    ignores its cancellation for longer than `GRACE_S`; such a one is never used.
    """

    def __init__(self, ask: Ask, deadline: Deadline) -> None:
        self._ask = ask
        self._deadline = deadline
        self._now_s = asyncio.get_running_loop().time
        self._started_s = self._now_s()
        self._tasks: dict[asyncio.Task[Outcome], Probe] = {}

    async def __aenter__(self) -> FanOut:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        live = {task for task in self._tasks if not task.done()}
        for task in live:
            task.cancel("deadline")
        if live:
            await asyncio.wait(live, timeout=GRACE_S)
        for task in live:
            # Reading it keeps the loop from reporting a loser's error as "never retrieved".
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    @property
    def left_s(self) -> float:
        """Seconds until the soft deadline; 0 once it is over."""
        return max(0.0, self._started_s + self._deadline.soft_s - self._now_s())

    def start(self, probes: Sequence[Probe]) -> None:
        """Begin these probes now."""
        for probe in probes:
            self._tasks[asyncio.create_task(self._run(probe), name=f"ix:probe:{probe.channel}")] = probe

    async def outcomes(self) -> list[Outcome]:
        """Every probe's outcome, in the order in which they were started."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self.left_s)
        await self._wait_for_something()
        return [self._outcome(task, probe) for task, probe in self._tasks.items()]

    async def _wait_for_something(self) -> None:
        """Until the hard deadline, while nothing was found and an own probe is on its way."""
        hard_s = self._started_s + self._deadline.hard_s
        while not any(task.done() and _found(task) for task in self._tasks):
            own = {task for task, probe in self._tasks.items() if probe.source == "query" and not task.done()}
            left_s = hard_s - self._now_s()
            if not own or left_s <= 0:
                return
            await asyncio.wait(own, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)

    def _outcome(self, task: asyncio.Task[Outcome], probe: Probe) -> Outcome:
        if task.done() and not task.cancelled():
            return task.result()
        return Outcome(probe, "late", elapsed_ms=self._ms_since(self._started_s))

    def _ms_since(self, started_s: float) -> float:
        return (self._now_s() - started_s) * 1000.0

    async def _run(self, probe: Probe) -> Outcome:
        started_s = self._now_s()
        with current_tracer().span(
            f"tool-search-{probe.channel}",
            "retriever",
            input={"query": probe.text},
            metadata={"source": probe.source, "weight": probe.weight},
        ) as span:
            try:
                hits: object = await self._ask(probe)
            except Exception as error:  # one index of several; what failed is in the outcome
                span.fail(error)
                return Outcome(probe, "failed", (), self._ms_since(started_s), type(error).__name__)
            outcome = _checked(probe, hits, self._ms_since(started_s))
            span.update(output={"state": outcome.state, "hits": len(outcome.hits)}, metadata=_ranks(outcome))
            return outcome


def _found(task: asyncio.Task[Outcome]) -> bool:
    return not task.cancelled() and task.result().state == "found"


def _checked(probe: Probe, hits: object, elapsed_ms: float) -> Outcome:
    """The outcome, if the answer is a list of hits with finite scores and distinct ids."""
    if not isinstance(hits, Sequence) or isinstance(hits, str | bytes):
        return Outcome(probe, "garbage", (), elapsed_ms, type(hits).__name__)
    sound = all(isinstance(hit, Hit) and math.isfinite(hit.score) for hit in hits)
    if not sound or len({hit.id for hit in hits}) != len(hits):
        return Outcome(probe, "garbage", (), elapsed_ms, "hits")
    return Outcome(probe, "found" if hits else "empty", tuple(hits), elapsed_ms)


def _ranks(outcome: Outcome) -> Mapping[str, Any]:
    return {"sources": [hit.document.metadata.get("source") for hit in outcome.hits[:5]]}
