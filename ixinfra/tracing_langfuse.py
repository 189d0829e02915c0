"""Spans to Langfuse, on its own SDK. The only tracing module that imports it.

The tree is ours: nothing here depends on the order in which LangChain callbacks run. Where the host has a
Langfuse callback handler or an open span of its own, the turn hangs under it.
"""

from __future__ import annotations

import atexit
import math
from contextvars import ContextVar
from typing import Any

from langfuse import Langfuse, propagate_attributes
from langfuse._client.resource_manager import LangfuseResourceManager
from opentelemetry import context as otel_context
from opentelemetry import trace as otel
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

from ixinfra.tracing_stop import BoundedStop
from ixinfra.tracing_text import Redaction
from ixinfra.tracing_tree import Config, Scope, SinkTracer, SpanRecord, Undo

MAX_ATTRIBUTE_CHARS = 200  # Langfuse drops longer session, user and tenant ids, with a warning
_GENERATIONS = ("generation", "embedding")
_bridged: ContextVar[object] = ContextVar("ix_bridged_run", default=None)


class LangfuseTracer(SinkTracer):
    """Sends spans through a Langfuse client that belongs to the host.

    `close` flushes that client and leaves it open. `ixinfra.tracing.build_tracer` makes a client of its own.
    """

    def __init__(self, client: Langfuse, redaction: Redaction | None = None) -> None:
        super().__init__([LangfuseSink(client, owned=False)], redaction or Redaction())


class LangfuseSink:
    """Writes spans as Langfuse observations.

    Args:
        client: Every span goes through it, so that other clients of the process are left alone.
        owned: Whether `close` shuts the client down or only flushes it.
    """

    def __init__(self, client: Langfuse, *, owned: bool) -> None:
        self._client = client
        if owned and client._resources is not None:
            # The SDK waits at exit for as long as the host takes to answer; `BoundedStop` does not.
            atexit.unregister(client._resources.shutdown)
        self._stop = BoundedStop(client.shutdown if owned else client.flush)

    def outer_trace_id(self, config: Config) -> str:
        """See `Sink.outer_trace_id`."""
        above = _handler_span(config) or otel.get_current_span()
        context = above.get_span_context()
        return otel.format_trace_id(context.trace_id) if context.is_valid else ""

    def enter(self, scope: Scope, config: Config) -> Undo:
        """See `Sink.enter`: session and tenant reach every span inside, the host's own included."""
        around = otel_context.get_current()
        handler_span = _handler_span(config)
        bridge = _bridged.set(_run_id(config))
        if handler_span is not None:
            around = otel.set_span_in_context(handler_span, around)
        token = otel_context.attach(around)
        try:
            with propagate_attributes(
                session_id=scope.session_id[:MAX_ATTRIBUTE_CHARS] or None,
                user_id=scope.user_id[:MAX_ATTRIBUTE_CHARS] or None,
                metadata=_if_any(tenant_id=scope.tenant_id[: MAX_ATTRIBUTE_CHARS - 2]),  # and two quotes
            ):
                inside = otel_context.get_current()
        finally:
            otel_context.detach(token)
        token = otel_context.attach(inside)

        def undo() -> None:
            _bridged.reset(bridge)
            otel_context.detach(token)

        return undo

    def start(self, span: SpanRecord, parent: Any) -> Any:
        """See `Sink.start`."""
        alone = not otel.get_current_span().get_span_context().is_valid
        start: Any = self._client.start_observation  # overloaded by kind; the kind is a value here
        observation = start(
            name=span.name,
            as_type=span.kind,
            trace_context={"trace_id": span.trace_id} if alone else None,
        )
        # Not `start_as_current_observation`: it would write an exception's text and stack trace.
        token = otel_context.attach(otel.set_span_in_context(observation._otel_span))
        return observation, token

    def end(self, span: SpanRecord, handle: Any) -> None:
        """See `Sink.end`."""
        observation, _ = handle
        metadata = dict(span.metadata)
        model_facts: dict[str, Any] = {}
        if span.kind in _GENERATIONS:
            model_facts = {
                "model": span.model,
                "model_parameters": span.model_parameters or None,
                "usage_details": span.usage or None,
            }
        elif span.model is not None:
            metadata["model"] = span.model  # the SDK drops `model` of every other kind
        try:
            observation.update(
                input=span.input,
                output=span.output,
                metadata=metadata or None,
                level=span.level,
                status_message="cancelled" if span.status == "cancelled" else span.error or None,
                **model_facts,
            )
        finally:
            observation.end()

    def leave(self, handle: Any) -> None:
        """See `Sink.leave`."""
        otel_context.detach(handle[1])

    def close(self, timeout_s: float) -> None:
        """See `Sink.close`."""
        self._stop(timeout_s)


def open_langfuse(
    *, public_key: str, secret_key: str, base_url: str | None, timeout_s: float, environment: str
) -> LangfuseSink:
    """A sink on a client of its own, or on the host's client where one exists for this key.

    A client of its own has a tracer provider of its own: the process's global one is left alone.
    """
    existing = public_key in LangfuseResourceManager._instances
    resource = Resource(_if_any(**{"service.name": "ixchat", "langfuse.environment": environment}) or {})
    client = Langfuse(
        public_key=public_key,
        secret_key=secret_key,
        base_url=base_url,
        timeout=math.ceil(timeout_s),
        environment=environment or None,
        tracer_provider=None if existing else TracerProvider(resource=resource, shutdown_on_exit=False),
    )
    return LangfuseSink(client, owned=not existing)


def _handler_span(config: Config) -> otel.Span | None:
    """The span that the host's Langfuse callback handler holds for the node being run.

    LangChain runs the handler in another context, so its span is never current; the handler keeps it in
    private attributes, which one test guards.
    """
    run_id = _run_id(config)
    if run_id is None or run_id == _bridged.get():
        return None
    for handler in getattr(config.get("callbacks"), "handlers", ()):
        observation = getattr(handler, "_runs", {}).get(run_id)
        span = getattr(observation, "_otel_span", None)
        if isinstance(span, otel.Span):
            return span
    return None


def _run_id(config: Config) -> object:
    return getattr(config.get("callbacks"), "parent_run_id", None)


def _if_any(**texts: str) -> dict[str, str] | None:
    return {key: text for key, text in texts.items() if text} or None
