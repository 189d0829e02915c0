"""Runs turns of the chat graph for web clients, and stops them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from ixchat.graph import build_chat_graph
from ixchat.nodes.deps import Tenants
from ixchat.serve.request import TurnRequest
from ixchat.serve.spans import RecentSpans
from ixchat.serve.threads import Thread, Threads
from ixchat.state import ChatContext
from ixinfra.errors import IxError, RefusedError
from ixinfra.tracing import NO_TRACER, Tracer
from ixinfra.tracing_tree import SpanRecord

StopReason = Literal["client_gone", "superseded", "stopping"]
"""Why a turn was stopped: the client went away, spoke again on the same thread, or the server ends."""

Event = Mapping[str, Any]
"""What a client is told: `event` names it, the rest are its facts."""

MAX_PASSAGES = 10  # sent to the client
MAX_GRAPH_HITS = 20  # entities and relations, likewise

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class ServedTurn:
    """One turn on its way to a client."""

    asked: TurnRequest
    thread: Thread | None = None
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    reason: StopReason | None = None

    def stop(self, reason: StopReason) -> None:
        """Ask the turn to end; the first reason stands."""
        self.reason = self.reason or reason
        self.stopped.set()


class TurnService:
    """Answers turns with one chat graph for all tenants.

    Args:
        tenants: Lends the tenants.
        known: Ids of the tenants that clients may name.
        tracer: Opens the trace that the spans of retrieval and answer share.
        spans: A sink of the tenants' tracer; None sends no spans to clients.
        max_turns: How many turns run at once.
        max_threads: How many conversations are kept.
    """

    def __init__(
        self,
        tenants: Tenants,
        known: Sequence[str],
        *,
        tracer: Tracer = NO_TRACER,
        spans: RecentSpans | None = None,
        max_turns: int = 64,
        max_threads: int = 1000,
    ) -> None:
        self._graph = build_chat_graph(tenants)
        self._known, self._tracer, self._spans = frozenset(known), tracer, spans
        self._max_turns, self._threads = max_turns, Threads(max_threads)
        self._running: set[ServedTurn] = set()
        self._is_stopping, self._idle = False, asyncio.Event()

    @contextmanager
    def begin(self, asked: TurnRequest) -> Iterator[ServedTurn]:
        """Hold a place for a turn; it is free again when the block is left.

        A turn that still runs on the same thread is stopped: its answer is no longer wanted.

        Raises:
            RefusedError: No such tenant, no place left, or the server is ending.
        """
        if asked.tenant not in self._known:
            raise RefusedError(404, "unknown_tenant", "no such tenant")
        if self._is_stopping or len(self._running) >= self._max_turns:
            why = "stopping" if self._is_stopping else "busy"
            raise RefusedError(503, why, "try again in a moment", retry_after_s=1)
        thread = self._threads.open(asked.tenant, asked.thread) if asked.thread else None
        for other in self._running:
            if thread is not None and other.thread is thread:
                other.stop("superseded")
        turn = ServedTurn(asked, thread)
        self._running.add(turn)
        self._idle.clear()
        try:
            yield turn
        finally:
            self._running.discard(turn)
            if not self._running:
                self._idle.set()

    async def run(self, turn: ServedTurn, put: Callable[[Event], Awaitable[None]]) -> None:
        """Run the turn and put its events: those of the graph as they happen, then `final` or `error`."""
        asked = turn.asked
        number, messages = _conversation(turn)
        context = ChatContext(
            asked.tenant,
            session_id=asked.session or asked.thread or "",
            user_id=asked.user,
            effort="check" if asked.rewriter else "off",
        )
        state: dict[str, Any] = {}
        started_s = time.perf_counter()
        with self._tracer.turn(
            session_id=context.session_id, tenant_id=context.tenant_id, user_id=context.user_id
        ) as trace_id:
            try:
                async for part in self._graph.astream(
                    {"messages": messages},
                    context=context,
                    stream_mode=["custom", "values"],
                    subgraphs=True,
                    version="v2",
                ):
                    if part["type"] == "custom":
                        await put(part["data"])
                    elif part["type"] == "values" and not part["ns"]:
                        state = dict(part["data"])
            except Exception as error:  # whatever it is, the client is told and the server goes on
                _log_failure(asked.tenant, error)
                await put({"event": "error", "reason": _reason(error)})
                return
            finally:
                spans = self._spans.take(trace_id) if self._spans else []
        final = _final(state, spans, (time.perf_counter() - started_s) * 1000)
        if turn.thread is not None:
            turn.thread.answer(number, final["answer"])
        _log_turn(asked.tenant, final)
        await put(final)

    async def drain(self, patience_s: float) -> None:
        """Take no more turns, give those that run `patience_s` seconds, then stop them."""
        self._is_stopping = True
        if self._running:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await self._idle.wait()
        for turn in self._running:
            turn.stop("stopping")


def _conversation(turn: ServedTurn) -> tuple[int, list[AnyMessage]]:
    if turn.thread is not None:
        return turn.thread.say(turn.asked.message), list(turn.thread.messages)
    past: list[AnyMessage] = [
        HumanMessage(message.content) if message.role == "user" else AIMessage(message.content)
        for message in turn.asked.history
    ]
    return 0, [*past, HumanMessage(turn.asked.message)]


def _final(state: Mapping[str, Any], spans: Sequence[SpanRecord], elapsed_ms: float) -> dict[str, Any]:
    answer = state["messages"][-1]
    record = dict(state["retrieval"])
    return {
        "event": "final",
        "answer": answer.text if isinstance(answer, AIMessage) else "",
        "answer_fallback": answer.additional_kwargs.get("fallback"),
        "trace_id": record.pop("trace_id", ""),
        "record": record,
        "documents": _documents(state["documents"]),
        "spans": [_span(span) for span in spans],
        "elapsed_ms": round(elapsed_ms, 2),
    }


def _documents(documents: Sequence[Document]) -> list[dict[str, Any]]:
    left = {"chunk": MAX_PASSAGES, "graph": MAX_GRAPH_HITS}
    sent = []
    for document in documents:
        kind = document.metadata.get("kind", "chunk")
        group = "chunk" if kind == "chunk" else "graph"
        if left[group] > 0:
            left[group] -= 1
            sent.append({"kind": kind, "text": document.page_content, **document.metadata})
    return sent


def _span(span: SpanRecord) -> dict[str, Any]:
    return {
        "name": span.name,
        "kind": span.kind,
        "started_ms": round(span.start_ms, 2),
        "ended_ms": None if span.end_ms is None else round(span.end_ms, 2),
        "status": span.status,
        "cause": span.cancel_cause,
        "error": span.error or None,
        "model": span.model,
        "usage": span.usage,
        "children": [_span(child) for child in span.children],
    }


def _reason(error: Exception) -> str:
    return "unavailable" if isinstance(error, IxError) else "failed"


def _log_failure(tenant: str, error: Exception) -> None:
    # The texts of our own errors name files and settings; any other text may repeat what a visitor wrote.
    detail = f": {error}" if isinstance(error, IxError) else ""
    _log.error("tenant=%s turn failed with %s%s", tenant, type(error).__name__, detail)


def _log_turn(tenant: str, final: Mapping[str, Any]) -> None:
    record = final["record"]
    _log.info(
        "tenant=%s outcome=%s path=%s decision=%s fallback=%s retrieval_ms=%.0f turn_ms=%.0f",
        tenant,
        record["outcome"],
        record["path"],
        record["decision"],
        record["fallback"],
        record["total_ms"],
        final["elapsed_ms"],
    )
