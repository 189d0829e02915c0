"""The retrieval node: choose how a message becomes a search, then search.

`choose` decides and does nothing else. `retrieve` does what was chosen: it may search the visitor's
own words while a resolver decides, and never lets a resolver make the turn fail or wait longer than
its deadline. `retrieval_node` fits both into LangGraph.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel
from langgraph.runtime import Runtime

from ixchat.nodes.record import Clock, Path, Retrieval, Search, SearchName, Step
from ixchat.state import RetrievalInput, RetrievalOutput, chat_context
from ixchat.utils.gate import has_reference_text, should_resolve
from ixchat.utils.history import current_turn
from ixchat.utils.lanes import Lane, Lanes
from ixchat.utils.resolution import Fallback, Resolution, Resolver, Turn, keep_raw
from ixinfra.errors import IxError, UnknownTenantError
from ixinfra.tracing import NO_TRACER, CancelCause, Span, Tracer, ambient
from ixrag.documents import Retriever, search_report

Redirect = Callable[[Turn], Awaitable[str | None]]
"""A host's branch that may end the turn while retrieval runs: the reply to give, or None to go on."""

Emit = Callable[[dict[str, Any]], None]
"""Receives the turn's events as they happen; LangGraph's stream writer is one."""

MAX_DOCUMENTS_ON_SPAN = 10  # a span is serialised on the event loop, and nobody reads the fortieth passage


@dataclass(frozen=True, slots=True)
class Deps:
    """Everything one tenant's turns need: the live objects, built once.

    Attributes:
        retriever: Searches the tenant's knowledge base; its `rag_mode` says which channels exist.
        text_resolver: Short replies of tenants without a graph.
        keyword_resolver: Short replies of tenants with a graph.
        reference_resolver: Longer follow-ups of tenants with a graph.
        enabled: The switch `query_rewriter.enabled`. Off: the visitor's words and nothing else.
        tenant_id: Key of caches and spans.
        company_name: The company whose site this is.
        language: Main language of its visitors, ISO 639 code.
        tracer: Where spans go.
        redirect: A branch that may end the turn while retrieval runs; None for none.
        answer_model: Writes answers in the chat graph; None quotes the best passages instead.
        short_reply_deadline_s: Longest wait for the two short-reply resolvers, in seconds.
        reference_deadline_s: Longest wait for the reference check, in seconds.
        redirect_deadline_s: Longest wait for `redirect` once the search has ended, in seconds.
        grace_s: Longest wait for cancelled work when the node ends, in seconds.
    """

    retriever: Retriever
    text_resolver: Resolver = keep_raw
    keyword_resolver: Resolver = keep_raw
    reference_resolver: Resolver = keep_raw
    enabled: bool = True
    tenant_id: str = ""
    company_name: str = ""
    language: str = "en"
    tracer: Tracer = NO_TRACER
    redirect: Redirect | None = None
    answer_model: BaseChatModel | None = None
    short_reply_deadline_s: float = 1.0
    reference_deadline_s: float = 2.0
    redirect_deadline_s: float = 1.0
    grace_s: float = 0.15


class Tenants(Protocol):
    """Lends a tenant's `Deps` for the length of a turn, so that it is not closed under it."""

    def lend(self, tenant_id: str) -> AbstractAsyncContextManager[Deps]:
        """The tenant's `Deps`.

        Raises:
            UnknownTenantError: No such tenant is configured.
        """


@dataclass(frozen=True, slots=True)
class OneTenant:
    """The `Tenants` of a graph that serves a single tenant."""

    deps: Deps

    @asynccontextmanager
    async def lend(self, tenant_id: str) -> AsyncIterator[Deps]:
        """The one `Deps`, for the empty id or its own.

        Raises:
            UnknownTenantError: Another tenant was asked for.
        """
        if tenant_id and self.deps.tenant_id and tenant_id != self.deps.tenant_id:
            raise UnknownTenantError(
                f"unknown tenant {tenant_id!r}; this graph serves {self.deps.tenant_id!r} alone"
            )
        yield self.deps


@dataclass(frozen=True, slots=True)
class Plan:
    """How a turn becomes retrieval input.

    Attributes:
        resolver: Makes the resolution.
        path: Which of the resolvers it is.
        span_name: Span of the resolver; None when there is nothing to see.
        search_meanwhile: Whether the visitor's own words are searched while the resolver decides.
        deadline_s: Longest wait for the resolver, in seconds.
        retriever: Searches instead of the tenant's own; None for that one.
    """

    resolver: Resolver = keep_raw
    path: Path = "raw"
    span_name: str | None = None
    search_meanwhile: bool = False
    deadline_s: float = 2.0
    retriever: Retriever | None = None


def keep_because(reason: Fallback) -> Plan:
    """The plan that searches the visitor's own words, for a stated reason."""

    async def keep(turn: Turn) -> Resolution:
        return Resolution(turn.query, fallback=reason)

    return Plan(keep)


_DISABLED = keep_because("disabled")
_FIRST_TURN = keep_because("first_turn")
_GATE_DECLINED = keep_because("gate_declined")


def choose(turn: Turn, deps: Deps) -> Plan:
    """Pick how this turn becomes retrieval input. No I/O, no model.

    A first turn, a message that is searchable as written and a switched-off rewriter keep the
    visitor's words. What is left goes to the resolver whose output the tenant's channels can use.
    """
    if not deps.enabled:
        return _DISABLED
    if not turn.messages:
        return _FIRST_TURN
    if should_resolve(turn.query):
        if deps.retriever.rag_mode == "naive":
            return Plan(deps.text_resolver, "intent", "tool-query-intent", False, deps.short_reply_deadline_s)
        return Plan(
            deps.keyword_resolver, "keywords", "tool-query-keywords", False, deps.short_reply_deadline_s
        )
    # Appending a name to a chunks-only search measured no gain, so `naive` tenants skip the check.
    if deps.retriever.rag_mode == "naive" or not has_reference_text(turn.query):
        return _GATE_DECLINED
    return Plan(deps.reference_resolver, "reference", "tool-query-reference", True, deps.reference_deadline_s)


async def retrieve(
    turn: Turn, deps: Deps, plan: Plan | None = None, *, emit: Emit | None = None
) -> Retrieval:
    """Search for one turn as planned.

    A resolver that fails, answers late or raises costs the turn nothing: the visitor's own words are
    searched. When this returns or raises, nothing it started is still running, except work that
    ignores its cancellation for longer than `deps.grace_s`; that is never used.

    Args:
        turn: The visitor's message and the conversation before it.
        deps: The tenant's live objects.
        plan: Default: `choose(turn, deps)`.
        emit: Called with each event of the turn, in order.

    Returns:
        Documents, decision and time line. An engine that failed gives no documents and a reason in
        `problems`, never an exception.
    """
    with (
        ambient(deps.tracer),
        deps.tracer.span(
            "agent-knowledge-retriever",
            "agent",
            input={"query": turn.query, "earlier_messages": len(turn.messages)},
            metadata={"tenant_id": deps.tenant_id, "rag_mode": deps.retriever.rag_mode},
        ) as span,
    ):
        async with Lanes(deps.grace_s) as lanes:
            run = _Run(turn, deps, plan or choose(turn, deps), lanes, emit or _silent)
            retrieval = await run.to_the_end()
        if lanes.abandoned:
            retrieval = replace(retrieval, problems=[*retrieval.problems, "abandoned_task"])
        record = retrieval.record
        span.update(output=record, metadata={"path": retrieval.path, "changed": record["changed"]})
        return retrieval


async def retrieval_node(
    state: RetrievalInput, runtime: Runtime[Any], *, tenants: Tenants, config: Mapping[str, Any] | None = None
) -> RetrievalOutput:
    """Retrieval as a LangGraph node: read state and context, retrieve, write documents and record."""
    context = chat_context(runtime.context)
    async with tenants.lend(context.tenant_id) as deps:
        company_name = context.company_name or deps.company_name
        turn = current_turn(state["messages"], company_name=company_name, tenant_id=deps.tenant_id)
        with deps.tracer.turn(
            session_id=context.session_id,
            tenant_id=deps.tenant_id,
            user_id=context.user_id,
            config=config,
        ) as trace_id:
            retrieval = await retrieve(turn, deps, emit=runtime.stream_writer)
    return {
        "documents": list(retrieval.documents),
        "retrieval": {**retrieval.record, "trace_id": trace_id},
        "redirect": retrieval.redirect,
    }


@dataclass(slots=True)
class _Run:
    """One turn on its way: what has been started and what is known so far."""

    turn: Turn
    deps: Deps
    plan: Plan
    lanes: Lanes
    emit: Emit
    clock: Clock = field(default_factory=lambda: Clock(asyncio.get_running_loop().time))
    searches: list[Search] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    check: Step | None = None
    redirect: Lane[str | None] | None = None

    async def to_the_end(self) -> Retrieval:
        """Follow the plan, unless the redirect branch ends the turn first."""
        self.emit({"event": "path", "path": self.plan.path})
        if self.deps.redirect is not None:
            self.redirect = self.lanes.start("redirect", self._ask_redirect)
        try:
            resolution = await self._resolve_and_search()
            await self._wait_for(None, self.deps.redirect_deadline_s)
        except _RedirectedError as redirected:
            self.lanes.cancel_all("redirected")
            return self._finish(Resolution(self.turn.query), redirected.reply)
        return self._finish(resolution, None)

    async def _resolve_and_search(self) -> Resolution:
        early = (
            self._start_search("early search", self.turn.query, {}) if self.plan.search_meanwhile else None
        )
        resolution = await self._resolve()
        self.emit({"event": "decision", "decision": resolution.decision, "fallback": resolution.fallback})
        if early is not None and not resolution.changes(self.turn):
            await self._finish_search(early)
            return resolution
        if early is not None:
            # Cancel on the verdict: otherwise both searches run and the first one holds its slots.
            early.cancel("superseded")
        name: SearchName = "search" if early is None else "second search"
        lane = self._start_search(name, resolution.query, resolution.retriever_kwargs)
        if not await self._finish_search(lane) and resolution.changes(self.turn):
            await self._search_own_words(early)
            return replace(resolution, fallback="search_failed")
        return resolution

    async def _search_own_words(self, early: Lane[Search] | None) -> None:
        """After a failed resolved search: the early search if it had finished, else one more search."""
        if early is not None and early.finished and early.task.result().fate == "unused":
            early.task.result().fate = "used"
            return
        await self._finish_search(self._start_search("raw search", self.turn.query, {}))

    async def _resolve(self) -> Resolution:
        """The plan's resolution, or the visitor's words once the deadline has passed."""
        if self.plan.span_name is None:
            return await self.plan.resolver(self.turn)
        self.check = self.clock.start("check")
        lane = self.lanes.start("check", self._ask_resolver)
        in_time = await self._wait_for(lane, self.plan.deadline_s)
        self.check.ended_ms = self.clock.ms
        if not in_time:
            lane.cancel("deadline")
            self.problems.append("check:timeout")
            return Resolution(self.turn.query, "error", "timeout")
        if lane.task.cancelled():  # by the resolver itself: nobody here asked for it
            self.problems.append("check:CancelledError")
            return Resolution(self.turn.query, "error", "resolver_error")
        return lane.task.result()

    async def _ask_resolver(self, lane: Lane[Resolution]) -> Resolution:
        turn = self.turn
        with self.deps.tracer.span(
            self.plan.span_name or "tool-query",
            "tool",
            input={"query": turn.query, "earlier_messages": len(turn.messages)},
        ) as span:
            try:
                resolution = await self.plan.resolver(turn)
            except asyncio.CancelledError:
                _mark_cancelled_check(span, lane.cause or "client_gone")
                raise
            except Exception as error:  # a resolver of the host's own; ours return their failures
                self.problems.append(f"check:{type(error).__name__}")
                span.fail(error)
                resolution = Resolution(turn.query, "error", "resolver_error")
            _describe_check(span, turn, resolution)
            return resolution

    def _start_search(self, name: SearchName, query: str, kwargs: Mapping[str, list[str]]) -> Lane[Search]:
        search = Search(self.clock.start(name), query, kwargs)
        self.searches.append(search)
        self.emit({"event": "search_started", "name": name})
        return self.lanes.start(name, lambda lane: self._search(lane, search))

    async def _search(self, lane: Lane[Search], search: Search) -> Search:
        with self.deps.tracer.span(
            "tool-lightrag-retrieval",
            "retriever",
            input={"query": search.query, **search.retriever_kwargs},
            metadata={"search": search.step.name},
        ) as span:
            try:
                with search_report() as search.report:
                    retriever = self.plan.retriever or self.deps.retriever
                    found = await retriever.ainvoke(search.query, **search.retriever_kwargs)
                if lane.cause:  # the engine ignored its cancellation; a late answer is never used
                    raise asyncio.CancelledError
                search.documents, search.fate = list(found), "unused"
                _describe_search(span, search)
            except asyncio.CancelledError:
                search.cause = lane.cause or "client_gone"
                if search.fate == "running":  # else the turn has ended without it
                    search.fate = "cancelled"
                span.cancel(search.cause)
                self.emit({"event": "search_cancelled", "name": search.step.name, "cause": search.cause})
                raise
            except Exception as error:  # an engine of the host's own may raise anything
                search.fate, search.error = "failed", _reason(error)
                self.problems.append(f"{search.step.name}:{search.error}")
                span.fail(error)
            finally:
                search.step.ended_ms = self.clock.ms
        return search

    async def _finish_search(self, lane: Lane[Search]) -> bool:
        """Wait for a search and use it. False when the engine failed."""
        await self._wait_for(lane, None)
        if lane.task.cancelled():  # by the engine itself: nobody here asked for it
            self.problems.append(f"{lane.name}:CancelledError")
            return False
        search = lane.task.result()
        if search.fate == "failed":
            return False
        search.fate = "used"
        self.emit({"event": "documents", "name": search.step.name, "documents": len(search.documents)})
        return True

    async def _wait_for(self, lane: Lane[Any] | None, timeout_s: float | None) -> bool:
        """Wait until the lane ends, the time is up, or the redirect branch ends the turn.

        With no lane: wait for the redirect branch's word. Returns False when the time was up.

        Raises:
            _RedirectedError: The redirect branch has a reply.
        """
        ends_ms = None if timeout_s is None else self.clock.ms + timeout_s * 1000.0
        while True:
            self._check_redirect()
            target = lane or self.redirect
            if target is None or target.task.done():
                return True
            left_s = None if ends_ms is None else (ends_ms - self.clock.ms) / 1000.0
            if left_s is not None and left_s <= 0.0:
                if lane is None:
                    self.problems.append("redirect:timeout")
                return False
            waiting = {item.task for item in (lane, self.redirect) if item and not item.task.done()}
            await asyncio.wait(waiting, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)

    def _check_redirect(self) -> None:
        if self.redirect is None or not self.redirect.task.done():
            return
        task, self.redirect = self.redirect.task, None
        reply = None if task.cancelled() else task.result()
        if reply is not None:
            raise _RedirectedError(reply)

    async def _ask_redirect(self, _lane: Lane[str | None]) -> str | None:
        assert self.deps.redirect is not None
        try:
            return await self.deps.redirect(self.turn)
        except Exception as error:  # the host's branch; a broken one must not end the turn
            self.problems.append(f"redirect:{type(error).__name__}")
            return None

    def _finish(self, resolution: Resolution, redirect: str | None) -> Retrieval:
        for search in self.searches:
            if search.fate == "running":
                search.fate = "abandoned"
        used = next((search for search in self.searches if search.fate == "used"), None)
        return Retrieval(
            turn=self.turn,
            path=self.plan.path,
            resolution=resolution,
            documents=used.documents if used and redirect is None else (),
            searches=self.searches,
            check=self.check,
            total_ms=self.clock.ms,
            rag_mode=self.deps.retriever.rag_mode,
            redirect=redirect,
            problems=self.problems,
        )


class _RedirectedError(IxError):
    def __init__(self, reply: str) -> None:
        super().__init__("the turn was redirected")
        self.reply = reply


def _describe_check(span: Span, turn: Turn, resolution: Resolution) -> None:
    facts = resolution.trace
    output: dict[str, Any] = {
        "decision": resolution.decision,
        "entity": facts.get("entity"),
        "rejected": facts.get("rejected"),
        "fallback_reason": resolution.fallback,
        "resolved_query": resolution.query,
        **resolution.retriever_kwargs,
    }
    if facts.get("evidence") is not None:
        output["evidence"] = facts["evidence"]
    span.update(
        output=output,
        metadata={
            "changed": resolution.changes(turn),
            "decision": resolution.decision,  # viewers filter on metadata, not inside an output
            "fallback_reason": resolution.fallback,
            "model": facts.get("model"),
            "provider": facts.get("provider"),
            "prompt": facts.get("prompt"),
        },
    )


def _mark_cancelled_check(span: Span, cause: CancelCause) -> None:
    if cause == "deadline":
        span.update(output={"decision": "error", "fallback_reason": "timeout"})
    span.cancel(cause)


def _describe_search(span: Span, search: Search) -> None:
    report = search.report
    span.update(
        output={
            "documents": len(search.documents),
            "sources": [doc.metadata.get("source") for doc in search.documents[:MAX_DOCUMENTS_ON_SPAN]],
            "vector_text": report.vector_text or search.query,
            "ll_keywords": report.ll_keywords,
            "hl_keywords": report.hl_keywords,
        },
        metadata={"keyword_source": report.keyword_source or "none", **report.facts},
    )


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return reason if isinstance(reason, str) else type(error).__name__


def _silent(_event: dict[str, Any]) -> None:
    return None
