"""Opens what a set is run on: the product on real LightRAG, or the lexical index of an imported set."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal, get_args

from langchain_core.language_models import BaseChatModel
from pydantic import ValidationError

from ixchat.chat_routing import ROUTE_NAMES, chat_model, route_of
from ixchat.graph import build_resolvers, open_tenant
from ixchat.nodes.deps import Resolvers
from ixchat.nodes.knowledge_retriever import Deps
from ixchat.utils.local.learned import WordWeigher
from ixchat.utils.local.resolver import LocalResolver
from ixchat.utils.query_intent import resolve_search_query
from ixchat.utils.query_keywords import build_keyword_query
from ixevaluation.dataset import Item, ItemSet, Passage, content_hash
from ixevaluation.lexical import LexicalIndex, LexicalRetriever
from ixevaluation.rewriter.arms import ArmDeps
from ixevaluation.rewriter.judge import JUDGE_TIMEOUT_S
from ixinfra.config.settings import ModelRoute, RagMode, Settings
from ixinfra.embeddings import Embedder, build_embedder
from ixinfra.errors import ConfigError
from ixinfra.llm import build_chat_model
from ixinfra.tracing import NO_TRACER
from ixrag.lightrag.knowledge_base import KnowledgeBase
from ixrag.lightrag.langgraph_retriever import LightRAGRetriever
from ixrag.query.given_vectors import GivenVectors
from ixrag.query.glossary import GlossaryExpander, InMemoryGlossary
from ixrag.query.glossary_files import load_glossary_of
from ixrag.query.retriever import without_forms
from ixrag.rarity import Rarity
from ixrag.sample import SAMPLE_NAME, sample_corpus
from ixrag.search.engine import HybridRetriever

EngineName = Literal["lightrag", "hybrid", "lexical"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
DEFAULT_TENANT = "advanced"
JUDGE_MAX_TOKENS = 200


@dataclass(frozen=True, slots=True)
class Engine:
    """What items are searched in.

    Attributes:
        name: Which engine.
        rag_mode: Channels the product believes it has.
        knowledge_base: Name and version of what is searched.
        deps_for: Live objects for an item.
        models: Route to the model it names.
    """

    name: EngineName
    rag_mode: RagMode
    knowledge_base: str
    deps_for: Callable[[Item], ArmDeps]
    models: dict[str, str]


@asynccontextmanager
async def open_engine(
    item_set: ItemSet,
    settings: Settings,
    *,
    name: EngineName | None = None,
    rag_mode: RagMode | None = None,
    tenant: str = DEFAULT_TENANT,
    announce: Callable[[str], None] = lambda _text: None,
) -> AsyncIterator[Engine]:
    """Open the engine of a set and close it at the end.

    Args:
        item_set: A set with passages of its own is searched lexically, any other in LightRAG.
        settings: What `get_config` read.
        name: Overrides that choice; LightRAG or the hybrid engine, the tenant's configuration says.
        rag_mode: Forces a mode; default is the tenant's own, and `mix` for the lexical index.
        tenant: Whose knowledge base and tier are used with LightRAG.
        announce: Told what takes long.

    Raises:
        ConfigError, DatasetError, KnowledgeBaseError: It cannot be opened as asked.
    """
    chosen = name or ("lexical" if item_set.passages_path else "lightrag")
    if chosen == "lexical":
        announce(f"indexing the passages of {item_set.name}")
        yield _lexical(item_set, settings, rag_mode or "mix")
        return
    plain = build_embedder(settings.embedding)
    embedder = GivenVectors(plain)
    on_hybrid = tenant in settings.tenants and settings.tenants[tenant].retriever == "hybrid"
    opened = await open_tenant(
        settings, tenant, embedder=plain if on_hybrid else embedder, tracer=NO_TRACER, announce=announce
    )
    try:
        if isinstance(opened.deps.retriever, HybridRetriever):
            yield _hybrid(opened.deps, opened.deps.retriever, settings)
        else:
            yield _lightrag(opened.deps, settings, rag_mode, embedder)
    finally:
        await opened.close()


def _lightrag(deps: Deps, settings: Settings, rag_mode: RagMode | None, embedder: Embedder) -> Engine:
    retriever = without_forms(deps.retriever)  # what is searched beside the query is the arms' business
    if not isinstance(retriever, LightRAGRetriever):
        raise ConfigError(f"expected a LightRAG tenant, got {type(retriever).__name__}")
    base = retriever.knowledge_base
    mode = rag_mode or retriever.rag_mode
    arm_deps = _arm_deps(
        deps,
        settings,
        local=LocalResolver(base.name_index),
        retriever=retriever.model_copy(update={"rag_mode": mode}),
        rarity=_rarity(base),
        embedder=embedder,
        glossary=_glossary(settings, deps.tenant_id, base),
    )
    return Engine(
        "lightrag", mode, f"{base.name}:{base.manifest.workspace}", lambda _item: arm_deps, _models(settings)
    )


def _hybrid(deps: Deps, retriever: HybridRetriever, settings: Settings) -> Engine:
    """A tenant on the hybrid engine; its whole is searched in the deadline that visitors have."""
    arm_deps = _arm_deps(deps, settings, local=LocalResolver(), retriever=retriever)
    version = f"{retriever.partition}:{retriever.encoders.model_id}"
    return Engine("hybrid", retriever.rag_mode, version, lambda _item: arm_deps, _models(settings))


def _lexical(item_set: ItemSet, settings: Settings, mode: RagMode) -> Engine:
    by_domain: dict[str, list[Passage]] = {}
    for passage in item_set.passages():
        by_domain.setdefault(passage.domain, []).append(passage)
    local = LocalResolver()
    free = Resolvers(local.search_query, local.keyword_query, local.reference)
    routed = build_resolvers(settings.models, free)
    deps: dict[str, ArmDeps] = {}
    for domain, passages in by_domain.items():
        index = LexicalIndex(passages)
        retriever = LexicalRetriever(index, rag_mode=mode)
        weigh = None
        if settings.models.query_reference.is_learned:
            weigh = WordWeigher(Rarity.of(passage.text for passage in passages), retriever)
        plain = Deps(
            retriever,
            weigh=weigh,
            text_resolver=routed.text,
            keyword_resolver=routed.keywords,
            reference_resolver=routed.reference,
            enabled=settings.query_rewriter.enabled,
            tenant_id=item_set.name,
            local=free,
            reference_deadline_s=settings.models.query_reference.timeout_s,
            short_reply_deadline_s=settings.models.query_rewriter.timeout_s,
        )
        deps[domain] = _arm_deps(plain, settings, local=local, rarity=index.rarity)
    version = content_hash(sorted((p.id, p.text) for group in by_domain.values() for p in group))
    return Engine(
        "lexical", mode, f"{item_set.name}:{version[:12]}", lambda item: deps[item.domain], _models(settings)
    )


def _arm_deps(deps: Deps, settings: Settings, *, local: LocalResolver, **changes: Any) -> ArmDeps:
    """The shipping dependencies with what evaluation arms need on top."""
    model = chat_model(settings.models, "query_rewriter")
    values = {field.name: getattr(deps, field.name) for field in fields(Deps)}
    return ArmDeps(
        **{
            **values,
            "model": model,
            "names": local.index,
            "ungated_text": partial(resolve_search_query, model=model, gated=False)
            if model
            else local.search_query,
            "ungated_keywords": partial(build_keyword_query, model=model, gated=False)
            if model
            else local.keyword_query,
            **changes,
        }
    )


def _glossary(settings: Settings, tenant_id: str, base: KnowledgeBase) -> GlossaryExpander:
    """The tenant's glossary; without one, the other names of each entity of the knowledge base."""
    folder = settings.query_understanding.glossary_dir
    if folder is not None:
        return load_glossary_of(tenant_id, folder)
    return InMemoryGlossary({name.name: list(name.aliases) for name in base.names})


def _rarity(base: KnowledgeBase) -> Callable[[str], float]:
    """Word statistics of the texts; of titles and names alone where the texts are LightRAG's."""
    if base.name == SAMPLE_NAME:
        texts = [passage.content for passage in sample_corpus().passages]
    else:
        texts = [
            *(info.title for info in base.catalog.passages.values()),
            *(name.name for name in base.names),
        ]
    return LexicalIndex([Passage(id=str(number), text=text) for number, text in enumerate(texts)]).rarity


def _models(settings: Settings) -> dict[str, str]:
    models: dict[str, str] = {name: route_of(settings.models, name).model for name in ROUTE_NAMES}
    return models | {"embedding": settings.embedding.model}


def open_judge_model(spec: str, base_url: str | None) -> BaseChatModel:
    """The chat model of the sufficiency judge.

    Args:
        spec: `provider:name`, as in the model routes.
        base_url: Server that speaks the provider's protocol; None for the provider itself.

    Raises:
        ConfigError: Not a route, or the API key is missing.
    """
    try:
        route = ModelRoute(
            model=spec, base_url=base_url, timeout_s=JUDGE_TIMEOUT_S, max_tokens=JUDGE_MAX_TOKENS
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ConfigError(f"--judge-model {spec!r}: {first['msg']}") from None
    return build_chat_model(route, where="--judge-model")
