"""The retrieval node: choose how a message becomes a search, then search.

`choose` decides and does nothing else. `retrieve` does what was chosen: it may search the visitor's
own words while a resolver decides, and never lets a resolver make the turn fail or wait longer than
its deadline. `retrieval_node` fits both into LangGraph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime

from ixchat.effort import with_effort
from ixchat.nodes.deps import Deps, Emit, OneTenant, Plan, Redirect, Tenants, keep_because
from ixchat.nodes.intent_policy import choose_by_intent
from ixchat.nodes.record import Retrieval
from ixchat.nodes.turn_run import TurnRun
from ixchat.state import RetrievalInput, RetrievalOutput, chat_context
from ixchat.utils.gate import has_reference_text, should_resolve
from ixchat.utils.history import current_turn
from ixchat.utils.lanes import Lanes
from ixchat.utils.resolution import Turn
from ixinfra.tracing import ambient

__all__ = [
    "Deps",
    "Emit",
    "OneTenant",
    "Plan",
    "Redirect",
    "Tenants",
    "choose",
    "keep_because",
    "retrieval_node",
    "retrieve",
]

_DISABLED = keep_because("disabled")
_FIRST_TURN = keep_because("first_turn")
_GATE_DECLINED = keep_because("gate_declined")


def choose(turn: Turn, deps: Deps) -> Plan:
    """Pick how this turn becomes retrieval input. No I/O, no model.

    A first turn, a message that is searchable as written and a switched-off rewriter keep the
    visitor's words. What is left goes to the resolver whose output the tenant's channels can use. On an
    engine that searches written words, the words a follow-up lacks are weighed beside whatever is searched.
    """
    if not deps.enabled:
        return _DISABLED
    plan = _path(turn, deps)
    return replace(plan, weigh=deps.weigh) if turn.messages else plan


def _path(turn: Turn, deps: Deps) -> Plan:
    if deps.gate is not None:
        return choose_by_intent(turn, deps, deps.gate)
    if not turn.messages:
        return _FIRST_TURN
    if should_resolve(turn.query):
        if deps.retriever.rag_mode == "naive":
            plan = Plan(deps.text_resolver, "intent", "tool-query-intent")
        else:
            plan = Plan(deps.keyword_resolver, "keywords", "tool-query-keywords")
        return replace(plan, deadline_s=deps.short_reply_deadline_s, keep_own_words=deps.fused)
    # Appending a name to a chunks-only search measured no gain, so `naive` tenants skip the check.
    if deps.retriever.rag_mode == "naive" or not has_reference_text(turn.query):
        return _GATE_DECLINED
    return Plan(
        deps.reference_resolver,
        "reference",
        "tool-query-reference",
        search_meanwhile=True,
        deadline_s=deps.reference_deadline_s,
        keep_own_words=deps.fused,
        foresee=deps.foresee,
    )


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
            run = TurnRun(turn, deps, plan or choose(turn, deps), lanes, emit or _silent)
            await run.to_the_end()
        retrieval = run.outcome()
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
            spent = with_effort(deps, context.effort, context.budget_s)
            retrieval = await retrieve(turn, spent, emit=runtime.stream_writer)
    return {
        "documents": list(retrieval.documents),
        "retrieval": {**retrieval.record, "trace_id": trace_id},
        "redirect": retrieval.redirect,
    }


def _silent(_event: dict[str, Any]) -> None:
    return None
