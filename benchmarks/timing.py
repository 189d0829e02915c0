"""How the benchmarks measure and print: medians and 99th percentiles of alternating runs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the sorted values lie; nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def table(title: str, rows: Mapping[str, Sequence[float]], unit: str = "ms") -> str:
    """One line per row: number of values, median, p99 and maximum."""
    width = max(len(name) for name in rows)
    lines = [title, f"{'':{width}}  {'n':>6} {'p50':>9} {'p99':>9} {'max':>9}  {unit}"]
    for name, values in rows.items():
        lines.append(
            f"{name:{width}}  {len(values):6d} {statistics.median(values):9.3f} "
            f"{percentile(values, 0.99):9.3f} {max(values):9.3f}"
        )
    return "\n".join(lines)
