"""Does anything pile up? Run: `python -m benchmarks.soak [--turns 10000]`.

A mix of turns through the real graph, 5 % cancelled at a random instant, 5 % with a failing engine or check.
After a warm-up, tasks and file descriptors must not grow, and memory by at most 2 MB. Exit status 1 otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.traffic import draw, ix_graph, one_turn, stub_deps

CANCELLED = 0.05
FAILING = 0.05
AT_ONCE = 50
MAX_GROWTH_MB = 2.0


@dataclass(frozen=True, slots=True)
class Footprint:
    """What the process holds between turns."""

    tasks: int
    descriptors: int
    objects: int
    memory_mb: float

    @classmethod
    def now(cls) -> Footprint:
        """Measured after a collection; Linux only."""
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return cls(
            tasks=len(asyncio.all_tasks()),
            descriptors=len(os.listdir("/proc/self/fd")),
            objects=len(gc.get_objects()),
            memory_mb=pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        )


async def run_turns(graph: Any, turns: int, rng: random.Random) -> None:
    """Run that many turns, `AT_ONCE` at a time."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def turn() -> None:
        async with slots:
            task = asyncio.create_task(one_turn(graph, draw(rng)))
            if rng.random() < CANCELLED:
                await asyncio.sleep(rng.uniform(0, 0.02))
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    for start in range(0, turns, 500):
        await asyncio.gather(*(turn() for _ in range(min(500, turns - start))))


async def soak(turns: int) -> tuple[Footprint, Footprint]:
    """The footprints after the warm-up and at the end."""
    graph = ix_graph(stub_deps(0.01, 0.004, failing=FAILING))
    rng = random.Random(3)
    await run_turns(graph, max(500, turns // 5), rng)
    before = Footprint.now()
    await run_turns(graph, turns, rng)
    return before, Footprint.now()


def grew(before: Footprint, after: Footprint) -> list[str]:
    """What grew more than it may."""
    problems = []
    if after.tasks > before.tasks:
        problems.append(f"tasks {before.tasks} -> {after.tasks}")
    if after.descriptors > before.descriptors:
        problems.append(f"descriptors {before.descriptors} -> {after.descriptors}")
    if after.memory_mb > before.memory_mb + MAX_GROWTH_MB:
        problems.append(f"memory {before.memory_mb:.1f} -> {after.memory_mb:.1f} MB")
    return problems


def main() -> None:
    """Run and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=10_000)
    turns = parser.parse_args().turns
    before, after = asyncio.run(soak(turns))
    for name in ("tasks", "descriptors", "objects", "memory_mb"):
        print(f"{name:12} {getattr(before, name):12.1f} {getattr(after, name):12.1f}")
    problems = grew(before, after)
    print(f"{turns} turns: " + ("; ".join(problems) if problems else "nothing piled up"))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
