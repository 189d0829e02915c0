"""Arms of the hybrid engine: the whole, the whole less one part, and each index alone.

They need a tenant whose `retriever` is "hybrid": `rose-eval … --tenant NAME`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ixchat.nodes.knowledge_retriever import Plan, choose, keep_because
from ixchat.utils.resolution import Turn
from ixinfra.errors import ConfigError
from ixrag.search.engine import HybridRetriever
from ixrag.search.index import Channel
from ixrag.search.rerank import FusedOrder

if TYPE_CHECKING:
    from ixevaluation.rewriter.arms import Arm, ArmDeps

DEADLINE_S = 10.0  # an evaluation waits longer than a visitor: it measures words, not deadlines


def engine(turn: Turn, deps: ArmDeps) -> Plan:
    """The engine as it ships: gate, resolver, missing words, other forms, fusion, last order."""
    _engine_of(deps)
    if deps.gate is None:
        raise ConfigError("arm 'engine' needs the intent gate of a tenant with retriever = 'hybrid'")
    return choose(turn, replace(deps, enabled=True))


def engine_no_gate(turn: Turn, deps: ArmDeps) -> Plan:
    """Everything for everyone: every follow-up asks the resolver, every message is split where it can be."""
    if not turn.messages:
        return replace(keep_because("first_turn"), retriever=_engine_of(deps).with_strategy("decompose"))
    retriever = _engine_of(deps).with_strategy("coref_decompose")
    return Plan(
        deps.reference_resolver, "reference", "tool-query-reference", True, DEADLINE_S, retriever=retriever
    )


def engine_passthrough(turn: Turn, deps: ArmDeps) -> Plan:
    """The visitor's own words, fused and put in the last order."""
    return replace(keep_because("gate_declined"), retriever=_engine_of(deps).with_strategy("passthrough"))


def rrf_alone(turn: Turn, deps: ArmDeps) -> Plan:
    """The visitor's own words, fused by reciprocal rank and nothing more."""
    retriever = replace(_engine_of(deps), strategy="passthrough", reranker=FusedOrder())
    return replace(keep_because("gate_declined"), retriever=retriever)


def one_index(channel: Channel) -> Arm:
    """The visitor's own words in one index."""

    def plan(turn: Turn, deps: ArmDeps) -> Plan:
        retriever = replace(
            _engine_of(deps), strategy="passthrough", channels=(channel,), reranker=FusedOrder()
        )
        return replace(keep_because("gate_declined"), retriever=retriever)

    plan.__doc__ = f"The visitor's own words in the index {channel!r} alone."
    return plan


ENGINE_ARMS: Mapping[str, Arm] = {
    "engine": engine,
    "engine-no-gate": engine_no_gate,
    "engine-passthrough": engine_passthrough,
    "rrf": rrf_alone,
    "dense-only": one_index("dense"),
    "sparse-only": one_index("sparse"),
    "bm25-only": one_index("bm25"),
}


def _engine_of(deps: ArmDeps) -> HybridRetriever:
    if not isinstance(deps.retriever, HybridRetriever):
        raise ConfigError(
            "the arms of the engine need a tenant with retriever = 'hybrid': set it in the environment's TOML"
        )
    return deps.retriever
