"""The policy of tenants on the hybrid engine: a gate says what a message needs, and only that is done."""

from __future__ import annotations

from ixchat.nodes.deps import Deps, Plan
from ixchat.utils.gate import has_reference_text, should_resolve
from ixchat.utils.intent_gate import Intent, IntentGate
from ixchat.utils.local.lexicon import lexicon_of
from ixchat.utils.resolution import Resolution, Resolver, Turn
from ixchat.utils.terms import URL
from ixrag.documents import Retriever
from ixrag.search.engine import HybridRetriever, Strategy
from ixrag.words import folded, folded_words, words

LAST_CHARS = 300  # of the assistant's message: what it asks stands at its end
QUESTION_MARKS = "?？؟"

_DECLINED: dict[bool, Intent] = {
    first: Intent("passthrough", 1.0, {}, "first_turn" if first else "no_text") for first in (True, False)
}


def choose_by_intent(turn: Turn, deps: Deps, gate: IntentGate) -> Plan:
    """Pick how this turn becomes retrieval input. No I/O, no chat model; about a millisecond.

    A short message that replies to the assistant goes to the text resolver. Otherwise the gate decides:
    `coref` asks the reference resolver while the visitor's own words are searched; the other ways are the
    engine's business, which is told of them. Whatever is resolved, the visitor's own words are searched
    beside it: a short reply may be a keyword query that needed nothing.
    """
    if should_resolve(turn.query) and is_reply(turn):
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


def is_reply(turn: Turn) -> bool:
    """Whether a message answers what the assistant said last, which asked or offered something.

    A message that begins with a yes or a no answers in any case. Two words after a statement are a
    keyword query: completed from the conversation they found less than as written (`docs/engine.md`).
    """
    if not turn.messages:
        return False
    last, reply = turn.messages[-1], words(turn.query)
    said = URL.sub(" ", last.content[-LAST_CHARS:])
    if last.role == "assistant" and any(mark in said for mark in QUESTION_MARKS):
        return True
    lexicon = lexicon_of([], words(last.content)) or lexicon_of(reply)
    if lexicon is None:
        return False
    answer = " ".join(folded_words(reply))
    if any(pattern.match(answer) for kind, pattern in lexicon.reply.items() if kind in ("yes", "no")):
        return True
    return last.role == "assistant" and bool(lexicon.offer.search(folded(said)))


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
