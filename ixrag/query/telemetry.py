"""The span of one query understanding, and the notes its components leave for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from opentelemetry import trace

from ixinfra.tracing import current_tracer

SPAN_NAME = "query.understand"

_CACHE_NOTES: ContextVar[dict[str, str] | None] = ContextVar("ix_cache_notes", default=None)


class UnderstandSpan:
    """The open span; `finish` puts the result on it, for both of its readers."""

    def __init__(self, span: Any, otel_span: trace.Span) -> None:
        self._span = span
        self._otel_span = otel_span

    def finish(self, attributes: Mapping[str, str | int | float | bool], output: Mapping[str, Any]) -> None:
        """Record the counts as OpenTelemetry attributes and the texts as the span's output.

        Texts never become attributes: the tracer's own rules about visitor text apply to them.
        """
        self._otel_span.set_attributes(attributes)
        self._span.update(output=dict(output), metadata=dict(attributes))


@contextlib.contextmanager
def understand_span(
    query_text: str, tracer_provider: trace.TracerProvider | None = None
) -> Iterator[UnderstandSpan]:
    """Open `query.understand` once, wherever it is recorded.

    A Langfuse observation *is* an OpenTelemetry span, but a plain one is filtered out by the Langfuse
    SDK. So the tracer of the turn opens the span; only where that opened none with OpenTelemetry (no
    tracer, or one that records in memory) a plain one is opened for the host's own exporter,
    by `tracer_provider` or the global one.
    """
    before = trace.get_current_span()
    with current_tracer().span(SPAN_NAME, "chain", input={"query": query_text}) as span:
        opened = trace.get_current_span()
        if opened is not before and opened.is_recording():
            yield UnderstandSpan(span, opened)
            return
        # A component's failure is a value; what passes through here is a cancellation or an exit.
        with trace.get_tracer("ixrag.query", tracer_provider=tracer_provider).start_as_current_span(
            SPAN_NAME, record_exception=False, set_status_on_exception=False
        ) as plain:
            yield UnderstandSpan(span, plain)


@contextlib.contextmanager
def cache_notes() -> Iterator[dict[str, str]]:
    """Collect how the look-ups inside the block ended: `{"rewrites": "hit"}`."""
    notes: dict[str, str] = {}
    token = _CACHE_NOTES.set(notes)
    try:
        yield notes
    finally:
        _CACHE_NOTES.reset(token)


def note_cache(kind: str, found: str | None) -> None:
    """Say how a look-up ended; None (no cache configured) says nothing."""
    notes = _CACHE_NOTES.get()
    if notes is not None and found is not None:
        notes[kind] = found
