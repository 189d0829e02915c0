"""The span trees of the turns being served, for the page that shows them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from ixinfra.tracing_tree import Config, Scope, SpanRecord

MAX_TRACES = 256  # kept for turns that are still running


@dataclass(eq=False, slots=True)
class RecentSpans:
    """A sink that keeps the root spans of each trace until they are taken."""

    _roots: OrderedDict[str, list[SpanRecord]] = field(default_factory=OrderedDict)

    def take(self, trace_id: str) -> list[SpanRecord]:
        """The root spans of a trace, which is then forgotten."""
        return self._roots.pop(trace_id, [])

    def outer_trace_id(self, config: Config) -> str:
        """See `Sink.outer_trace_id`: nothing of the host's is known here."""
        return ""

    def enter(self, scope: Scope, config: Config) -> None:
        """See `Sink.enter`."""

    def start(self, span: SpanRecord, parent: Any) -> Any:
        """See `Sink.start`."""
        if parent is None:
            self._roots.setdefault(span.trace_id, []).append(span)
            while len(self._roots) > MAX_TRACES:
                self._roots.popitem(last=False)
        return span

    def end(self, span: SpanRecord, handle: Any) -> None:
        """See `Sink.end`: the tree holds the spans themselves."""

    def leave(self, handle: Any) -> None:
        """See `Sink.leave`."""

    def close(self, timeout_s: float) -> None:
        """See `Sink.close`."""
