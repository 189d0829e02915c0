"""Spans to any OpenTelemetry backend, over OTLP/HTTP.

Attributes carry OpenInference names, which viewers of language-model traces understand.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace as otel
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Status, StatusCode

from ixinfra.tracing import SpanKind
from ixinfra.tracing_stop import BoundedStop
from ixinfra.tracing_text import as_json
from ixinfra.tracing_tree import Config, Scope, SpanRecord

OPENINFERENCE_KINDS: Mapping[SpanKind, str] = {
    "span": "CHAIN",
    "chain": "CHAIN",
    "agent": "AGENT",
    "tool": "TOOL",
    "retriever": "RETRIEVER",
    "generation": "LLM",
    "embedding": "EMBEDDING",
}
_TOKEN_COUNTS = {
    "input": "prompt",
    "input_tokens": "prompt",
    "output": "completion",
    "output_tokens": "completion",
    "total": "total",
    "total_tokens": "total",
}
_root_trace_id: ContextVar[str] = ContextVar("ix_root_trace_id", default="")


class OtlpSink:
    """Writes spans as OpenTelemetry spans, on a tracer provider of its own.

    Args:
        endpoint: Full address, such as `http://localhost:4318/v1/traces`. Headers come from the standard
            variable `OTEL_EXPORTER_OTLP_HEADERS`.
        timeout_s: Seconds one export may take.
        make_current: Whether OpenTelemetry instrumentation of the host nests under these spans. Off where
            another sink makes its spans current.
    """

    def __init__(self, endpoint: str, *, timeout_s: float, make_current: bool = True) -> None:
        exporter = OTLPSpanExporter(endpoint, timeout=timeout_s, compression=Compression.Gzip)
        self._provider = TracerProvider(
            resource=Resource({"service.name": "ixchat", "openinference.project.name": "ixchat"}),
            id_generator=_TraceIds(),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("ixchat")
        self._make_current = make_current
        self._stop = BoundedStop(self._provider.shutdown)

    def outer_trace_id(self, config: Config) -> str:
        """See `Sink.outer_trace_id`."""
        context = otel.get_current_span().get_span_context()
        return otel.format_trace_id(context.trace_id) if context.is_valid else ""

    def enter(self, scope: Scope, config: Config) -> None:
        """See `Sink.enter`."""

    def start(self, span: SpanRecord, parent: Any) -> Any:
        """See `Sink.start`."""
        root = _root_trace_id.set(span.trace_id)
        try:
            above = None if parent is None else otel.set_span_in_context(parent[0])
            started = self._tracer.start_span(span.name, context=above)
        finally:
            _root_trace_id.reset(root)
        token = otel_context.attach(otel.set_span_in_context(started)) if self._make_current else None
        return started, token

    def end(self, span: SpanRecord, handle: Any) -> None:
        """See `Sink.end`."""
        started: otel.Span = handle[0]
        try:
            started.set_attributes(openinference(span))
            if span.status == "error":
                started.set_status(Status(StatusCode.ERROR, span.error))
        finally:
            started.end()

    def leave(self, handle: Any) -> None:
        """See `Sink.leave`."""
        if handle[1] is not None:
            otel_context.detach(handle[1])

    def close(self, timeout_s: float) -> None:
        """See `Sink.close`."""
        self._stop(timeout_s)


class _TraceIds(RandomIdGenerator):
    """Gives a root span the trace id of its turn, so that every exporter shows the same one."""

    def generate_trace_id(self) -> int:
        wanted = _root_trace_id.get()
        return int(wanted, 16) if wanted else super().generate_trace_id()


def openinference(span: SpanRecord) -> dict[str, str | int]:
    """The span's facts under OpenInference names.

    Source: the semantic conventions of OpenInference (spans of kind LLM, RETRIEVER, TOOL, AGENT, CHAIN).
    """
    facts: dict[str, str | int] = {"openinference.span.kind": OPENINFERENCE_KINDS[span.kind]}
    facts |= {key: text for key, text in (("session.id", span.session_id), ("user.id", span.user_id)) if text}
    for side, value in (("input", span.input), ("output", span.output)):
        if value is not None:
            facts[f"{side}.value"] = value if isinstance(value, str) else as_json(value)
            facts[f"{side}.mime_type"] = "text/plain" if isinstance(value, str) else "application/json"
    metadata = {**span.metadata, **({"tenant_id": span.tenant_id} if span.tenant_id else {})}
    if span.status == "cancelled":
        facts["ix.status"] = "cancelled"
        facts["ix.cancel_cause"] = span.cancel_cause or ""
    if span.model is not None:
        facts["embedding.model_name" if span.kind == "embedding" else "llm.model_name"] = span.model
    if span.kind == "generation":
        provider = span.metadata.get("provider")
        if isinstance(provider, str):
            facts["llm.provider"] = provider
        if span.model_parameters:
            facts["llm.invocation_parameters"] = as_json(span.model_parameters)
        for name, count in span.usage.items():
            if name in _TOKEN_COUNTS:
                facts[f"llm.token_count.{_TOKEN_COUNTS[name]}"] = count
    if metadata:
        facts["metadata"] = as_json(metadata)
    return facts
