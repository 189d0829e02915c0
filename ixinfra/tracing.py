"""One span tree a turn, whatever records it.

`Tracer` and `Span` are what the rest of the product sees. `NO_TRACER` costs nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from ixinfra.config.settings import TracingConfig
    from ixinfra.tracing_text import Mask
    from ixinfra.tracing_tree import Sink

SpanKind = Literal["span", "agent", "tool", "chain", "retriever", "generation", "embedding"]
CancelCause = Literal["superseded", "redirected", "client_gone", "deadline"]

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Span(Protocol):
    """One open observation. Nothing here raises; a dead exporter is silent."""

    def update(
        self,
        *,
        output: Any = None,
        metadata: Mapping[str, Any] | None = None,
        model: str | None = None,
        model_parameters: Mapping[str, Any] | None = None,
        usage: Mapping[str, int] | None = None,
    ) -> None:
        """Add facts. Null values must survive, so they belong in `output`, not in `metadata`."""

    def fail(self, error: BaseException | str) -> None:
        """Mark as failed, with the exception's class name only: its text may hold visitor text."""

    def cancel(self, cause: CancelCause) -> None:
        """Mark as cancelled on purpose: neither an error nor a success."""


class Tracer(Protocol):
    """Opens spans. Implementations keep no per-turn state on themselves."""

    def turn(
        self,
        *,
        session_id: str = "",
        tenant_id: str = "",
        user_id: str = "",
        trace_id: str = "",
        config: Mapping[str, Any] | None = None,
    ) -> AbstractContextManager[str]:
        """Make this tracer the ambient one and put session and tenant on every span inside.

        Args:
            session_id: Conversation; empty is left out (or taken from an enclosing `turn`).
            tenant_id: Tenant; likewise.
            user_id: Visitor; likewise.
            trace_id: Trace to continue: what an earlier `turn` of the same run gave. Two nodes of one
                run share a trace this way. A span of the host that is open around them wins.
            config: The LangGraph run's config; the one being served where it is left out. Where the
                host passes a Langfuse callback handler, spans nest under the node span of that handler.

        Returns:
            A context manager that gives the trace id (32 hex digits), or "" when nothing is recorded.
        """

    def span(
        self,
        name: str,
        kind: SpanKind = "span",
        *,
        input: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> AbstractContextManager[Span]:
        """Open a span under the current one. An exception marks it failed, a cancellation cancelled;
        both go through. The cause is what `Span.cancel` said, else the message of the cancellation
        (`task.cancel("superseded")`), else `client_gone`. Never hold one open across a `yield`."""

    def close(self, timeout_s: float = 1.0) -> None:
        """Export what is pending, for at most `timeout_s` seconds."""


class _NoSpan:
    def update(self, **_facts: Any) -> None:
        return None

    def fail(self, error: BaseException | str) -> None:
        return None

    def cancel(self, cause: CancelCause) -> None:
        return None


class _NoTracer:
    @contextlib.contextmanager
    def turn(self, **_attributes: Any) -> Iterator[str]:
        with ambient(self):
            yield ""

    def span(self, name: str, kind: SpanKind = "span", **_facts: Any) -> AbstractContextManager[Span]:
        return contextlib.nullcontext(_NO_SPAN)

    def close(self, timeout_s: float = 1.0) -> None:
        return None


_NO_SPAN = _NoSpan()
NO_TRACER: Tracer = _NoTracer()
_AMBIENT: ContextVar[Tracer] = ContextVar("ix_tracer", default=NO_TRACER)


def current_tracer() -> Tracer:
    """The tracer of the turn being served; `NO_TRACER` outside a turn."""
    return _AMBIENT.get()


def build_tracer(
    config: TracingConfig,
    *,
    environment: str = "",
    mask: Mask | None = None,
    also: Sequence[Sink] = (),
    environ: Mapping[str, str] = os.environ,
) -> Tracer:
    """The tracer that a configuration asks for.

    Nothing is imported, opened or logged above DEBUG for an exporter that is off, and Langfuse without its
    keys is off.

    Args:
        config: Section `tracing`.
        environment: Name under which Langfuse files the spans, such as "production".
        mask: Rewrites every text before it leaves the process.
        also: Sinks of the caller's own, told of every span before the configured exporters.
        environ: Where LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY and LANGFUSE_BASE_URL (or _HOST) are read.
    """
    sinks = [*also, *_sinks(config, environment, environ)]
    if not sinks:
        return NO_TRACER
    from ixinfra.tracing_text import Redaction
    from ixinfra.tracing_tree import SinkTracer

    return SinkTracer(sinks, Redaction(visitor_text=config.visitor_text, mask=mask))


def _sinks(config: TracingConfig, environment: str, environ: Mapping[str, str]) -> Iterator[Sink]:
    # Langfuse comes last: its spans become OpenTelemetry's current ones, and no other sink may see them so.
    wants_langfuse = "langfuse" in config.exporter
    if "console" in config.exporter:
        from ixinfra.tracing_console import ConsoleSink

        yield ConsoleSink(sys.stderr)
    if "otlp" in config.exporter and config.otlp_endpoint is not None:
        from ixinfra.tracing_otlp import OtlpSink

        yield OtlpSink(config.otlp_endpoint, timeout_s=config.timeout_s, make_current=not wants_langfuse)
    if wants_langfuse:
        public_key, secret_key = environ.get("LANGFUSE_PUBLIC_KEY"), environ.get("LANGFUSE_SECRET_KEY")
        if not (public_key and secret_key):
            half = "only one" if public_key or secret_key else "neither"
            _log.log(
                logging.WARNING if half == "only one" else logging.DEBUG,
                "%s of LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY is set: no spans go to Langfuse",
                half,
            )
            return
        from ixinfra.tracing_langfuse import open_langfuse

        yield open_langfuse(
            public_key=public_key,
            secret_key=secret_key,
            base_url=environ.get("LANGFUSE_BASE_URL") or environ.get("LANGFUSE_HOST"),
            timeout_s=config.timeout_s,
            environment=environment,
        )


@contextlib.contextmanager
def ambient(tracer: Tracer) -> Iterator[None]:
    """Make `tracer` the current one inside the block."""
    token = _AMBIENT.set(tracer)
    try:
        yield
    finally:
        reset(_AMBIENT, token)


def reset(var: ContextVar[_T], token: Token[_T]) -> bool:
    """Restore `var`. False where the block is left in another context than it was entered in (a generator
    closed from elsewhere): nothing is to be restored there, and nothing is raised."""
    try:
        var.reset(token)
    except ValueError:
        return False
    return True
