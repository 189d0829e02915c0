"""Builds the graphs, and what they need, from configuration. Nothing else in `ixchat` builds anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from ixchat.nodes.answer import write_answer
from ixchat.nodes.knowledge_retriever import Deps, OneTenant, Tenants, retrieval_node
from ixchat.state import (
    ChatContext,
    ChatState,
    RetrievalInput,
    RetrievalOutput,
    RetrievalState,
    chat_context,
)

RetrievalGraph = CompiledStateGraph[RetrievalState, ChatContext, RetrievalInput, RetrievalOutput]
ChatGraph = CompiledStateGraph[ChatState, ChatContext, RetrievalInput, ChatState]


def build_retrieval_graph(deps: Deps | Tenants) -> RetrievalGraph:
    """The retrieval subgraph: messages in, documents and decision record out.

    Use it as a node of a parent graph that shares the state keys, or call it inside a node of any
    graph. It runs with `ainvoke` and `astream`; there is no synchronous path.

    Args:
        deps: One tenant's live objects, or a `Tenants` that lends them by `ChatContext.tenant_id`.
    """
    tenants = _tenants(deps)

    async def retrieval(
        state: RetrievalInput, runtime: Runtime[ChatContext], config: RunnableConfig
    ) -> RetrievalOutput:
        return await retrieval_node(state, runtime, tenants=tenants, config=config)

    graph = StateGraph(
        RetrievalState, ChatContext, input_schema=RetrievalInput, output_schema=RetrievalOutput
    )
    graph.add_node("retrieval_node", retrieval)
    graph.add_edge(START, "retrieval_node")
    return graph.compile(name="ixchat_retrieval")


def build_chat_graph(deps: Deps | Tenants, *, checkpointer: Any = None) -> ChatGraph:
    """A whole chat turn: retrieval, then the answer, unless `Deps.redirect` ends the turn first.

    Args:
        deps: As for `build_retrieval_graph`.
        checkpointer: Any LangGraph checkpointer, for conversations that outlive a run.
    """
    tenants = _tenants(deps)

    async def answer(state: ChatState, runtime: Runtime[ChatContext], config: RunnableConfig) -> dict[str, Any]:
        context = chat_context(runtime.context)
        async with tenants.lend(context.tenant_id) as tenant:
            with tenant.tracer.turn(
                session_id=context.session_id,
                tenant_id=tenant.tenant_id,
                user_id=context.user_id,
                config=config,
            ):
                message = await write_answer(state["messages"], state.get("documents", []), tenant)
        return {"messages": [message]}

    async def redirect(state: ChatState) -> dict[str, Any]:
        return {"messages": [AIMessage(state["redirect"] or "")]}

    graph = StateGraph(ChatState, ChatContext, input_schema=RetrievalInput, output_schema=ChatState)
    graph.add_node("retrieval", build_retrieval_graph(deps))
    graph.add_node("answer", answer)
    graph.add_node("redirect", redirect)
    graph.add_edge(START, "retrieval")
    graph.add_conditional_edges("retrieval", _after_retrieval)
    graph.add_edge("answer", END)
    graph.add_edge("redirect", END)
    return graph.compile(name="ixchat_chat", checkpointer=checkpointer)


def _after_retrieval(state: Mapping[str, Any]) -> Literal["answer", "redirect"]:
    return "redirect" if state.get("redirect") is not None else "answer"


def _tenants(deps: Deps | Tenants) -> Tenants:
    return OneTenant(deps) if isinstance(deps, Deps) else deps
