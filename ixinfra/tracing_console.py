"""Spans as readable lines, for a terminal."""

from __future__ import annotations

from typing import Any, TextIO

from ixinfra.tracing_text import as_json
from ixinfra.tracing_tree import Config, Scope, SpanRecord


class ConsoleSink:
    """Prints the tree of each finished root span, one line a span, to a text stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def outer_trace_id(self, config: Config) -> str:
        """See `Sink.outer_trace_id`: nothing of the host's is known here."""
        return ""

    def enter(self, scope: Scope, config: Config) -> None:
        """See `Sink.enter`."""

    def start(self, span: SpanRecord, parent: Any) -> Any:
        """See `Sink.start`."""
        node = _Line(parent is None)
        if parent is not None:
            parent.inside.append(node)
        return node

    def end(self, span: SpanRecord, handle: Any) -> None:
        """See `Sink.end`."""
        handle.text = line(span)
        if handle.is_root:
            print("\n".join(handle.lines()), file=self._stream, flush=True)

    def leave(self, handle: Any) -> None:
        """See `Sink.leave`."""

    def close(self, timeout_s: float) -> None:
        """See `Sink.close`."""


class _Line:
    def __init__(self, is_root: bool) -> None:
        self.is_root = is_root
        self.text = "(open)"
        self.inside: list[_Line] = []

    def lines(self, depth: int = 0) -> list[str]:
        return ["  " * depth + self.text, *(text for node in self.inside for text in node.lines(depth + 1))]


def line(span: SpanRecord) -> str:
    """One readable line: name, kind, duration, fate and facts."""
    took = (span.end_ms or span.start_ms) - span.start_ms
    fate = {"ok": "", "error": f" ERROR {span.error}", "cancelled": f" cancelled: {span.cancel_cause}"}[
        span.status
    ]
    facts = {
        **({"session_id": span.session_id} if span.session_id else {}),
        **({"tenant_id": span.tenant_id} if span.tenant_id else {}),
        **({"model": span.model} if span.model else {}),
        **span.usage,
        **span.metadata,
    }
    told = "".join(
        f" {key}={as_json(value)}" for key, value in facts.items() if key not in ("cancelled", "cancel_cause")
    )
    sides = "".join(
        f" {side}={_short(as_json(value))}"
        for side, value in (("in", span.input), ("out", span.output))
        if value is not None
    )
    return f"{span.name} [{span.kind}] {took:.1f} ms{fate}{told}{sides}"


def _short(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"
