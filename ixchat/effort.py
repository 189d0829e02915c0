"""How much one request may spend on resolution, within the master switch."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

from ixchat.nodes.ahead import AheadBudget
from ixchat.nodes.deps import Deps
from ixrag.documents import Retriever
from ixrag.query.retriever import without_forms
from ixrag.search.engine import HybridRetriever

Effort = Literal["off", "local", "check", "full"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)


def with_effort(deps: Deps, effort: str, budget_s: float = 0.0) -> Deps:
    """The dependencies of one turn, for the effort its request asks for.

    A request can only move below or beside what the configuration allows: where the switch is off, no
    effort turns it on.

    Args:
        deps: The tenant's.
        effort: `off`: the visitor's words. `local`: resolvers without a model. `check`: as configured.
            `full`: as configured, with every guess searched ahead. Anything else counts as `check`: a
            request's typo must not cost a turn.
        budget_s: Longest wait for a resolver, in seconds; 0 keeps the configured deadlines.
    """
    if effort == "off":
        deps = replace(deps, enabled=False, retriever=_alone(deps.retriever))
    elif effort == "local" and deps.local is not None:
        deps = replace(
            deps,
            text_resolver=deps.local.text,
            keyword_resolver=deps.local.keywords,
            reference_resolver=deps.local.reference,
            foresee=None,
            retriever=_alone(deps.retriever),
        )
    elif effort == "full":
        deps = replace(deps, ahead=AheadBudget(1.0, deps.ahead.max_running))
    if budget_s > 0:
        deps = replace(
            deps,
            short_reply_deadline_s=min(deps.short_reply_deadline_s, budget_s),
            reference_deadline_s=min(deps.reference_deadline_s, budget_s),
        )
    return deps


def _alone(retriever: Retriever) -> Retriever:
    """The retriever that searches the query alone."""
    return retriever.without_forms() if isinstance(retriever, HybridRetriever) else without_forms(retriever)
