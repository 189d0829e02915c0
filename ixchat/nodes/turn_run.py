"""One turn on its way through the node: what was started, what is waited for, what is used."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ixchat.nodes.deps import Deps, Emit, Plan
from ixchat.nodes.record import Clock, Retrieval, Search, SearchName, Step
from ixchat.utils.lanes import Lane, Lanes
from ixchat.utils.resolution import Missing, Resolution, Turn
from ixinfra.errors import IxError
from ixinfra.tracing import CancelCause, Span
from ixrag.documents import search_report, span_name_of
from ixrag.search.fusion import Ranking, fuse_documents

# Of a route with rules in front of a model.
CASCADE_FACTS = ("confidence", "asked", "local_decision", "agrees")
MAX_DOCUMENTS_ON_SPAN = 10  # a span is serialised on the event loop, and nobody reads the fortieth passage
OWN_WORDS_WEIGHT = 0.5  # of the visitor's words beside a resolved text; the text holds them already


@dataclass(slots=True)
class TurnRun:
    """One turn on its way: what has been started and what is known so far."""

    turn: Turn
    deps: Deps
    plan: Plan
    lanes: Lanes
    emit: Emit
    clock: Clock = field(default_factory=lambda: Clock(asyncio.get_running_loop().time))
    searches: list[Search] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    missing: Missing = field(default_factory=Missing)
    check: Step | None = None
    redirect: Lane[str | None] | None = None
    resolution: Resolution | None = None
    reply: str | None = None

    async def to_the_end(self) -> None:
        """Follow the plan, unless the redirect branch ends the turn first."""
        self.emit({"event": "path", "path": self.plan.path})
        if self.deps.redirect is not None:
            self.redirect = self.lanes.start("redirect", self._ask_redirect)
        try:
            self.resolution = await self._resolve_and_search()
            await self._wait_for(None, self.deps.redirect_deadline_s)
        except _RedirectedError as redirected:
            self.reply = redirected.reply
            self.lanes.cancel_all("redirected")

    def outcome(self) -> Retrieval:
        """What came of the turn; to be asked once its lanes are closed."""
        if self.lanes.abandoned:
            self.problems.append("abandoned_task")
        for search in self.searches:
            if search.fate == "running":
                search.fate = "abandoned"
        used = next((search for search in self.searches if search.fate == "used"), None)
        return Retrieval(
            turn=self.turn,
            path=self.plan.path,
            resolution=self.resolution or Resolution(self.turn.query),
            documents=used.documents if used and self.reply is None else (),
            searches=self.searches,
            missing=self.missing,
            check=self.check,
            total_ms=self.clock.ms,
            rag_mode=self.deps.retriever.rag_mode,
            redirect=self.reply,
            problems=self.problems,
        )

    async def _resolve_and_search(self) -> Resolution:
        plan = self.plan
        self.missing = await self._find_missing_words()
        early = self._start_search("early search", self.turn.query, {}) if plan.search_meanwhile else None
        ahead = await self._search_ahead()
        resolution = await self._resolve()
        self.emit({"event": "decision", "decision": resolution.decision, "fallback": resolution.fallback})
        if not resolution.changes(self.turn):
            _supersede(ahead)
            own = early or self._start_search("search", resolution.query, {})
            if not await self._finish_search(own) and self.missing.words:
                await self._search_own_words(None)
            return resolution
        if plan.keep_own_words:
            early = early or self._start_search("early search", self.turn.query, {})
        else:
            # Cancel on the verdict: otherwise both searches run and the first one holds its slots.
            _supersede(early)
        resolved = self._resolved_search(resolution, early, ahead)
        if not await self._finish_search(resolved):
            await self._search_own_words(early)
            return replace(resolution, fallback="search_failed")
        if plan.keep_own_words and early is not None:
            await self._fuse_own_words(early, resolved.task.result())
        return resolution

    async def _find_missing_words(self) -> Missing:
        """The words to weigh beside every search of this turn but the last resort."""
        if self.plan.weigh is None:
            return Missing()
        try:
            return await self.plan.weigh(self.turn)
        except Exception as error:  # words are a help; a broken helper must not cost a turn
            self.problems.append(f"missing_words:{type(error).__name__}")
            return Missing()

    async def _search_ahead(self) -> Lane[Search] | None:
        """Search what the check will probably say, within the tenant's budget."""
        if self.plan.foresee is None:
            return None
        try:
            guess = await self.plan.foresee(self.turn)
        except Exception as error:  # a resolver of the host's own; a guess is never worth a turn
            self.problems.append(f"foresee:{type(error).__name__}")
            return None
        if not self.deps.ahead.take(wanted=guess.changes(self.turn)):
            return None
        lane = self._start_search("ahead search", guess.query, guess.retriever_kwargs)
        lane.task.add_done_callback(lambda _task: self.deps.ahead.give_back())
        return lane

    def _resolved_search(
        self, resolution: Resolution, early: Lane[Search] | None, ahead: Lane[Search] | None
    ) -> Lane[Search]:
        """The search ahead where it was for this very resolution, else a new one."""
        if ahead is not None:
            search = next(search for search in self.searches if search.step.name == "ahead search")
            if (search.query, search.keywords) == (resolution.query, resolution.retriever_kwargs):
                return ahead
            _supersede(ahead)
        name: SearchName = "search" if early is None else "second search"
        return self._start_search(name, resolution.query, resolution.retriever_kwargs)

    async def _search_own_words(self, early: Lane[Search] | None) -> None:
        """After a failed resolved search: the early search if it still stands, else one more search."""
        if early is not None and early.cause is None and await self._finish_search(early):
            return
        self.missing = Missing(self.missing.need)  # they may be what the engine failed on
        await self._finish_search(self._start_search("raw search", self.turn.query, {}))

    async def _fuse_own_words(self, early: Lane[Search], resolved: Search) -> None:
        """Put what the visitor's own words find beside what the resolved text found."""
        if await self._finish_search(early):
            own = early.task.result()
            own.fate = "fused"
            rankings = [Ranking(resolved.documents), Ranking(own.documents, OWN_WORDS_WEIGHT)]
            resolved.documents = fuse_documents(rankings)

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
        search = Search(self.clock.start(name), query, kwargs, self.missing.retriever_kwargs)
        self.searches.append(search)
        self.emit({"event": "search_started", "name": name})
        return self.lanes.start(name, lambda lane: self._search(lane, search))

    async def _search(self, lane: Lane[Search], search: Search) -> Search:
        retriever = self.plan.retriever or self.deps.retriever
        with self.deps.tracer.span(
            span_name_of(retriever),
            "retriever",
            input={"query": search.query, **search.retriever_kwargs},
            metadata={"search": search.step.name},
        ) as span:
            try:
                with search_report() as search.report:
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


class _RedirectedError(IxError):
    def __init__(self, reply: str) -> None:
        super().__init__("the turn was redirected")
        self.reply = reply


def _supersede(lane: Lane[Search] | None) -> None:
    if lane is not None:
        lane.cancel("superseded")


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
            **{name: facts[name] for name in CASCADE_FACTS if name in facts},
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
