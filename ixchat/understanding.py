"""Builds query understanding and the working-memory resolver from configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit, urlunsplit

from langchain_core.language_models import BaseChatModel

from ixchat.chat_routing import chat_model, is_local
from ixchat.utils.memory_recall import recall_from_store
from ixchat.utils.memory_rewriter import MAX_OUTPUT_TOKENS, Recall, memory_resolver
from ixchat.utils.resolution import Resolver
from ixinfra.config.settings import QueryUnderstandingConfig, Settings, TenantConfig
from ixinfra.embeddings import Embedder
from ixinfra.errors import ConfigError
from ixinfra.llm import build_chat_model
from ixrag.lightrag.langgraph_retriever import LightRAGRetriever
from ixrag.query.cache import Cache, MemoryCache, RedisCache, open_redis_cache
from ixrag.query.context import QueryContext
from ixrag.query.decomposer import HeuristicQueryDecomposer, LLMQueryDecomposer
from ixrag.query.forms import COMPONENTS, Component, Wanted
from ixrag.query.glossary import GlossaryExpander, InMemoryGlossary
from ixrag.query.glossary_files import load_glossary_of
from ixrag.query.hyde import HyDEGenerator
from ixrag.query.near import NamesIn, NearQueries
from ixrag.query.retriever import UnderstandingRetriever, lightrag_channels
from ixrag.query.rewriter import LLMQueryRewriter
from ixrag.query.understanding import QueryUnderstandingPipeline

CACHE_TIMEOUT_S = 0.1
NEEDS_MODEL: tuple[Component, ...] = ("rewriter", "hyde")


@dataclass(frozen=True, slots=True)
class Understanding:
    """One tenant's query understanding.

    Attributes:
        pipeline: The components that some channel wants.
        wanted: Which component's forms each channel is searched with.
        ctx: Tenant and language.
        cache: Closed by `close`; None for none.
    """

    pipeline: QueryUnderstandingPipeline
    wanted: Wanted
    ctx: QueryContext
    cache: Cache | None = None

    def around(self, retriever: LightRAGRetriever) -> UnderstandingRetriever:
        """The retriever that searches the other forms beside the query."""
        return UnderstandingRetriever(
            retriever, lightrag_channels(retriever), self.pipeline, self.wanted, self.ctx
        )

    async def close(self) -> None:
        """Close the cache's connections."""
        if isinstance(self.cache, RedisCache):
            await self.cache.close()


def open_understanding(settings: Settings, tenant_id: str, embedder: Embedder) -> Understanding | None:
    """What a tenant's TOML asks for; None where it wants no other form, or the rewriter is switched off.

    Raises:
        ConfigError: A wanted component lacks its model or glossary, or a file is wrong.
    """
    tenant = settings.tenants[tenant_id]
    wanted = wanted_by(tenant)
    components = {component for channel in wanted.values() for component in channel}
    if not components or not settings.query_rewriter.enabled:
        return None
    model = chat_model(settings.models, "query_understanding")
    for component in NEEDS_MODEL:
        if component in components and model is None:
            raise ConfigError(
                f"tenants.{tenant_id} wants {component!r}, which needs a chat model: set "
                f"models.query_understanding.model to 'provider:name'"
            )
    config = settings.query_understanding
    if "glossary" in components and config.glossary_dir is None:
        raise ConfigError(f"tenants.{tenant_id} wants 'glossary': set query_understanding.glossary_dir")
    cache = open_cache(config)
    pipeline = build_pipeline(
        config,
        [component for component in COMPONENTS if component in components],
        model=model,
        embedder=embedder,
        glossary=load_glossary_of(tenant_id, config.glossary_dir) if config.glossary_dir else None,
        cache=cache,
        near=open_near(config, cache, embedder),
    )
    return Understanding(pipeline, wanted, QueryContext(tenant_id, tenant.language), cache)


def wanted_by(tenant: TenantConfig) -> Wanted:
    """Which components' forms each of the tenant's channels is searched with."""
    graph = () if tenant.rag_mode == "naive" else tenant.graph_forms
    return {"dense": tenant.passage_forms, "graph": graph}


def build_pipeline(
    config: QueryUnderstandingConfig,
    components: list[Component],
    *,
    model: BaseChatModel | None,
    embedder: Embedder | None = None,
    glossary: GlossaryExpander | None = None,
    cache: Cache | None = None,
    near: NearQueries | None = None,
    grace_s: float = 0.05,
) -> QueryUnderstandingPipeline:
    """A pipeline of these components; those that need a model are left out without one.

    Questions are split by the model where there is one, else by rules. Remembered paraphrases are void once
    the glossary changes, whether or not it is a component: both say what a tenant's words mean.
    """
    asks = model if "rewriter" in components else None
    writes = model if "hyde" in components else None
    splitter = LLMQueryDecomposer(model) if model else HeuristicQueryDecomposer()
    return QueryUnderstandingPipeline(
        rewriter=LLMQueryRewriter(
            asks,
            cache=cache,
            cache_ttl_s=config.cache_ttl_s,
            near=near,
            depends_on=[glossary.version] if isinstance(glossary, InMemoryGlossary) else (),
        )
        if asks
        else None,
        decomposer=splitter if "decomposer" in components else None,
        glossary=glossary if "glossary" in components else None,
        hyde=HyDEGenerator(
            writes,
            embedder,
            n=config.hyde_documents,
            embedding_cache=cache if embedder else None,
            embedding_ttl_s=config.cache_ttl_s,
        )
        if writes
        else None,
        rewrite_n=config.rewrites,
        timeout_s=config.timeout_s,
        grace_s=grace_s,
    )


def open_cache(
    config: QueryUnderstandingConfig,
    environ: Mapping[str, str] = os.environ,
    *,
    timeout_s: float = CACHE_TIMEOUT_S,
) -> Cache | None:
    """The cache that is configured; a Redis server is connected when it is first asked.

    Args:
        config: Which cache.
        environ: Where the server's password is looked up.
        timeout_s: Longest wait for one call to a server; after it the server is left alone for a while.

    Raises:
        ConfigError: The variable of the server's password is named and not set, or its address is wrong.
        MissingExtraError: The redis package is not installed.
    """
    if config.cache == "memory":
        return MemoryCache()
    if config.cache == "none" or config.cache_url is None:
        return None
    try:
        return open_redis_cache(_with_password(config, environ), timeout_s=timeout_s)
    except ValueError as error:
        raise ConfigError(f"query_understanding.cache_url: {config.cache_url!r}: {error}") from None


def open_near(
    config: QueryUnderstandingConfig,
    cache: Cache | None,
    embedder: Embedder | None,
    names: NamesIn = lambda _text: (),
) -> NearQueries | None:
    """What finds remembered answers by meaning; None where nothing is remembered or only equal words count."""
    if cache is None or embedder is None or config.cache_likeness == 1:
        return None
    shared = cache if isinstance(cache, RedisCache) else None
    return NearQueries(embedder, at_least=config.cache_likeness, names=names, shared=shared)


def memory_text_resolver(settings: Settings, recall: Recall | None = None) -> Resolver:
    """The text resolver of `query_rewriter.strategy = "memory"`.

    Args:
        settings: What `get_config` read.
        recall: Finds a thread's memory; default is the store of the LangGraph run.

    Raises:
        ConfigError: `models.query_rewriter` is no chat model, or cannot be built.
    """
    route = settings.models.query_rewriter
    if is_local(route):
        raise ConfigError(
            "query_rewriter.strategy 'memory' needs a chat model: set models.query_rewriter.model to 'provider:name'"
        )
    roomy = route.model_copy(update={"max_tokens": max(route.max_tokens, MAX_OUTPUT_TOKENS)})
    return memory_resolver(
        build_chat_model(roomy, where="models.query_rewriter"),
        recall or recall_from_store(),
        enabled=settings.query_rewriter.enabled,
        timeout_s=route.timeout_s,
    )


def _with_password(config: QueryUnderstandingConfig, environ: Mapping[str, str]) -> str:
    url, name = config.cache_url or "", config.cache_password_env
    if name is None:
        return url
    password = environ.get(name, "")
    if not password:
        raise ConfigError(f"query_understanding.cache_password_env: set the environment variable {name}")
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}"))
