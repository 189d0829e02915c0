"""The policy of tenants on the hybrid engine: a gate says what a message needs, and only that is done."""

from __future__ import annotations

from ixchat.nodes.deps import Deps, Plan
from ixchat.utils.gate import has_reference_text, should_resolve
from ixchat.utils.intent_gate import Intent, IntentGate
from ixchat.utils.resolution import Resolution, Resolver, Turn
from ixrag.documents import Retriever
from ixrag.search.engine import HybridRetriever, Strategy

_DECLINED: dict[bool, Intent] = {
    first: Intent("passthrough", 1.0, {}, "first_turn" if first else "no_text") for first in (True, False)
}


def choose_by_intent(turn: Turn, deps: Deps, gate: IntentGate) -> Plan:
    """Pick how this turn becomes retrieval input. No I/O, no chat model; about a millisecond.

    A short reply goes to the text resolver. Otherwise the gate decides: `coref` asks the reference
    resolver while the visitor's own words are searched; the other ways are the engine's business,
    which is told of them. Whatever is resolved, the visitor's own words are searched beside it: a short
    message may be a keyword query that needed nothing.
    """
    if turn.messages and should_resolve(turn.query):
        return Plan(
            deps.text_resolver,
            "intent",
            "tool-query-intent",
            deadline_s=deps.short_reply_deadline_s,
            keep_own_words=True,
        )
    intent = gate.classify(turn) if has_reference_text(turn.query) else _DECLINED[not turn.messages]
    retriever = told_of(deps.retriever, intent.strategy, intent.confidence)
    if intent.strategy.startswith("coref"):
        return Plan(
            deps.reference_resolver,
            "reference",
            "tool-query-reference",
            search_meanwhile=True,
            deadline_s=deps.reference_deadline_s,
            retriever=retriever,
            keep_own_words=True,
            foresee=deps.foresee,
        )
    return Plan(_keeping(intent, first_turn=not turn.messages), retriever=retriever)


def told_of(retriever: Retriever, strategy: Strategy, confidence: float | None) -> Retriever:
    """The engine that knows the strategy; any other retriever as it is."""
    return (
        retriever.with_strategy(strategy, confidence) if isinstance(retriever, HybridRetriever) else retriever
    )


def _keeping(intent: Intent, *, first_turn: bool) -> Resolver:
    async def keep(turn: Turn) -> Resolution:
        return Resolution(
            turn.query,
            fallback="first_turn" if first_turn else "gate_declined",
            trace={
                "reason": intent.strategy,
                "confidence": round(intent.confidence, 3),
                "model": "local:intent-gate",
            },
        )

    return keep
