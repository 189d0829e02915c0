"""What the retrieval node adds to a turn. Run: `python -m benchmarks.turn [--turns N]`.

Every kind of turn runs through the same one-node graph as a pass-through node that only searches, in
one process, alternating, several repeats. Search and check are sleeps, so what is left is the node.
Goals: KEEP adds nothing beyond the pass-through's own spread (p50 0 ms, p99 at most 5 ms), RESOLVE
adds the check, switched off adds at most 1 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

from benchmarks.timing import percentile
from benchmarks.traffic import MESSAGES, StubEngine, pass_through_graph
from ixchat.graph import build_retrieval_graph
from ixchat.nodes.knowledge_retriever import Deps
from ixchat.state import ChatContext
from ixchat.utils.resolution import Resolution, Resolver, Turn

SEARCH_S = 0.100
CHECK_S = 0.030


def checks(decision: str) -> Resolver:
    """A check that takes `CHECK_S` seconds."""

    async def resolve(turn: Turn) -> Resolution:
        await asyncio.sleep(CHECK_S)
        if decision == "resolve":
            return Resolution(f"{turn.query} — Badgeo", "resolve")
        return Resolution(turn.query, "keep" if decision == "keep" else "ambiguous")

    return resolve


async def measure(turns: int, repeats: int) -> dict[str, list[list[float]]]:
    """Milliseconds per turn: for each kind, one list per repeat; kinds alternate turn by turn."""
    graphs = {
        "pass-through": pass_through_graph(SEARCH_S),
        "off": build_retrieval_graph(Deps(StubEngine(SEARCH_S), enabled=False)),
        "keep": build_retrieval_graph(Deps(StubEngine(SEARCH_S), reference_resolver=checks("keep"))),
        "ambiguous": build_retrieval_graph(
            Deps(StubEngine(SEARCH_S), reference_resolver=checks("ambiguous"))
        ),
        "resolve": build_retrieval_graph(Deps(StubEngine(SEARCH_S), reference_resolver=checks("resolve"))),
    }
    for graph in graphs.values():
        await graph.ainvoke({"messages": MESSAGES["resolve"]}, context=ChatContext())
    samples: dict[str, list[list[float]]] = {name: [] for name in graphs}
    for _ in range(repeats):
        for name in graphs:
            samples[name].append([])
        for _ in range(turns):
            for name, graph in graphs.items():
                started = time.perf_counter()
                await graph.ainvoke({"messages": MESSAGES["resolve"]}, context=ChatContext())
                samples[name][-1].append((time.perf_counter() - started) * 1000)
    return samples


def main() -> None:
    """Print the added time of each kind of turn: median over the repeats."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=40, help="turns of each kind in a repeat")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    samples = asyncio.run(measure(arguments.turns, arguments.repeats))
    base = samples["pass-through"]
    spread = statistics.median(percentile(r, 0.99) - statistics.median(r) for r in base)
    print(
        f"search {SEARCH_S * 1000:.0f} ms, check {CHECK_S * 1000:.0f} ms; {arguments.repeats} repeats of {arguments.turns} turns"
    )
    print(f"pass-through's own spread (p99 - p50): {spread:.2f} ms")
    print(f"{'kind':14} {'p50':>9} {'p99':>9} {'added p50':>10} {'added p99':>10}   ms")
    for name, runs in samples.items():
        p50 = statistics.median(statistics.median(run) for run in runs)
        p99 = statistics.median(percentile(run, 0.99) for run in runs)
        added_p50 = statistics.median(
            statistics.median(r) - statistics.median(b) for r, b in zip(runs, base, strict=True)
        )
        added_p99 = statistics.median(
            percentile(r, 0.99) - percentile(b, 0.99) for r, b in zip(runs, base, strict=True)
        )
        print(f"{name:14} {p50:9.2f} {p99:9.2f} {added_p50:10.2f} {added_p99:10.2f}")


if __name__ == "__main__":
    main()
