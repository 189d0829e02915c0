"""Arms that search more forms of the message: the shipping policy with components of query understanding.

Each resolves the turn as production does, then searches what production would, and every form beside it.
Where the turn resolves, the visitor's own words are searched too; `own-words` does that alone, so that it
can be told apart from what a component adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from langchain_core.language_models import BaseChatModel

from ixchat.nodes.knowledge_retriever import Plan, choose
from ixchat.understanding import NEEDS_MODEL, build_pipeline
from ixchat.utils.history import format_history
from ixchat.utils.memory_rewriter import WorkingMemory, rewrite_with_memory
from ixchat.utils.resolution import Resolution, Turn
from ixinfra.config.settings import QueryUnderstandingConfig
from ixinfra.errors import ConfigError
from ixrag.documents import Retriever
from ixrag.lightrag.langgraph_retriever import LightRAGRetriever
from ixrag.query.context import QueryContext
from ixrag.query.forms import COMPONENTS, Channel, Component, Wanted
from ixrag.query.retriever import (
    SearchIn,
    UnderstandingRetriever,
    lightrag_channels,
    without_forms,
)

if TYPE_CHECKING:
    from ixevaluation.rewriter.arms import Arm, ArmDeps

DEADLINE_S = 10.0  # an evaluation waits longer than a visitor: it measures words, not deadlines
LIMITS = QueryUnderstandingConfig(timeout_s=DEADLINE_S, cache="none")


def understanding_arm(name: str, *components: Component) -> Arm:
    """Production, with these components' forms searched beside its query."""

    def plan(turn: Turn, deps: ArmDeps) -> Plan:
        model = _model_for(name, components, deps)
        retriever = without_forms(deps.retriever)
        pipeline = build_pipeline(
            LIMITS,
            list(components),
            model=model,
            embedder=deps.embedder,
            glossary=deps.glossary,
        )
        around = UnderstandingRetriever(
            retriever,
            _search_in(retriever),
            pipeline,
            _wanted(retriever, components),
            QueryContext(deps.tenant_id),
        )
        return replace(own_words(turn, deps), retriever=around)

    plan.__doc__ = f"Production, and beside its query the forms of: {', '.join(components)}."
    return plan


def own_words(turn: Turn, deps: ArmDeps) -> Plan:
    """Production, and the visitor's own words beside every resolved text."""
    return replace(choose(turn, deps), keep_own_words=True)


def memory(turn: Turn, deps: ArmDeps) -> Plan:
    """Rewrite every follow-up from a working memory, which here is the conversation itself."""
    if deps.model is None:
        raise _needs_model("memory")
    model = deps.model

    async def resolve(turn: Turn) -> Resolution:
        summary = format_history(turn.messages)
        return await rewrite_with_memory(turn, model, WorkingMemory(summary), timeout_s=DEADLINE_S)

    if not turn.messages:
        return choose(turn, deps)
    return Plan(resolve, "intent", "tool-query-intent", False, DEADLINE_S)


UNDERSTANDING_ARMS: Mapping[str, Arm] = {
    "own-words": own_words,
    "multi-query": understanding_arm("multi-query", "rewriter"),
    "decompose": understanding_arm("decompose", "decomposer"),
    "glossary": understanding_arm("glossary", "glossary"),
    "hyde-avg": understanding_arm("hyde-avg", "hyde"),
    "memory": memory,
    "understand": understanding_arm("understand", *COMPONENTS),
}


def _search_in(retriever: Retriever) -> SearchIn:
    """Every channel of the retriever; an engine that has one alone searches every form in it."""
    if isinstance(retriever, LightRAGRetriever):
        return lightrag_channels(retriever)
    return lambda _channels: retriever


def _wanted(retriever: Retriever, components: tuple[Component, ...]) -> Wanted:
    if not isinstance(retriever, LightRAGRetriever):
        return {"lexical": components}
    graph = tuple(component for component in components if component != "hyde")
    wanted: dict[Channel, tuple[Component, ...]] = {"dense": components}
    return wanted if retriever.rag_mode == "naive" else wanted | {"graph": graph}


def _channels_of(retriever: Retriever) -> SearchIn:
    return (
        lightrag_channels(retriever)
        if isinstance(retriever, LightRAGRetriever)
        else lambda _channels: retriever
    )


def _model_for(name: str, components: tuple[Component, ...], deps: ArmDeps) -> BaseChatModel | None:
    """The model, which only `understand` does without: it is the arm of everything that is there."""
    if deps.model is None and name != "understand" and any(part in NEEDS_MODEL for part in components):
        raise _needs_model(name)
    return deps.model


def _needs_model(arm: str) -> ConfigError:
    return ConfigError(
        f"arm {arm!r} needs a chat model: set [models.query_rewriter] model in the environment's TOML"
    )
