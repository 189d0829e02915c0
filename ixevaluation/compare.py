"""Compare two runs, item by item. A pure function of what is on disk, and the verdict in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ixevaluation import stats
from ixevaluation.records import ItemRef, Record, Run
from ixevaluation.stats import Interval, Tally, VarianceSplit
from ixinfra.errors import DatasetError

VerdictWord = Literal["confirmed", "positive, unresolved", "no evidence", "harmful", "refused"]

TIE_WIDTH = 0.005  # half a point of a 0-1 score: rounding and float noise, not an effect
HIT_METRIC = "hit@5"
MIN_SHARE_OF_SPREAD = 1.0  # below one standard error, not even the direction is worth a word


@dataclass(frozen=True, slots=True)
class ItemDelta:
    """One item in both arms; scores are means over repetitions."""

    item: ItemRef
    control: float
    treated: float
    runs: Sequence[float]
    control_record: Record
    treated_record: Record
    same_input: bool

    @property
    def delta(self) -> float:
        """Treated minus control."""
        return self.treated - self.control


@dataclass(frozen=True, slots=True)
class Effect:
    """A paired difference on some of the items; `interval` is None below two independent items."""

    n: int
    control: float
    treated: float
    delta: float
    se: float
    interval: Interval | None
    p: float
    tally: Tally


@dataclass(frozen=True, slots=True)
class Drift:
    """How far scores move although nothing should move them."""

    n: int
    mean: float
    mean_abs: float
    moved: int


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The resolution limit of the comparison, measured three ways; None where it was not measured.

    Attributes:
        declined: Items whose retrieval input is byte-identical in both arms.
        rejudged: The same passages judged twice.
        repeated: The same input retrieved again in another repetition of one arm.
        changed_passages: Of the repeated retrievals, how many returned other passages.
    """

    declined: Drift | None = None
    rejudged: Drift | None = None
    repeated: Drift | None = None
    changed_passages: int = 0

    @property
    def largest(self) -> float:
        """The largest mean movement seen where none was due, in score units."""
        drifts = [drift for drift in (self.declined, self.rejudged, self.repeated) if drift]
        return max((abs(drift.mean) for drift in drifts), default=0.0)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything a report says about two runs."""

    control: str
    treated: str
    metric: str
    dataset: str
    sealed: bool
    runs: int
    effect: Effect
    fired: Effect | None
    declined: Effect | None
    fired_share: float
    by_mode: Mapping[str, Effect]
    by_lang: Mapping[str, Effect]
    floor_items: Sequence[str]
    ceiling_items: Sequence[str]
    hit_p: float | None
    detectable: float
    items_needed: int
    variance: VarianceSplit | None
    noise: NoiseFloor
    conversations: int
    items: Sequence[ItemDelta]
    verdict: VerdictWord
    reason: str
    notes: Sequence[str] = field(default_factory=tuple)


def compare(
    control: Run, treated: Run, *, metric: str | None = None, tie_width: float = TIE_WIDTH, seed: int = 0
) -> Comparison:
    """Compare `treated` with `control` on the items both judged.

    Args:
        control: Usually the arm `off`.
        treated: The arm in question.
        metric: Default: the first metric of the control's judge.
        tie_width: Largest movement of an item that counts as none, in score units.
        seed: Of the bootstrap.

    Raises:
        DatasetError: The runs cannot be compared at all: other sets, engines, judges or items, an
            incomplete run, or a judge that was shown different text for equal passages. The message
            says which, and names the item.
    """
    metric = metric or control.manifest.metrics[0]
    refuse_if_incomparable(control, treated, metric)
    items = _pair(control, treated, metric)
    if not items:
        raise DatasetError(f"no item has a score for metric {metric!r}")
    effect = measure(items, tie_width=tie_width, seed=seed)
    fired = [item for item in items if not item.same_input]
    kept = [item for item in items if item.same_input]
    detectable = stats.detectable_effect(effect.se)
    runs = min(control.manifest.runs, treated.manifest.runs)
    noise = _noise(control, treated, items, metric, tie_width)
    word, reason = word_verdict(effect, detectable=detectable, noise=noise.largest, runs=runs)
    return Comparison(
        control=control.manifest.arm,
        treated=treated.manifest.arm,
        metric=metric,
        dataset=control.manifest.dataset,
        sealed=control.manifest.sealed,
        runs=runs,
        effect=effect,
        fired=measure(fired, tie_width=tie_width, seed=seed) if fired else None,
        declined=measure(kept, tie_width=tie_width, seed=seed) if kept else None,
        fired_share=len(fired) / len(items),
        by_mode=_split(items, lambda item: item.item.mode, tie_width, seed),
        by_lang=_split(items, lambda item: item.item.lang, tie_width, seed),
        floor_items=[item.item.id for item in items if item.control == 0 == item.treated],
        ceiling_items=[item.item.id for item in items if item.control == 1 == item.treated],
        hit_p=_hit_p(control, treated),
        detectable=detectable,
        items_needed=0 if math.isnan(effect.se) else stats.items_needed(effect.se, effect.n, effect.delta),
        variance=_variance(items),
        noise=noise,
        conversations=len({item.item.cluster for item in items}),
        items=sorted(items, key=lambda item: item.delta),
        verdict=word,
        reason=reason,
        notes=_notes(control, treated, items),
    )


def refuse_if_incomparable(control: Run, treated: Run, metric: str) -> None:
    """See `compare`.

    Raises:
        DatasetError: The runs cannot be compared.
    """
    for run in (control, treated):
        if not run.is_complete:
            raise DatasetError(
                f"run {run.manifest.arm!r} is incomplete and has no score: {len(run.missing)} missing, first {run.missing[0]}"
            )
    ours, theirs = control.manifest, treated.manifest
    if ours.dataset_sha256 != theirs.dataset_sha256:
        raise DatasetError(
            f"the runs used different contents of the set ({ours.dataset!r} {ours.dataset_sha256[:12]}, "
            f"{theirs.dataset!r} {theirs.dataset_sha256[:12]}); run both arms again{_differing(ours.items, theirs.items)}"
        )
    for name in ("judge", "engine", "rag_mode", "knowledge_base"):
        if getattr(ours, name) != getattr(theirs, name):
            raise DatasetError(
                f"the runs differ in {name}: {getattr(ours, name)!r} and {getattr(theirs, name)!r}; "
                "arms are compared with everything else equal"
            )
    if ours.items != theirs.items:
        raise DatasetError(f"the runs hold different items{_differing(ours.items, theirs.items)}")
    for manifest in (ours, theirs):
        if metric not in manifest.metrics:
            raise DatasetError(
                f"unknown metric {metric!r}; run {manifest.arm!r} has {list(manifest.metrics)}"
            )
    if leak := find_leak(control, treated):
        raise DatasetError(
            f"the judge read different text for equal passages on item {leak!r}: something besides the passages "
            "reached its prompt, so the scores do not compare"
        )


def find_leak(control: Run, treated: Run) -> str | None:
    """The first item whose passages were equal but whose judge prompt was not; None when there is none."""
    read: dict[tuple[str, str], str] = {}
    for run in (control, treated):
        for record in run.records:
            if (
                record.judge_sha
                and read.setdefault((record.id, record.passages_sha), record.judge_sha) != record.judge_sha
            ):
                return record.id
    return None


def measure(items: Sequence[ItemDelta], *, tie_width: float = TIE_WIDTH, seed: int = 0) -> Effect:
    """The paired difference on these items, at least one."""
    deltas = [item.delta for item in items]
    clusters = [item.item.cluster for item in items]
    tally = stats.tally(deltas, tie_width)
    return Effect(
        n=len(items),
        control=stats.mean([item.control for item in items]),
        treated=stats.mean([item.treated for item in items]),
        delta=stats.mean(deltas),
        se=stats.standard_error(deltas, clusters),
        interval=stats.bootstrap_ci(deltas, clusters, seed=seed) if len(set(clusters)) > 1 else None,
        p=stats.sign_test(tally.better, tally.worse),
        tally=tally,
    )


def word_verdict(effect: Effect, *, detectable: float, noise: float, runs: int) -> tuple[VerdictWord, str]:
    """The verdict in one of four words, or a refusal, with the reason.

    Confirmed: the interval lies above zero and the effect is at least what the set can detect.
    Harmful: the interval lies below zero. Positive, unresolved: the effect is above one standard
    error and above the noise floor, and no more. Everything else is no evidence.
    """
    if runs < 2:
        return "refused", "one run per arm says nothing about its own noise; use at least --runs 2"
    interval = effect.interval
    if interval is None:
        return "refused", "fewer than two independent items"
    if effect.tally.tie == effect.n and interval.low == interval.high == 0:
        return "no evidence", "no item moved"
    if interval.high < 0:
        return "harmful", f"the 95 % interval lies below zero, {effect.tally.worse} items got worse"
    if interval.low > 0 and effect.delta >= detectable:
        return (
            "confirmed",
            f"the 95 % interval lies above zero and the effect reaches the detectable {detectable:.3f}",
        )
    if effect.delta > max(MIN_SHARE_OF_SPREAD * effect.se, noise):
        why = (
            "the 95 % interval includes zero"
            if interval.low <= 0
            else "the effect is below what the set can detect"
        )
        return "positive, unresolved", f"{why} ({detectable:.3f} at 80 % power); more items would settle it"
    return (
        "no evidence",
        f"the effect is within one standard error or the noise floor; detectable here: {detectable:.3f}",
    )


def drift(pairs: Iterable[tuple[float, float]], tie_width: float = 0.0) -> Drift | None:
    """Movement between two scores that should be equal; None for no pairs."""
    moves = [after - before for before, after in pairs]
    if not moves:
        return None
    moved = sum(abs(move) > tie_width + 1e-9 for move in moves)
    return Drift(len(moves), stats.mean(moves), stats.mean([abs(move) for move in moves]), moved)


def _pair(control: Run, treated: Run, metric: str) -> list[ItemDelta]:
    before, after = control.scores(metric), treated.scores(metric)
    pairs = []
    for item in control.manifest.items:
        if item.id not in before or item.id not in after:
            continue
        ours, theirs = before[item.id], after[item.id]
        inputs = {record.input_sha for run in (control, treated) for record in run.by_item[item.id]}
        pairs.append(
            ItemDelta(
                item=item,
                control=stats.mean(ours),
                treated=stats.mean(theirs),
                runs=[b - a for a, b in zip(ours, theirs, strict=False)],
                control_record=control.by_item[item.id][0],
                treated_record=treated.by_item[item.id][0],
                same_input=len(inputs) == 1,
            )
        )
    return pairs


def _split(
    items: Sequence[ItemDelta], key: Callable[[ItemDelta], str], tie_width: float, seed: int
) -> dict[str, Effect]:
    groups: dict[str, list[ItemDelta]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return {name: measure(group, tie_width=tie_width, seed=seed) for name, group in sorted(groups.items())}


def _noise(
    control: Run, treated: Run, items: Sequence[ItemDelta], metric: str, tie_width: float
) -> NoiseFloor:
    both = (control, treated)
    first_metric = control.manifest.metrics[0]
    rejudged = [
        (record.scores[first_metric], record.rejudged)
        for run in both
        for record in run.records
        if record.rejudged is not None and metric == first_metric
    ]
    repeats = [
        (records[0], later)
        for run in both
        for records in run.by_item.values()
        for later in records[1:]
        if later.input_sha == records[0].input_sha and metric in later.scores and metric in records[0].scores
    ]
    return NoiseFloor(
        declined=drift([(item.control, item.treated) for item in items if item.same_input], tie_width),
        rejudged=drift(rejudged, tie_width),
        repeated=drift([(first.scores[metric], later.scores[metric]) for first, later in repeats], tie_width),
        changed_passages=sum(first.passages_sha != later.passages_sha for first, later in repeats),
    )


def _variance(items: Sequence[ItemDelta]) -> VarianceSplit | None:
    runs = min(len(item.runs) for item in items)
    if runs < 2 or len(items) < 2:
        return None
    return stats.variance_split([item.runs[:runs] for item in items])


def _hit_p(control: Run, treated: Run) -> float | None:
    if HIT_METRIC not in control.manifest.metrics:
        return None
    before, after = control.scores(HIT_METRIC), treated.scores(HIT_METRIC)
    shared = [item_id for item_id in before if item_id in after]
    return stats.mcnemar(
        [stats.mean(before[i]) >= 0.5 for i in shared], [stats.mean(after[i]) >= 0.5 for i in shared]
    )


def _notes(control: Run, treated: Run, items: Sequence[ItemDelta]) -> list[str]:
    notes = []
    if control.manifest.sealed:
        notes.append("sealed holdout: confirm with it, never choose a threshold, rule or prompt by it")
    if all(item.control == 0 == item.treated for item in items):
        notes.append("every item is a floor item: no arm can win here, check labels and knowledge base")
    unjudged = sum(not item.judged for item in control.manifest.items)
    if unjudged:
        notes.append(f"{unjudged} items are run but not judged (no information need, or no label)")
    notes += [
        f"the runs differ in {name}"
        for name in ("models", "prompts", "packages", "commit", "env")
        if getattr(control.manifest, name) != getattr(treated.manifest, name)
    ]
    for run in (control, treated):
        failed = sum(
            record.fallback in ("timeout", "model_error", "resolver_error") for record in run.records
        )
        if failed:
            notes.append(f"{run.manifest.arm}: the resolver failed on {failed} of {len(run.records)} records")
    return notes


def _differing(ours: Sequence[ItemRef], theirs: Sequence[ItemRef]) -> str:
    """`: first differing item 'x'`, or nothing when the visible parts are equal."""
    left, right = {item.id: item for item in ours}, {item.id: item for item in theirs}
    for item_id in [*left, *right]:
        if left.get(item_id) != right.get(item_id):
            return f": item {item_id!r} is not the same in both"
    return ""
