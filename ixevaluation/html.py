"""A report as one HTML file: no script, no font, no request to anywhere."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Sequence
from html import escape

from ixevaluation.compare import Comparison, Effect, ItemDelta
from ixevaluation.records import Record
from ixevaluation.report import ArmFacts, Section, counted, fact_lines, heading, number
from ixevaluation.stats import detectable_effect

ROW_PX = 26
LABEL_PX = 230
PLOT_PX = 520
NUMBERS_PX = 220

STYLE = """
:root{color-scheme:light dark;--ink:#1c2024;--soft:#5b6570;--line:#d5dae0;--card:#fff;--page:#f5f6f8;
--good:#137a3f;--bad:#b3261e;--mid:#8a6100;--band:#e6eaf0}
@media(prefers-color-scheme:dark){:root{--ink:#e7eaee;--soft:#9aa4af;--line:#363d45;--card:#1d2126;--page:#14171a;
--good:#58c98a;--bad:#ff8a80;--mid:#e0b04a;--band:#2a3037}}
*{box-sizing:border-box}body{margin:0;padding:24px;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}main{max-width:1080px;margin:auto}h1{font-size:24px}h2{font-size:19px;margin-top:40px}
h3{font-size:16px;margin:28px 0 6px}.card{background:var(--card);border:1px solid var(--line);border-radius:8px;
padding:12px 16px;margin:12px 0;overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:13.5px}
th,td{padding:4px 10px 4px 0;text-align:right;vertical-align:top;white-space:nowrap}th{color:var(--soft);font-weight:500;
border-bottom:1px solid var(--line)}td.text,th.text{text-align:left;white-space:normal;overflow-wrap:anywhere}
.confirmed{color:var(--good)}.harmful{color:var(--bad)}.unresolved{color:var(--mid)}.up{color:var(--good)}
.down{color:var(--bad)}ins{color:var(--good);text-decoration:none;border-bottom:2px solid}del{color:var(--bad)}
.soft{color:var(--soft);font-size:13px}ul.soft{margin:6px 0;padding-left:18px}svg text{fill:var(--ink);font-size:13px}
summary{cursor:pointer}@media(max-width:640px){body{padding:12px}}
"""


def render_html(sections: Sequence[Section], *, title: str = "Query resolution, evaluated") -> str:
    """The whole page."""
    body = "\n".join(_section(section) for section in sections)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head>\n<body><main><h1>{escape(title)}</h1>\n{body}\n</main></body></html>\n"
    )


def forest_plot(rows: Sequence[tuple[str, Effect]]) -> str:
    """Paired deltas with their intervals as inline SVG; the band of a row is what it can detect.

    Args:
        rows: Label and effect, top to bottom; effects without an interval get a point alone.
    """
    reach = max([0.02, *(_reach(effect) for _, effect in rows)]) * 1.1
    width, height = LABEL_PX + PLOT_PX + NUMBERS_PX, ROW_PX * (len(rows) + 1) + 8
    bottom = ROW_PX * len(rows) + 4
    centre = LABEL_PX + PLOT_PX / 2

    def x(value: float) -> float:
        inside = max(-reach, min(reach, value))
        return round(centre + inside / reach * PLOT_PX / 2, 1)

    axis = [
        f'<text x="{x(value)}" y="{bottom + 16}" text-anchor="middle">{value:+.2f}</text>'
        for value in (-reach / 1.1, 0.0, reach / 1.1)
    ]
    lines = [_plot_row(label, effect, ROW_PX * (row + 0.5), x) for row, (label, effect) in enumerate(rows)]
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="Paired difference and 95 % interval of {len(rows)} comparisons">'
        f"{''.join(lines)}"
        f'<line x1="{centre}" x2="{centre}" y1="0" y2="{bottom}" stroke="var(--soft)"/>{"".join(axis)}</svg>'
    )


def word_diff(before: str, after: str) -> str:
    """`after` with the words it adds and lacks marked up."""
    old, new = re.findall(r"\S+", before), re.findall(r"\S+", after)
    out: list[str] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            out.append(escape(" ".join(new[c:d])))
            continue
        if a < b:
            out.append(f"<del>{escape(' '.join(old[a:b]))}</del>")
        if c < d:
            out.append(f"<ins>{escape(' '.join(new[c:d]))}</ins>")
    return " ".join(out)


def _section(section: Section) -> str:
    parts = [f"<section><h2>{escape(heading(section))}</h2>", _verdicts(section)]
    if section.comparisons:
        rows = [(f"{c.treated} (n {c.effect.n})", c.effect) for c in section.comparisons]
        parts.append(
            f'<div class="card"><p class="soft">Difference to {escape(section.control)}, paired by item. '
            f"Grey: too small for this many items to detect at 80 % power.</p>{forest_plot(rows)}</div>"
        )
    parts.append(_arms_table(section.arms))
    parts += [_comparison(comparison) for comparison in section.comparisons]
    return "\n".join([*parts, "</section>"])


def _verdicts(section: Section) -> str:
    lines = [
        f"<li><b>{escape(c.treated)}</b> vs {escape(c.control)}: "
        f'<b class="{_css(c.verdict)}">{escape(c.verdict)}</b>. {escape(c.reason)}.</li>'
        for c in section.comparisons
    ]
    lines += [
        f'<li><b>{escape(arm)}</b>: <b class="harmful">no verdict</b>. {escape(why)}</li>'
        for arm, why in section.refused.items()
    ]
    return f'<div class="card"><ul>{"".join(lines)}</ul></div>'


def _arms_table(arms: Sequence[ArmFacts]) -> str:
    head = (
        "arm",
        "n",
        "score",
        "p50 ms",
        "p90 ms",
        "check p50",
        "calls/turn",
        "tokens/turn",
        "rules first",
        "defects",
        "fallbacks",
        "decisions",
    )
    rows = [
        [
            arm.arm,
            str(arm.n),
            "incomplete" if arm.missing else number(arm.score),
            number(arm.total_ms[0], 1),
            number(arm.total_ms[1], 1),
            number(arm.check_ms[0], 1),
            number(arm.calls_per_turn, 2),
            number(arm.tokens_per_turn, 0),
            counted(arm.cascade),
            counted(arm.defects),
            counted(arm.fallbacks),
            counted(arm.decisions),
        ]
        for arm in arms
    ]
    return f'<div class="card">{_table(head, rows, text_columns={0, 8, 9, 10, 11})}</div>'


def _comparison(c: Comparison) -> str:
    rows = [("all", c.effect)]
    rows += [(name, part) for name, part in (("fired", c.fired), ("declined", c.declined)) if part]
    rows += list(c.by_mode.items()) if len(c.by_mode) > 1 else []
    rows += list(c.by_lang.items()) if len(c.by_lang) > 1 else []
    facts = "".join(f"<li>{escape(line)}</li>" for line in fact_lines(c))
    return (
        f"<h3>{escape(c.treated)} vs {escape(c.control)}</h3>"
        f'<div class="card">{forest_plot([(f"{name} (n {e.n})", e) for name, e in rows])}'
        f'<ul class="soft">{facts}</ul></div>{_items(c)}'
    )


def _items(c: Comparison) -> str:
    moved = [item for item in c.items if item.delta or not item.same_input]
    rows = "".join(_item_row(item) for item in moved)
    return (
        f'<details class="card"><summary>{len(moved)} items that moved or were searched differently, worst first</summary>'
        f'<table><tr><th class="text">item</th><th class="text">message → searched</th><th>{escape(c.control)}</th>'
        f'<th>{escape(c.treated)}</th><th>Δ</th><th class="text">why</th></tr>{rows}</table></details>'
    )


def _item_row(item: ItemDelta) -> str:
    record = item.treated_record
    css = "up" if item.delta > 0 else "down" if item.delta < 0 else ""
    return (
        f'<tr><td class="text">{escape(item.item.id)}<br><span class="soft">{item.item.mode} · {item.item.lang}</span></td>'
        f'<td class="text">{word_diff(record.message, record.searched)}</td>'
        f"<td>{number(item.control, 2)}</td><td>{number(item.treated, 2)}</td>"
        f'<td class="{css}">{item.delta:+.2f}</td><td class="text">{escape(_why(record))}</td></tr>'
    )


def _why(record: Record) -> str:
    facts = [record.path, record.decision, record.fallback, *record.hygiene, record.comment]
    return " · ".join(dict.fromkeys(fact for fact in facts if fact))


def _plot_row(label: str, effect: Effect, y: float, x: Callable[[float], float]) -> str:
    css = "var(--ink)"
    text = f"{effect.delta:+.3f}"
    band = whisker = ""
    if math.isfinite(effect.se):
        left, right = x(-detectable_effect(effect.se)), x(detectable_effect(effect.se))
        band = f'<rect x="{left}" y="{y - 9}" width="{right - left:.1f}" height="18" fill="var(--band)"/>'
    if effect.interval:
        low, high = effect.interval.low, effect.interval.high
        css = "var(--good)" if low > 0 else "var(--bad)" if high < 0 else "var(--ink)"
        whisker = f'<line x1="{x(low)}" x2="{x(high)}" y1="{y}" y2="{y}" stroke="{css}" stroke-width="2"/>'
        text += f" [{low:+.3f}, {high:+.3f}]"
    return (
        f'{band}<text x="0" y="{y + 4}">{escape(label[:34])}</text>{whisker}'
        f'<circle cx="{x(effect.delta)}" cy="{y}" r="5" fill="{css}"/>'
        f'<text x="{LABEL_PX + PLOT_PX + 12}" y="{y + 4}">{text}</text>'
    )


def _reach(effect: Effect) -> float:
    edges = [effect.interval.low, effect.interval.high] if effect.interval else []
    return max(abs(value) for value in [effect.delta, *edges])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: set[int]) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=text' if position in text_columns else ''}>{escape(cell)}</{tag}>"
            for position, cell in enumerate(row)
        )

    lines = [cells("th", head), *(cells("td", row) for row in rows)]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _css(verdict: str) -> str:
    return "unresolved" if verdict.startswith("positive") else verdict.split()[0]
