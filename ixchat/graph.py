"""Builds the graphs, and what they need, from configuration. Nothing else in `ixchat` builds anything,
but for `ixchat.understanding`, which is asked here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from langchain_core.messages import AIMessage
from langgraph.config import get_config
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from ixchat.chat_routing import chat_model
from ixchat.engine import open_engine
from ixchat.late_profiles import LateProfiles
from ixchat.nodes.ahead import AheadBudget
from ixchat.nodes.answer import write_answer
from ixchat.nodes.deps import Resolvers
from ixchat.nodes.knowledge_retriever import Deps, OneTenant, Tenants, retrieval_node
from ixchat.state import (
    ChatContext,
    ChatState,
    RetrievalInput,
    RetrievalOutput,
    RetrievalState,
    chat_context,
)
from ixchat.tenants import OpenTenant, TenantRegistry
from ixchat.understanding import memory_text_resolver, open_understanding
from ixchat.utils.anaphora import resolve_anaphora
from ixchat.utils.local.cascade import ask_when_unsure
from ixchat.utils.local.resolver import LocalResolver
from ixchat.utils.query_intent import resolve_search_query
from ixchat.utils.query_keywords import build_keyword_query, resolve_reference
from ixchat.utils.rationed import rationed
from ixchat.utils.resolution import Resolver
from ixinfra.config.settings import ModelsConfig, Settings
from ixinfra.embeddings import Embedder, build_embedder
from ixinfra.errors import UnknownTenantError
from ixinfra.tracing import Tracer, build_tracer
from ixrag.lightrag.knowledge_base import KnowledgeBase, build_knowledge_base, open_knowledge_base
from ixrag.lightrag.langgraph_retriever import LightRAGRetriever
from ixrag.query.given_vectors import GivenVectors
from ixrag.query.rewrite_cache import RewriteCache
from ixrag.sample import SAMPLE_NAME, sample_corpus

DEADLINE_MARGIN_S = 0.05  # the route's own limit comes first; the node's is for a resolver that ignores it

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

    async def retrieval(state: RetrievalInput, runtime: Runtime[ChatContext]) -> RetrievalOutput:
        return await retrieval_node(state, runtime, tenants=tenants, config=get_config())

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

    async def answer(state: ChatState, runtime: Runtime[ChatContext]) -> dict[str, Any]:
        context = chat_context(runtime.context)
        async with tenants.lend(context.tenant_id) as tenant:
            with tenant.tracer.turn(
                session_id=context.session_id,
                tenant_id=tenant.tenant_id,
                user_id=context.user_id,
                trace_id=(state.get("retrieval") or {}).get("trace_id", ""),
                config=get_config(),
            ):
                message = await write_answer(
                    state["messages"], state.get("documents", []), tenant, emit=runtime.stream_writer
                )
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


@asynccontextmanager
async def open_tenants(
    settings: Settings,
    *,
    tracer: Tracer | None = None,
    max_open: int = 8,
    announce: Callable[[str], None] | None = None,
) -> AsyncIterator[TenantRegistry]:
    """The configured tenants, each opened when a turn first needs it, all closed at the end.

    Args:
        settings: What `get_config` read.
        tracer: Where spans go; default is what `settings.tracing` says.
        max_open: How many tenants stay open at once.
        announce: Told what takes long, such as the first build of the sample knowledge base.
    """
    embedder = build_embedder(settings.embedding)
    spans = tracer or build_tracer(settings.tracing, environment=settings.env)
    registry = TenantRegistry(
        partial(open_tenant, settings, embedder=embedder, tracer=spans, announce=announce), max_open
    )
    try:
        yield registry
    finally:
        await registry.close()
        if tracer is None:
            await asyncio.to_thread(spans.close)


async def open_tenant(
    settings: Settings,
    tenant_id: str,
    *,
    embedder: Embedder,
    tracer: Tracer,
    announce: Callable[[str], None] | None = None,
) -> OpenTenant:
    """Open one tenant's knowledge base and wire its resolvers.

    The bundled sample is built on first use; any other knowledge base must have been built.

    Raises:
        UnknownTenantError: The configuration has no such tenant.
        ConfigError: A model route cannot be built.
        KnowledgeBaseError: The knowledge base cannot be opened.
    """
    tenant = settings.tenants.get(tenant_id)
    if tenant is None:
        raise UnknownTenantError(
            f"unknown tenant {tenant_id!r}; {settings.env}.toml has {sorted(settings.tenants)}"
        )
    models = settings.models
    plain_embedder = embedder
    if "hyde" in tenant.passage_forms:
        embedder = GivenVectors(embedder)
    understanding = await asyncio.to_thread(open_understanding, settings, tenant_id, embedder)
    from_memory = memory_text_resolver(settings) if settings.query_rewriter.strategy == "memory" else None
    base = await _open_knowledge_base(settings, tenant.knowledge_base, embedder, announce)
    retriever = LightRAGRetriever(
        knowledge_base=base,
        rag_mode=tenant.rag_mode,
        tenant_id=tenant_id,
        company_name=tenant.company_name,
    )
    profiles = LateProfiles(base)
    local = local_resolvers(settings, base, profiles)
    routed = build_resolvers(models, local)
    deps = Deps(
        understanding.around(retriever) if understanding else retriever,
        text_resolver=from_memory or routed.text,
        keyword_resolver=routed.keywords,
        reference_resolver=routed.reference,
        enabled=settings.query_rewriter.enabled,
        tenant_id=tenant_id,
        company_name=tenant.company_name,
        language=tenant.language,
        tracer=tracer,
        local=local,
        foresee=None if routed.reference == local.reference else local.reference,
        ahead=AheadBudget(settings.query_rewriter.ahead_share),
        fused=settings.query_rewriter.fused,
        answer_model=chat_model(models, "answer"),
        short_reply_deadline_s=models.query_rewriter.timeout_s + DEADLINE_MARGIN_S,
        reference_deadline_s=models.query_reference.timeout_s + DEADLINE_MARGIN_S,
    )

    async def close() -> None:
        await profiles.close()
        await base.close()
        if understanding:
            await understanding.close()

    if models.query_reference.is_learned:
        try:
            await profiles.start()
        except BaseException:
            await close()
            raise
    if tenant.retriever == "hybrid":
        return await _on_engine(OpenTenant(deps, close), settings, base, plain_embedder, announce)
    return OpenTenant(deps, close, base.is_newest)


async def _on_engine(
    tenant: OpenTenant,
    settings: Settings,
    base: KnowledgeBase,
    embedder: Embedder,
    announce: Callable[[str], None] | None,
) -> OpenTenant:
    """The tenant with the hybrid engine in place of LightRAG; its knowledge base still knows the names."""
    try:
        engine = await open_engine(settings, tenant.deps.tenant_id, base, embedder, announce)
    except BaseException:
        await tenant.close()
        raise
    route = settings.models.query_reference
    checker = chat_model(settings.models, "query_reference")
    reference = tenant.deps.reference_resolver
    if checker:
        keep_s = settings.query_understanding.cache_ttl_s
        cache = RewriteCache(engine.cache, keep_s) if engine.cache else None
        reference = partial(resolve_anaphora, model=checker, timeout_s=route.timeout_s, cache=cache)
        reference = rationed(reference, engine.quota)
        if route.asks_rules_first and tenant.deps.local:
            reference = ask_when_unsure(tenant.deps.local.reference, reference, ask_below=route.ask_below)

    async def close() -> None:
        await engine.close()
        await tenant.close()

    deps = replace(
        tenant.deps,
        retriever=engine.retriever,
        gate=engine.gate,
        weigh=engine.weigh,
        reference_resolver=reference,
    )
    return OpenTenant(deps, close)


def local_resolvers(settings: Settings, base: KnowledgeBase, profiles: LateProfiles) -> Resolvers:
    """The resolvers that need no model: rules, learned weights, and what the knowledge base says of its names."""
    learned = settings.models.query_reference.is_learned
    local = LocalResolver(base.name_index, learned=learned, profiles=profiles)
    return Resolvers(text=local.search_query, keywords=local.keyword_query, reference=local.reference)


def build_resolvers(models: ModelsConfig, local: Resolvers) -> Resolvers:
    """The resolvers of one tenant, by the routes; those of a local route are `local`'s.

    Raises:
        ConfigError: A model route cannot be built.
    """
    rewriter, checker = chat_model(models, "query_rewriter"), chat_model(models, "query_reference")
    reply_s, check_s = models.query_rewriter.timeout_s, models.query_reference.timeout_s
    if rewriter is not None:
        local = replace(
            local,
            text=partial(resolve_search_query, model=rewriter, timeout_s=reply_s),
            keywords=partial(build_keyword_query, model=rewriter, timeout_s=reply_s),
        )
    if checker is not None:
        reference: Resolver = partial(resolve_reference, model=checker, timeout_s=check_s)
        if models.query_reference.asks_rules_first:
            reference = ask_when_unsure(
                local.reference, reference, ask_below=models.query_reference.ask_below
            )
        local = replace(local, reference=reference)
    return local


async def _open_knowledge_base(
    settings: Settings, name: str, embedder: Embedder, announce: Callable[[str], None] | None
) -> KnowledgeBase:
    if name == SAMPLE_NAME:
        if announce:
            announce(f"opening the sample knowledge base {SAMPLE_NAME!r} (built on first use)")
        await build_knowledge_base(
            sample_corpus(),
            SAMPLE_NAME,
            config=settings.lightrag,
            embedder=embedder,
            database=settings.vector_database,
        )
    return await open_knowledge_base(
        name,
        config=settings.lightrag,
        embedder=embedder,
        database=settings.vector_database,
        keyword_model=chat_model(settings.models, "lightrag_keyword"),
        keyword_timeout_s=settings.models.lightrag_keyword.timeout_s,
    )


def _after_retrieval(state: Mapping[str, Any]) -> Literal["answer", "redirect"]:
    return "redirect" if state.get("redirect") is not None else "answer"


def _tenants(deps: Deps | Tenants) -> Tenants:
    return OneTenant(deps) if isinstance(deps, Deps) else deps
