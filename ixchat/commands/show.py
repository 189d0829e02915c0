"""How a turn looks in a terminal: its decision, its searches, its time line and its span tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from ixchat.nodes.answer import passages_of
from ixinfra.tracing_tree import SpanRecord

PATH_LABEL = {
    "raw": "the visitor's own words",
    "intent": "short reply → text query",
    "keywords": "short reply → graph keywords",
    "reference": "longer follow-up → reference check",
}
DECISION_STYLE = {"resolve": "green", "keep": "cyan", "ambiguous": "yellow", "error": "red", "raw": "white"}
BAR_WIDTH = 44  # characters of the time line
MAX_PASSAGES = 3


def turn_panel(
    title: str,
    record: Mapping[str, Any],
    documents: Sequence[Document],
    spans: Sequence[SpanRecord] = (),
    note: str = "",
) -> RenderableType:
    """Everything about one turn in one box."""
    parts: list[RenderableType] = [_decision(record), _channels(record)]
    if record["evidence"]:
        parts.append(_evidence(record["evidence"], record))
    parts.append(_passages(documents))
    parts.append(_time_line(record))
    parts.extend(_span_tree(span) for span in spans)
    if note:
        parts.append(Text(note, style="italic dim"))
    return Panel(Group(*parts), title=Text(title), title_align="left", border_style="dim")


def decision_line(record: Mapping[str, Any]) -> Text:
    """Path, decision and reason in one line."""
    return _decision(record)


def _decision(record: Mapping[str, Any]) -> Text:
    line = Text(f"{PATH_LABEL[record['path']]}: ", style="bold")
    line.append(str(record["decision"]), style=DECISION_STYLE[record["decision"]])
    if record["entity"]:
        line.append(f" “{record['entity']}”")
    for reason in (record["fallback"], record["reason"]):
        if reason:
            line.append(f" ({reason})", style="dim")
    if record["model"]:
        line.append(f" by {record['model']}", style="dim")
    return line


def _channels(record: Mapping[str, Any]) -> Table:
    channels = record["channels"]
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    table.add_row("searched", Text(str(record["query"])))
    if "probes" in channels["facts"]:
        return _with_probes(table, channels["facts"])
    table.add_row("vector channel", Text(str(channels["vector_text"])))
    if channels["rag_mode"] == "naive":
        table.add_row("graph channel", Text("none on this tier", style="dim"))
    else:
        source = f" ({channels['keyword_source']})" if channels["keyword_source"] else ""
        table.add_row(f"entities{source}", Text(", ".join(channels["ll_keywords"]) or "–"))
        table.add_row("themes", Text(", ".join(channels["hl_keywords"]) or "–"))
    return table


def _with_probes(table: Table, facts: Mapping[str, Any]) -> Table:
    """The index calls of the hybrid engine, and what was left out."""
    for probe in facts["probes"]:
        took = f"{probe['hits']} hits" if probe["state"] == "found" else probe["state"]
        table.add_row(f"{probe['channel']} index", f"{probe['source']}: {took} in {probe['ms']:.1f} ms")
    for skipped in facts["left_out"]:
        table.add_row("left out", Text(skipped, style="dim"))
    if why := facts.get("forms"):
        table.add_row("other forms", Text(f"none: {why}", style="yellow"))
    return table


def _evidence(evidence: Sequence[Mapping[str, Any]], record: Mapping[str, Any]) -> Text:
    places = (
        f"{spot.get('term') or record['entity']!s} (message {spot['message']}, {spot['start']}–{spot['end']})"
        for spot in evidence
    )
    return Text(f"evidence: {', '.join(places)}", style="dim")


def _passages(documents: Sequence[Document]) -> RenderableType:
    passages = passages_of(documents)
    if not passages:
        return Text("nothing found", style="yellow")
    table = Table.grid(padding=(0, 1))
    for number, passage in enumerate(passages[:MAX_PASSAGES], start=1):
        excerpt = " ".join(passage.page_content.split())
        table.add_row(
            Text(f"{number}.", style="dim"), Text(str(passage.metadata.get("source", "?")), style="blue")
        )
        table.add_row("", Text(excerpt, overflow="ellipsis", no_wrap=True))
    if len(documents) > MAX_PASSAGES:
        graph = len(documents) - len(passages)
        table.add_row("", Text(f"{len(passages)} passages, {graph} graph entries in all", style="dim"))
    return table


def _time_line(record: Mapping[str, Any]) -> Table:
    total_ms = max(float(record["total_ms"]), 0.01)
    table = Table.grid(padding=(0, 1))
    entries = [(s["name"], s["started_ms"], s["ended_ms"], _fate(s)) for s in record["searches"]]
    if record["check_ms"] is not None:
        started = record["check_started_ms"]
        entries.append(("check", started, started + record["check_ms"], ""))
    for name, started, ended, fate in sorted(entries, key=lambda entry: entry[1]):
        ends = total_ms if ended is None else min(ended, total_ms)
        left = int(BAR_WIDTH * min(started, total_ms) / total_ms)
        width = max(1, round(BAR_WIDTH * (ends - started) / total_ms))
        bar = Text(" " * left + "━" * min(width, BAR_WIDTH - left + 1))
        bar.stylize("red" if "cancelled" in fate or "failed" in fate else "green")
        table.add_row(Text(name, style="dim"), bar, Text(f"{ends - started:.1f} ms {fate}", style="dim"))
    if record["saved_ms"]:
        table.add_row("", Text(f"the early search hid {record['saved_ms']:.1f} ms of checking", style="dim"))
    return table


def _fate(search: Mapping[str, Any]) -> str:
    reason = search["cause"] or search["error"]
    return f"{search['fate']} ({reason})" if reason else str(search["fate"])


def _span_tree(root: SpanRecord) -> Tree:
    tree = Tree(_span_label(root), guide_style="dim")

    def grow(branch: Tree, span: SpanRecord) -> None:
        for child in span.children:
            grow(branch.add(_span_label(child)), child)

    grow(tree, root)
    return tree


def _span_label(span: SpanRecord) -> Text:
    label = Text(span.name)
    label.append(f" [{span.kind}]", style="dim")
    if span.end_ms is not None:
        label.append(f" {span.end_ms - span.start_ms:.1f} ms", style="dim")
    if span.status != "ok":
        label.append(
            f" {span.status} {span.cancel_cause or span.error}", style="red" if span.error else "yellow"
        )
    return label


def spans_as_json(spans: Sequence[SpanRecord]) -> list[dict[str, Any]]:
    """Span trees as JSON: name, kind, times, status and children."""
    return [
        {
            "name": span.name,
            "kind": span.kind,
            "started_ms": round(span.start_ms, 2),
            "ended_ms": None if span.end_ms is None else round(span.end_ms, 2),
            "status": span.status,
            "cause": span.cancel_cause,
            "error": span.error or None,
            "children": spans_as_json(span.children),
        }
        for span in spans
    ]


def documents_as_json(documents: Sequence[Document]) -> list[dict[str, Any]]:
    """Documents as JSON: text and metadata, best first."""
    return [{"text": document.page_content, **document.metadata} for document in documents]
