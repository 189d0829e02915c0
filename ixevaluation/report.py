"""What a report says about a folder of runs: every arm against its control, as values, JSON or terminal tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ixevaluation import stats
from ixevaluation.compare import Comparison, Drift, Effect, compare
from ixevaluation.records import Record, Run
from ixevaluation.rewriter.hygiene import DEFECTS
from ixinfra.errors import DatasetError

CONTROL = "off"
VERDICT_STYLE = {"confirmed": "bold green", "harmful": "bold red", "positive, unresolved": "yellow"}


@dataclass(frozen=True, slots=True)
class ArmFacts:
    """One arm on its own: quality, cost and defects, over all repetitions.

    Attributes:
        n: Judged items.
        score: Mean of the metric; NaN for an incomplete run, which has none.
        fallbacks: Why the visitor's words stood, with counts.
        defects: Hygiene counts, over records.
        decisions: On labelled items: `right`, `wrong name`, `missed`, `unneeded`; empty without labels.
        total_ms: p50 and p90 of the retrieval node.
        check_ms: p50 and p90 of the resolver, where one ran.
        cascade: With rules in front of a model: turns they decided `alone`, and what became of those where
            it was asked: `agreed`, `overruled`; empty without.
        calls_per_turn: Chat-model calls a turn.
        tokens_per_turn: Tokens a turn, where servers count.
    """

    arm: str
    n: int
    score: float
    records: int
    fallbacks: Mapping[str, int]
    defects: Mapping[str, int]
    decisions: Mapping[str, int]
    total_ms: tuple[float, float]
    check_ms: tuple[float, float]
    cascade: Mapping[str, int]
    calls_per_turn: float
    tokens_per_turn: float
    missing: Sequence[str]


@dataclass(frozen=True, slots=True)
class Section:
    """The runs of one set in one engine and mode, compared with one control."""

    dataset: str
    dataset_sha256: str
    engine: str
    rag_mode: str
    judge: str
    metric: str
    sealed: bool
    control: str
    arms: Sequence[ArmFacts]
    comparisons: Sequence[Comparison]
    refused: Mapping[str, str]


def build_report(runs: Sequence[Run], *, control: str = CONTROL, metric: str | None = None) -> list[Section]:
    """Group runs that may be compared, and compare each arm with the control.

    Args:
        runs: From `records.find_runs`.
        control: Name of the control arm; a group without it is described, not compared.
        metric: Default: each judge's first.

    Raises:
        DatasetError: No run at all.
    """
    if not runs:
        raise DatasetError("nothing to report: no runs given")
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        m = run.manifest
        groups.setdefault((m.dataset, m.dataset_sha256, m.engine, m.rag_mode, m.judge), []).append(run)
    return [
        _section(sorted(group, key=lambda run: run.manifest.arm != control), control, metric)
        for group in groups.values()
    ]


def describe_arm(run: Run, metric: str) -> ArmFacts:
    """See `ArmFacts`."""
    whole = [record for record in run.records if record.error is None]
    scores = run.scores(metric) if run.is_complete else {}
    checked = [record.check_ms for record in whole if record.check_ms]
    return ArmFacts(
        arm=run.manifest.arm,
        n=len(scores) if run.is_complete else sum(item.judged for item in run.manifest.items),
        score=stats.mean([stats.mean(values) for values in scores.values()]),
        records=len(whole),
        fallbacks=_count(record.fallback for record in whole if record.fallback),
        defects={name: sum(name in record.hygiene for record in whole) for name in DEFECTS},
        decisions=_decisions(run),
        total_ms=_p50_p90([record.total_ms for record in whole]),
        check_ms=_p50_p90(checked),
        cascade=_cascade(whole),
        calls_per_turn=stats.mean([record.model_calls for record in whole]),
        tokens_per_turn=stats.mean([record.tokens for record in whole]),
        missing=run.missing,
    )


def as_json(value: Any) -> Any:
    """A report, comparison or section as JSON types; NaN becomes null."""
    if is_dataclass(value) and not isinstance(value, type):
        return as_json(asdict(value))
    if hasattr(value, "model_dump"):
        return as_json(value.model_dump(mode="json"))
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_report(sections: Sequence[Section], console: Console) -> None:
    """Print every section."""
    for section in sections:
        console.print(render_section(section))


def render_section(section: Section) -> RenderableType:
    """One section for the terminal."""
    parts: list[RenderableType] = [Text(heading(section), style="bold"), _arms_table(section)]
    parts += [
        Text(f"{arm.arm}, rules first, the model where they are unsure: {counted(arm.cascade)}")
        for arm in section.arms
        if arm.cascade
    ]
    parts += [render_comparison(comparison) for comparison in section.comparisons]
    parts += [Text(f"{arm}: no verdict. {why}", style="red") for arm, why in section.refused.items()]
    return Group(*parts)


def heading(section: Section) -> str:
    """The section's first line."""
    return (
        f"{section.dataset} ({section.dataset_sha256[:12]}) · {section.engine} · rag_mode {section.rag_mode} · "
        f"judge {section.judge} · {section.metric}{' · SEALED HOLDOUT' if section.sealed else ''}"
    )


def render_comparison(comparison: Comparison) -> RenderableType:
    """One comparison for the terminal: verdict first, then the splits and the noise."""
    effect = comparison.effect
    line = Text.assemble(
        (f"\n{comparison.treated} vs {comparison.control}: ", "bold"),
        (comparison.verdict, VERDICT_STYLE.get(comparison.verdict, "bold")),
        f". {comparison.reason}.",
    )
    table = Table(box=None, pad_edge=False)
    columns = (
        "",
        "n",
        f"{comparison.control} → {comparison.treated}",
        "Δ",
        "95 % CI",
        "p",
        "better/worse/tie",
    )
    for name in columns:
        table.add_column(name, justify="right" if name else "left", overflow="fold")
    _add_effect(table, "all", effect)
    for name, part in (("fired", comparison.fired), ("declined", comparison.declined)):
        if part:
            _add_effect(table, name, part)
    for split in (comparison.by_mode, comparison.by_lang):
        if len(split) > 1:
            table.add_section()
            for name, part in split.items():
                _add_effect(table, name, part)
    return Group(line, table, Text("\n".join(fact_lines(comparison)), style="dim"))


def fact_lines(comparison: Comparison) -> list[str]:
    """What the table does not say, a line each."""
    c, lines = comparison, []
    needed = f", {c.items_needed} items like these would find {c.effect.delta:+.3f}" if c.items_needed else ""
    lines.append(f"detectable at 80 % power: {c.detectable:.3f}{needed}")
    lines.append(
        f"retrieval input changed on {c.fired_share:.0%} of {c.effect.n} items, {c.conversations} conversations"
    )
    lines.append(
        f"floor (0 in both): {len(c.floor_items)} items; ceiling (1 in both): {len(c.ceiling_items)} items"
    )
    if c.hit_p is not None:
        lines.append(f"hit or miss in the first five, McNemar: p {p_value(c.hit_p)}")
    if c.variance:
        lines.append(
            f"spread of the deltas: {c.variance.item_share:.0%} between items, the rest between runs"
        )
    for name, measured in (
        ("equal input in both arms", c.noise.declined),
        ("same passages judged twice", c.noise.rejudged),
        ("same input retrieved again", c.noise.repeated),
    ):
        lines.append(f"noise, {name}: {_drift(measured)}")
    if c.noise.changed_passages:
        lines.append(f"equal input returned other passages {c.noise.changed_passages} times")
    return [*lines, *(f"note: {note}" for note in c.notes)]


def _section(runs: Sequence[Run], control: str, metric: str | None) -> Section:
    first = runs[0].manifest
    chosen = metric or first.metrics[0]
    if chosen not in first.metrics:
        raise DatasetError(f"unknown metric {chosen!r}; the runs have {list(first.metrics)}")
    base = next((run for run in runs if run.manifest.arm == control), None)
    comparisons, refused = [], {}
    for run in runs:
        if run is base:
            if not run.is_complete:
                refused[control] = incomplete_line(run)
            continue
        if base is None:
            refused[run.manifest.arm] = f"there is no run of the control {control!r} beside it"
            continue
        try:
            comparisons.append(compare(base, run, metric=chosen))
        except DatasetError as error:
            refused[run.manifest.arm] = str(error)
    return Section(
        dataset=first.dataset,
        dataset_sha256=first.dataset_sha256,
        engine=first.engine,
        rag_mode=first.rag_mode,
        judge=first.judge,
        metric=chosen,
        sealed=first.sealed,
        control=control,
        arms=[describe_arm(run, chosen) for run in runs],
        comparisons=comparisons,
        refused=refused,
    )


def incomplete_line(run: Run) -> str:
    """One sentence about a run that lost something."""
    more = f" and {len(run.missing) - 1} more" if len(run.missing) > 1 else ""
    return f"the run is incomplete and has no score: {run.missing[0]}{more}"


def _decisions(run: Run) -> dict[str, int]:
    """How the arm decided where a person has decided too."""
    counts: dict[str, int] = {}
    for item in run.manifest.items:
        if item.expected_decision is None:
            continue
        for record in run.by_item[item.id]:
            how = outcome(
                item.expected_decision == "resolve",
                item.expected_name,
                changed=record.changed,
                searched=record.searched,
            )
            counts[how] = counts.get(how, 0) + 1
    return counts


def outcome(should: bool, name: str | None, *, changed: bool, searched: str) -> str:
    """How a decision compares with a person's: `right`, `wrong name`, `missed` or `unneeded`.

    Args:
        should: Whether the person would have added something.
        name: What they would have added; an addition is right when the searched text now holds it.
        changed: Whether the visitor's words were changed.
        searched: What was searched.
    """
    if not should:
        return "unneeded" if changed else "right"
    if not changed:
        return "missed"
    return "right" if name is None or name.casefold() in searched.casefold() else "wrong name"


def _cascade(records: Sequence[Record]) -> dict[str, int]:
    routed = [record for record in records if record.asked is not None]
    if not routed:
        return {}
    return {
        "alone": sum(not record.asked for record in routed),
        "agreed": sum(record.agrees is True for record in routed),
        "overruled": sum(record.agrees is False for record in routed),
    }


def _arms_table(section: Section) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in (
        "arm",
        "n",
        "score",
        "p50 ms",
        "p90 ms",
        "calls",
        "tokens",
        "defects",
        "fallbacks",
        "decisions",
    ):
        table.add_column(
            name, justify="left" if name in ("arm", "defects", "fallbacks", "decisions") else "right"
        )
    for arm in section.arms:
        table.add_row(
            arm.arm,
            str(arm.n),
            "incomplete" if arm.missing else number(arm.score),
            number(arm.total_ms[0], 1),
            number(arm.total_ms[1], 1),
            number(arm.calls_per_turn, 2),
            number(arm.tokens_per_turn, 0),
            counted(arm.defects),
            counted(arm.fallbacks),
            counted(arm.decisions),
        )
    return table


def _add_effect(table: Table, name: str, effect: Effect) -> None:
    low_high = f"[{effect.interval.low:+.3f}, {effect.interval.high:+.3f}]" if effect.interval else "one item"
    tally = effect.tally
    table.add_row(
        name,
        str(effect.n),
        f"{number(effect.control)} → {number(effect.treated)}",
        f"{effect.delta:+.3f}",
        low_high,
        p_value(effect.p),
        f"{tally.better}/{tally.worse}/{tally.tie}",
    )


def p_value(p: float) -> str:
    """Three decimals, or `<0.001`: never a p of zero."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def number(value: float, digits: int = 3) -> str:
    """A number for a table; a dash where there is none."""
    return f"{value:.{digits}f}" if math.isfinite(value) else "–"


def counted(counts: Mapping[str, int]) -> str:
    """`name 3, other 1`, without zeros; a dash for none."""
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count) or "–"


def _drift(measured: Drift | None) -> str:
    if measured is None:
        return "not measured"
    return (
        f"{measured.mean:+.4f} mean, {measured.mean_abs:.4f} mean |Δ|, moved {measured.moved} of {measured.n}"
    )


def _p50_p90(values: Sequence[float]) -> tuple[float, float]:
    return stats.quantile(values, 0.5), stats.quantile(values, 0.9)


def _count(names: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items()))
