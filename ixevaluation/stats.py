"""Statistics of a paired comparison. Pure and seeded; every function here has a second source in its test.

A *delta* is one item's score under the treated arm minus its score under the control, each averaged
over runs. A *cluster* is the conversation an item comes from: items that share one are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

BOOTSTRAP_DRAWS = 5_000
CONFIDENCE = 0.95
POWER = 0.80


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval; `excludes_zero` is what a verdict rests on."""

    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval lies on one side of zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class Tally:
    """How many items got better, worse, or moved by no more than the tie width."""

    better: int
    worse: int
    tie: int


@dataclass(frozen=True, slots=True)
class VarianceSplit:
    """Where the spread of the deltas comes from.

    Attributes:
        item: Variance between items, in squared score units; never negative.
        run: Variance between repeated runs of one item.
        runs: Runs per item.
    """

    item: float
    run: float
    runs: int

    @property
    def item_share(self) -> float:
        """Share of the variance of one delta that more runs cannot remove, 0 to 1."""
        total = self.item + self.run
        return self.item / total if total else 0.0

    def standard_error(self, n_items: int, runs: int) -> float:
        """Standard error to expect from `n_items` items, each run `runs` times."""
        return math.sqrt((self.item + self.run / runs) / n_items)


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean; NaN for an empty sequence."""
    return math.fsum(values) / len(values) if values else math.nan


def standard_error(deltas: Sequence[float], clusters: Sequence[Hashable] | None = None) -> float:
    """Standard error of the mean delta.

    Args:
        deltas: One value per item.
        clusters: Conversation of each item. Where every item has its own, the result is the usual
            `sd / sqrt(n)`; where they are shared, it is the cluster-robust one.

    Returns:
        A value in score units; NaN when fewer than two independent groups are there.

    Source: the sandwich estimator for a mean with the small-sample factor G / (G - 1).
    """
    groups = _group_indices(len(deltas), clusters)
    if len(groups) < 2:
        return math.nan
    centre = mean(deltas)
    sums = [math.fsum(deltas[i] - centre for i in group) for group in groups]
    factor = len(groups) / (len(groups) - 1)
    return math.sqrt(factor * math.fsum(s * s for s in sums)) / len(deltas)


def bootstrap_ci(
    deltas: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    *,
    draws: int = BOOTSTRAP_DRAWS,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap interval of the mean delta, resampling whole conversations.

    Args:
        deltas: One value per item, at least one.
        clusters: Conversation of each item; None means that every item stands alone.
        draws: Resamples.
        confidence: Coverage, between 0 and 1.
        seed: Same seed, same interval.

    Raises:
        ValueError: `deltas` is empty.
    """
    if not deltas:
        raise ValueError("an interval needs at least one delta")
    groups = _group_indices(len(deltas), clusters)
    values = np.asarray(deltas, dtype=np.float64)
    sums = np.array([values[group].sum() for group in groups])
    sizes = np.array([len(group) for group in groups], dtype=np.float64)
    rng = np.random.default_rng(seed)
    means = np.empty(draws)
    step = max(1, 2_000_000 // len(groups))  # keep one block of draws around 16 MB
    for start in range(0, draws, step):
        stop = min(draws, start + step)
        picks = rng.integers(0, len(groups), size=(stop - start, len(groups)))
        means[start:stop] = sums[picks].sum(axis=1) / sizes[picks].sum(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(float(low), float(high))


def tally(deltas: Sequence[float], tie_width: float = 0.0) -> Tally:
    """Count items whose delta is above, below or within `tie_width` (score units, inclusive)."""
    # Averages of equal scores differ in the last bit; that is a tie, not a win.
    edge = tie_width + 1e-9
    better = sum(delta > edge for delta in deltas)
    worse = sum(delta < -edge for delta in deltas)
    return Tally(better, worse, len(deltas) - better - worse)


def sign_test(better: int, worse: int) -> float:
    """Exact two-sided sign test: the chance of a split at least this uneven if both were equally likely.

    Ties are left out by the caller. No items on either side gives 1.0.
    """
    n = better + worse
    if n == 0:
        return 1.0
    tail = sum(math.comb(n, k) for k in range(min(better, worse) + 1))
    return min(1.0, tail / (1 << (n - 1)))


def mcnemar(control: Sequence[bool], treated: Sequence[bool]) -> float:
    """Exact McNemar test for a hit or a miss on the same items, two-sided.

    Raises:
        ValueError: The sequences differ in length.
    """
    pairs = list(zip(control, treated, strict=True))
    gained = sum(after and not before for before, after in pairs)
    lost = sum(before and not after for before, after in pairs)
    return sign_test(gained, lost)


def variance_split(deltas: Sequence[Sequence[float]]) -> VarianceSplit:
    """Split the spread of repeated deltas into items and runs.

    Args:
        deltas: `[n_items][n_runs]`, every item with the same number of runs, at least 2 x 2.

    Raises:
        ValueError: Fewer than two items or runs, or a ragged table.

    Source: one-way random effects, method of moments: `MS_within` estimates the run variance,
    `(MS_between - MS_within) / runs` the item variance, cut at zero.
    """
    runs = len(deltas[0]) if deltas else 0
    if len(deltas) < 2 or runs < 2 or any(len(row) != runs for row in deltas):
        raise ValueError("a variance split needs at least two items with the same two or more runs")
    table = np.asarray(deltas, dtype=np.float64)
    centre = table.mean(axis=1)
    within = float(((table - centre[:, None]) ** 2).sum()) / (len(deltas) * (runs - 1))
    between = runs * float(((centre - centre.mean()) ** 2).sum()) / (len(deltas) - 1)
    return VarianceSplit(max(0.0, (between - within) / runs), within, runs)


def detectable_effect(se: float, *, power: float = POWER, confidence: float = CONFIDENCE) -> float:
    """Smallest true mean delta that a two-sided test at this standard error finds with `power`.

    Source: normal approximation, `(z_alpha/2 + z_power) * se`.
    """
    return _z_sum(power, confidence) * se


def items_needed(
    se: float, n_items: int, effect: float, *, power: float = POWER, confidence: float = CONFIDENCE
) -> int:
    """How many items of the same kind would find a true mean delta of `effect`.

    Args:
        se: Standard error measured on `n_items` items.
        n_items: Items it was measured on.
        effect: Mean delta to find, in score units; its sign does not matter.

    Returns:
        A whole number of items, at least 1; 0 when `effect` is zero, since no number is enough.
    """
    if effect == 0:
        return 0
    ratio: float = detectable_effect(se, power=power, confidence=confidence) / abs(effect)
    return max(1, math.ceil(n_items * ratio * ratio - 1e-9))


def quantile(values: Sequence[float], share: float) -> float:
    """Linear-interpolation quantile; NaN for an empty sequence."""
    return float(np.quantile(values, share)) if values else math.nan


def _z_sum(power: float, confidence: float) -> float:
    normal = NormalDist()
    return normal.inv_cdf(1 - (1 - confidence) / 2) + normal.inv_cdf(power)


def _group_indices(n: int, clusters: Sequence[Hashable] | None) -> list[list[int]]:
    if clusters is None:
        return [[i] for i in range(n)]
    if len(clusters) != n:
        raise ValueError(f"{n} deltas but {len(clusters)} clusters")
    groups: dict[Hashable, list[int]] = {}
    for i, cluster in enumerate(clusters):
        groups.setdefault(cluster, []).append(i)
    return list(groups.values())
