"""The span tree of a turn and the rules of tracing: what a cancellation or an exception looks like, that
tracing never raises, never repeats the work and never makes it wait.

`SinkTracer` keeps the tree and hands each span to its sinks; `RecordingTracer` keeps it in memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Literal, Protocol, TypeVar, get_args

from langchain_core.runnables import ensure_config

from ixinfra.tracing import CancelCause, Span, SpanKind, Tracer, ambient, reset
from ixinfra.tracing_stop import stop_all

SpanStatus = Literal["ok", "error", "cancelled"]
Config = Mapping[str, Any]
"""A LangGraph run's config (`RunnableConfig`)."""
Undo = Callable[[], None]

_T = TypeVar("_T")
_CAUSES: tuple[CancelCause, ...] = get_args(CancelCause)
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class SpanRecord:
    """One span as it happened.

    Attributes:
        trace_id: 32 hex digits, the same for every span of one turn.
        start_ms: Milliseconds since the outermost `turn` block around it began.
        end_ms: Likewise; None while the span is open.
        error: Class name of the exception or a reason; "" unless `status` is "error".
        cancel_cause: Why it was cancelled; None unless `status` is "cancelled".
        usage: Token counts (`input`, `output`, `total`, …).
    """

    name: str
    kind: SpanKind
    trace_id: str
    session_id: str
    tenant_id: str
    user_id: str
    start_ms: float
    end_ms: float | None = None
    input: Any = None
    output: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    model: str | None = None
    model_parameters: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, int] = field(default_factory=dict)
    status: SpanStatus = "ok"
    error: str = ""
    cancel_cause: CancelCause | None = None
    children: list[SpanRecord] = field(default_factory=list)

    @property
    def level(self) -> Literal["DEFAULT", "ERROR"]:
        """The level a viewer shows; a cancelled span is no error."""
        return "ERROR" if self.status == "error" else "DEFAULT"

    def update(
        self,
        *,
        output: Any = None,
        metadata: Mapping[str, Any] | None = None,
        model: str | None = None,
        model_parameters: Mapping[str, Any] | None = None,
        usage: Mapping[str, int] | None = None,
    ) -> None:
        """Add facts; metadata, parameters and usage merge key by key."""
        if output is not None:
            self.output = output
        if model is not None:
            self.model = model
        self.metadata.update(metadata or {})
        self.model_parameters.update(model_parameters or {})
        self.usage.update(usage or {})

    def fail(self, error: BaseException | str) -> None:
        """Mark as failed."""
        reason = error if isinstance(error, str) else type(error).__name__
        # A reason is a word of ours; a sentence could be an exception's text.
        self.status, self.error = "error", reason if reason.isidentifier() else "error"

    def cancel(self, cause: CancelCause) -> None:
        """Mark as cancelled."""
        self.status, self.cancel_cause = "cancelled", cause
        self.metadata.update(cancelled=True, cancel_cause=cause)


@dataclass(frozen=True, slots=True)
class Scope:
    """What every span of one turn shares."""

    trace_id: str = ""
    session_id: str = ""
    tenant_id: str = ""
    user_id: str = ""
    started_s: float = field(default_factory=time.perf_counter)


class Sink(Protocol):
    """Where spans go. A sink may raise: the tracer goes on without it."""

    def outer_trace_id(self, config: Config) -> str:
        """Trace of the host's span that this turn will hang under, or ""."""

    def enter(self, scope: Scope, config: Config) -> Undo | None:
        """Begin a turn in this context; what comes back ends it."""

    def start(self, span: SpanRecord, parent: Any) -> Any:
        """Begin a span; `parent` is what `start` gave for the enclosing span, None for a root.

        Returns:
            Anything but None: it comes back in `end`, in `leave`, and as `parent` of the spans inside.
        """

    def end(self, span: SpanRecord, handle: Any) -> None:
        """Write the facts of a finished span and end it. May run in another context than `start`."""

    def leave(self, handle: Any) -> None:
        """Make the enclosing span current again, in the context that ran `start`."""

    def close(self, timeout_s: float) -> None:
        """Export what is pending, for at most `timeout_s` seconds. Called once with 0, then to wait."""


class Redactor(Protocol):
    """Decides what of a span the sinks get to see."""

    def span(self, span: SpanRecord) -> SpanRecord:
        """The copy that is exported. Must not raise."""

    def text(self, text: str) -> str:
        """An identifier as it is exported. Must not raise."""


class SinkTracer:
    """Keeps the tree of the turn being served and hands every span to its sinks.

    Args:
        sinks: Told of every span, in this order; of its end in reverse.
        redactor: Makes the copies that sinks get; None hands them the span itself.
    """

    def __init__(self, sinks: Sequence[Sink], redactor: Redactor | None = None) -> None:
        self._sinks, self._redactor = tuple(sinks), redactor

    def turn(
        self,
        *,
        session_id: str = "",
        tenant_id: str = "",
        user_id: str = "",
        trace_id: str = "",
        config: Mapping[str, Any] | None = None,
    ) -> AbstractContextManager[str]:
        """See `Tracer.turn`."""
        outer = _SCOPE.get() or Scope()
        # Inside a LangGraph node this is the config of the run, whether or not the node asked for it.
        found: Config = ensure_config() if config is None else config
        known = self._redactor.text if self._redactor else str
        scope = Scope(
            trace_id=self._outer_trace_id(found) or outer.trace_id or trace_id or _trace_id_of(found),
            session_id=known(session_id) or outer.session_id,
            tenant_id=tenant_id or outer.tenant_id,
            user_id=known(user_id) or outer.user_id,
            started_s=outer.started_s,
        )
        return _Turn(self, self._sinks, scope, found)

    def span(
        self,
        name: str,
        kind: SpanKind = "span",
        *,
        input: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> AbstractContextManager[Span]:
        """See `Tracer.span`."""
        above = _CURRENT.get()
        scope = _SCOPE.get() or (above.scope if above else Scope(trace_id=_random_trace_id()))
        record = SpanRecord(
            name=name,
            kind=kind,
            trace_id=scope.trace_id,
            session_id=scope.session_id,
            tenant_id=scope.tenant_id,
            user_id=scope.user_id,
            start_ms=_ms_since(scope),
            input=input,
            metadata=dict(metadata or {}),
        )
        return _OpenSpan(self._sinks, self._redactor, scope, record)

    def close(self, timeout_s: float = 1.0) -> None:
        """See `Tracer.close`."""
        stop_all([partial(_quietly, sink.close) for sink in self._sinks], timeout_s)

    def _outer_trace_id(self, config: Config) -> str:
        return next(filter(None, (_quietly(sink.outer_trace_id, config) for sink in self._sinks)), "")


class _Turn:
    """The `with` block of `turn`. Leaving it in another context than it was entered in is harmless."""

    def __init__(self, tracer: Tracer, sinks: Sequence[Sink], scope: Scope, config: Config) -> None:
        self._tracer, self._sinks, self._scope, self._config = tracer, sinks, scope, config
        self._undo: list[Undo | None] = []

    def __enter__(self) -> str:
        self._ambient = ambient(self._tracer)
        self._ambient.__enter__()
        self._token = _SCOPE.set(self._scope)
        self._undo = [_quietly(sink.enter, self._scope, self._config) for sink in self._sinks]
        return self._scope.trace_id

    def __exit__(self, *_exc: object) -> None:
        if reset(_SCOPE, self._token):
            for undo in reversed(self._undo):
                if undo is not None:
                    _quietly(undo)
        self._ambient.__exit__(None, None, None)


class _OpenSpan:
    """The `with` block of `span`: the body runs exactly once, whatever the sinks do."""

    def __init__(
        self, sinks: Sequence[Sink], redactor: Redactor | None, scope: Scope, record: SpanRecord
    ) -> None:
        self._sinks, self._redactor, self.scope, self.record = sinks, redactor, scope, record
        self.handles: list[Any] = []

    def __enter__(self) -> Span:
        parent = _CURRENT.get()
        if parent is not None and parent._sinks is self._sinks:
            parent.record.children.append(self.record)
            above: Sequence[Any] = parent.handles
        else:
            above = [None] * len(self._sinks)
        self.handles = [
            _quietly(sink.start, self.record, handle) for sink, handle in zip(self._sinks, above, strict=True)
        ]
        self._token = _CURRENT.set(self)
        return self.record

    def __exit__(
        self, _type: type[BaseException] | None, exc: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        record = self.record
        if isinstance(exc, asyncio.CancelledError | GeneratorExit):
            record.cancel(record.cancel_cause or _cause_of(exc))
        elif exc is not None:
            record.fail(exc)
        record.end_ms = _ms_since(self.scope)
        same_context = reset(_CURRENT, self._token)
        exported = self._exported()
        for sink, handle in reversed(list(zip(self._sinks, self.handles, strict=True))):
            if handle is not None:
                _quietly(sink.end, exported, handle)
                if same_context:
                    _quietly(sink.leave, handle)

    def _exported(self) -> SpanRecord:
        if self._redactor is None:
            return self.record
        return _quietly(self._redactor.span, self.record) or _without_facts(self.record)


def _without_facts(span: SpanRecord) -> SpanRecord:
    return replace(
        span, input=None, output=None, metadata={}, model=None, model_parameters={}, usage={}, children=[]
    )


def _cause_of(exc: BaseException) -> CancelCause:
    said = exc.args[0] if exc.args else None
    return next((cause for cause in _CAUSES if cause == said), "client_gone")


def _trace_id_of(config: Config) -> str:
    """Nodes of one run share a trace where LangGraph Server names the run; else a new one."""
    for part in ("metadata", "configurable"):
        facts = config.get(part)
        run_id = facts.get("run_id") if isinstance(facts, Mapping) else None
        if run_id:
            return hashlib.sha256(str(run_id).encode()).hexdigest()[:32]
    return _random_trace_id()


def _random_trace_id() -> str:
    return f"{random.getrandbits(128):032x}"  # as OpenTelemetry does: unique, not secret, no system call


def _ms_since(scope: Scope) -> float:
    return (time.perf_counter() - scope.started_s) * 1000


def _quietly(step: Callable[..., _T], *args: Any) -> _T | None:
    try:
        return step(*args)
    except Exception as error:
        _log.debug("a tracing sink failed: %s", type(error).__name__)
        return None


@dataclass(slots=True)
class TurnRecord:
    """The spans of one trace; roots in the order they began."""

    trace_id: str
    session_id: str = ""
    tenant_id: str = ""
    spans: list[SpanRecord] = field(default_factory=list)


class _Memory:
    """The sink of `RecordingTracer`: keeps the roots, whose `children` hold the rest."""

    def __init__(self) -> None:
        self.turns: dict[str, TurnRecord] = {}

    def outer_trace_id(self, config: Config) -> str:
        return ""

    def enter(self, scope: Scope, config: Config) -> None:
        self.turns.setdefault(scope.trace_id, TurnRecord(scope.trace_id, scope.session_id, scope.tenant_id))

    def start(self, span: SpanRecord, parent: Any) -> Any:
        if parent is None:
            turn = self.turns.setdefault(
                span.trace_id, TurnRecord(span.trace_id, span.session_id, span.tenant_id)
            )
            turn.spans.append(span)
        return span

    def end(self, span: SpanRecord, handle: Any) -> None:
        return None

    def leave(self, handle: Any) -> None:
        return None

    def close(self, timeout_s: float) -> None:
        return None


class RecordingTracer(SinkTracer):
    """Keeps every turn in memory, as it happened and unmasked: for `ix demo` and for tests."""

    def __init__(self) -> None:
        self._memory = _Memory()
        super().__init__([self._memory])

    @property
    def turns(self) -> list[TurnRecord]:
        """The turns so far, oldest first."""
        return list(self._memory.turns.values())

    def take(self) -> list[TurnRecord]:
        """The turns so far, which are then forgotten."""
        taken, self._memory.turns = self.turns, {}
        return taken


_SCOPE: ContextVar[Scope | None] = ContextVar("ix_trace_scope", default=None)
_CURRENT: ContextVar[_OpenSpan | None] = ContextVar("ix_span", default=None)
