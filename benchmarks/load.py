"""Open load and bursts. Run: `python -m benchmarks.load [--seconds 60] [--rate 100] [--burst 1000]`.

Turns arrive at a fixed rate whether or not earlier ones have ended. The product and a pass-through node
take turns in one process, several repeats; what is printed is the median of the repeats.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from typing import Any

from benchmarks.timing import percentile
from benchmarks.traffic import MIX, Kind, draw, ix_graph, one_turn, pass_through_graph, stub_deps

SEARCH_S = 0.5
CHECK_S = 0.15


async def open_load(graph: Any, rate: float, seconds: float, seed: int) -> dict[Kind, list[float]]:
    """Milliseconds from arrival to end of each turn, by kind."""
    rng = random.Random(seed)
    taken: dict[Kind, list[float]] = {kind: [] for kind in MIX}

    async def turn(kind: Kind) -> None:
        started = time.perf_counter()
        await one_turn(graph, kind)
        taken[kind].append((time.perf_counter() - started) * 1000)

    tasks = []
    start = time.perf_counter()
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, start + number / rate - time.perf_counter()))
        tasks.append(asyncio.create_task(turn(draw(rng))))
    await asyncio.gather(*tasks)
    return taken


async def burst(graph: Any, turns: int, seed: int) -> list[float]:
    """Milliseconds of each of `turns` turns that arrive at once."""
    rng = random.Random(seed)

    async def turn(kind: Kind) -> float:
        started = time.perf_counter()
        await one_turn(graph, kind)
        return (time.perf_counter() - started) * 1000

    return list(await asyncio.gather(*(turn(draw(rng)) for _ in range(turns))))


async def measure(arguments: argparse.Namespace) -> None:
    """Run both graphs alternately and print the added time of each kind."""
    graphs = {"pass-through": pass_through_graph(SEARCH_S), "ix": ix_graph(stub_deps(SEARCH_S, CHECK_S))}
    runs: dict[str, list[dict[Kind, list[float]]]] = {name: [] for name in graphs}
    bursts: dict[str, list[list[float]]] = {name: [] for name in graphs}
    for repeat in range(arguments.repeats):
        for name, graph in graphs.items():
            runs[name].append(await open_load(graph, arguments.rate, arguments.seconds, repeat))
            bursts[name].append(await burst(graph, arguments.burst, repeat))
    print(
        f"{arguments.rate:g} turns/s for {arguments.seconds:g} s, {arguments.repeats} repeats; "
        f"search {SEARCH_S * 1000:g} ms, check {CHECK_S * 1000:g} ms"
    )
    print(f"{'':10} {'turns':>6} {'p50':>9} {'p99':>9} {'added p50':>10} {'added p99':>10}   ms")
    for kind in MIX:
        base = [run[kind] for run in runs["pass-through"]]
        ours = [run[kind] for run in runs["ix"]]
        _print_row(kind, base, ours)
    _print_row(f"burst {arguments.burst}", bursts["pass-through"], bursts["ix"])


def _print_row(name: str, base: list[list[float]], ours: list[list[float]]) -> None:
    pairs = list(zip(base, ours, strict=True))
    p50 = statistics.median(statistics.median(run) for run in ours)
    p99 = statistics.median(percentile(run, 0.99) for run in ours)
    added_p50 = statistics.median(statistics.median(o) - statistics.median(b) for b, o in pairs)
    added_p99 = statistics.median(percentile(o, 0.99) - percentile(b, 0.99) for b, o in pairs)
    turns = sum(map(len, ours))
    print(f"{name:10} {turns:6d} {p50:9.1f} {p99:9.1f} {added_p50:10.1f} {added_p99:10.1f}")


def main() -> None:
    """Parse the arguments and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--burst", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
