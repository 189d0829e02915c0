"""One span tree a turn, whatever records it.

`Tracer` and `Span` are what the rest of the product sees. `NO_TRACER` costs nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Literal, Protocol

SpanKind = Literal["span", "agent", "tool", "chain", "retriever", "generation", "embedding"]
CancelCause = Literal["superseded", "redirected", "client_gone", "deadline"]


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
        config: Mapping[str, Any] | None = None,
    ) -> AbstractContextManager[None]:
        """Make this tracer the ambient one and put session and tenant on every span inside.

        Args:
            session_id: Conversation; empty is left out.
            tenant_id: Tenant; empty is left out.
            user_id: Visitor; empty is left out.
            config: The LangGraph run's config. Where the host passes a Langfuse callback handler,
                spans nest under the node span of that handler.
        """

    def span(
        self,
        name: str,
        kind: SpanKind = "span",
        *,
        input: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> AbstractContextManager[Span]:
        """Open a span under the current one. An exception marks it failed, a cancellation cancelled
        (cause `client_gone` unless `Span.cancel` said otherwise); both go through."""

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
    def turn(self, **_attributes: Any) -> Iterator[None]:
        token = _AMBIENT.set(self)
        try:
            yield
        finally:
            _AMBIENT.reset(token)

    @contextlib.contextmanager
    def span(self, name: str, kind: SpanKind = "span", **_facts: Any) -> Iterator[Span]:
        yield _NO_SPAN

    def close(self, timeout_s: float = 1.0) -> None:
        return None


_NO_SPAN = _NoSpan()
NO_TRACER: Tracer = _NoTracer()
_AMBIENT: ContextVar[Tracer] = ContextVar("ix_tracer", default=NO_TRACER)


def current_tracer() -> Tracer:
    """The tracer of the turn being served; `NO_TRACER` outside a turn."""
    return _AMBIENT.get()
