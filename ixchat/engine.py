"""Opens the hybrid engine of a tenant, as its configuration says; asked by `ixchat.graph` alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ixchat.chat_routing import chat_model
from ixchat.understanding import CACHE_TIMEOUT_S, build_pipeline, open_cache, open_near
from ixchat.utils.intent_gate import IntentGate
from ixchat.utils.local.learned import WordWeigher
from ixchat.utils.resolution import Weigher
from ixinfra.config.settings import EngineConfig, Settings
from ixinfra.embeddings import Embedder
from ixinfra.errors import ConfigError, MissingExtraError
from ixrag.lightrag.knowledge_base import KnowledgeBase
from ixrag.lightrag.known_vectors import KnownVectors, load_known_vectors
from ixrag.query.cache import Cache, RedisCache
from ixrag.query.forms import Component
from ixrag.query.glossary import GlossaryExpander, InMemoryGlossary
from ixrag.query.glossary_files import load_glossary_of
from ixrag.query.understanding import QueryUnderstandingPipeline
from ixrag.rarity import Rarity
from ixrag.sample import SAMPLE_NAME, sample_corpus
from ixrag.search.encoders import Encoders, SparseEncoder, Text
from ixrag.search.engine import HybridRetriever, Limits, Strategy
from ixrag.search.fan_out import Deadline
from ixrag.search.index import Index
from ixrag.search.ingest import ingest
from ixrag.search.parquet import PARQUET, ParquetSink
from ixrag.search.quota import Quota
from ixrag.search.rerank import CrossEncoder, Reranker, ScoreMix
from ixrag.search.telemetry import JsonlSink, RecordSink

COLLECTION = "ix-passages"
FOLDER = "engine"  # beside the LightRAG index of a knowledge base
COUNTED_PASSAGES = 5_000  # enough to tell rare words from common ones
GRACE_S = 0.005  # a variant that is late and will not stop holds the search no longer than this


@dataclass(frozen=True, slots=True)
class OpenEngine:
    """A tenant's engine and its gate; `close` lets go of both."""

    retriever: HybridRetriever
    gate: IntentGate
    quota: Quota
    weigh: Weigher | None = None
    cache: Cache | None = None
    sink: RecordSink | None = None

    async def close(self) -> None:
        """Close index, cache and record file."""
        await self.retriever.index.close()
        if isinstance(self.cache, RedisCache):
            await self.cache.close()
        if self.sink:
            await asyncio.to_thread(self.sink.close)


async def open_engine(
    settings: Settings,
    tenant_id: str,
    base: KnowledgeBase,
    embedder: Embedder,
    announce: Callable[[str], None] | None = None,
) -> OpenEngine:
    """Open the index of a knowledge base, bring it up to date, and wire the engine.

    Args:
        settings: What `get_config` read.
        tenant_id: One of `settings.tenants`, whose `retriever` is "hybrid".
        base: Its knowledge base, open.
        embedder: Embeds queries; makes learned terms as well.
        announce: Told what takes long.

    Raises:
        ConfigError: The embedder has no learned terms, or the storage is neither files nor Qdrant.
        KnowledgeBaseError: The index cannot be opened.
        MissingExtraError: The extra `engine` is not installed.
    """
    if not isinstance(embedder, SparseEncoder):
        raise ConfigError(
            f"tenants.{tenant_id}.retriever 'hybrid' needs an embedder with learned terms; "
            f"{settings.embedding.model!r} has none"
        )
    config, tenant = settings.engine, settings.tenants[tenant_id]
    gate = await asyncio.to_thread(IntentGate)
    index = await _open_index(settings, base.name, embedder.dim)
    try:
        encoders = Encoders(embedder, embedder, tenant.language)
        passages = await _passages_of(base)
        await _bring_up_to_date(index, encoders, base, passages, announce)
        # A server that hangs must leave the model most of the time there is for variants.
        cache_s = min(CACHE_TIMEOUT_S, config.variants_timeout_s / 3)
        cache = open_cache(settings.query_understanding, timeout_s=cache_s)
        sink = await asyncio.to_thread(_open_sink, config)
        quota = Quota(calls=config.model_calls_a_minute, tokens=config.model_tokens_a_minute)
        retriever = HybridRetriever(
            index,
            encoders,
            base.name,
            languages=await index.languages(base.name),
            pipelines=_pipelines(settings, tenant_id, base, embedder, cache),
            tenant_id=tenant_id,
            quota=quota,
            limits=_limits(config, settings.lightrag.chunk_top_k),
            reranker=await asyncio.to_thread(_reranker, config),
            sink=sink,
        )
        weigh = None
        if settings.models.query_reference.is_learned:
            rarity = await asyncio.to_thread(_rarity, passages)
            weigh = WordWeigher(rarity, retriever)
    except BaseException:
        await index.close()
        raise
    return OpenEngine(retriever, gate, quota, weigh, cache, sink)


async def _open_index(settings: Settings, name: str, dim: int) -> Index:
    database = settings.vector_database
    if database.storage == "files":
        from ixrag.search.qdrant_edge import EmbeddedIndex

        return await asyncio.to_thread(EmbeddedIndex, settings.lightrag.working_dir / name / FOLDER, dim)
    if database.storage != "qdrant":
        raise ConfigError(
            f"retriever 'hybrid' keeps its index in files or Qdrant, not in {database.storage!r}; set "
            "vector_database.storage, or retriever = 'lightrag'"
        )
    try:
        from qdrant_client import AsyncQdrantClient
    except ImportError as error:
        raise MissingExtraError(
            "the engine on a server needs qdrant-client: pip install 'ixchat[engine]'"
        ) from error
    from ixrag.search.qdrant import open_server_index

    key = database.api_key.get_secret_value() if database.api_key else None
    client = AsyncQdrantClient(url=database.url, api_key=key, check_compatibility=False)
    return await open_server_index(client, COLLECTION, dim)


async def _bring_up_to_date(
    index: Index,
    encoders: Encoders,
    base: KnowledgeBase,
    passages: Sequence[Text],
    announce: Callable[[str], None] | None,
) -> None:
    """Store what the knowledge base holds and the index does not; nothing to encode costs milliseconds."""
    known = encoders
    if base.name == SAMPLE_NAME and (vectors := sample_corpus().vectors):
        rows: KnownVectors = load_known_vectors(vectors, encoders.embedder)
        known = Encoders(rows, encoders.sparse, encoders.language)
    told = False

    def progress(done: int, total: int) -> None:
        nonlocal told
        if announce and not told and done < total:
            told = True
            announce(f"storing the {total} passages of {base.name!r} for the hybrid engine (once)")

    await ingest(index, known, base.name, passages, progress=progress)


async def _passages_of(base: KnowledgeBase) -> list[Text]:
    return [
        Text(info.id, text, info.lang, info.source or info.id, info.title)
        for info, text in await base.passages()
    ]


def _rarity(passages: Sequence[Text]) -> Rarity:
    step = -(-len(passages) // COUNTED_PASSAGES) or 1
    return Rarity.of(passage.text for passage in passages[::step])


def _pipelines(
    settings: Settings, tenant_id: str, base: KnowledgeBase, embedder: Embedder, cache: Cache | None
) -> dict[Strategy, QueryUnderstandingPipeline]:
    """What finds other forms, for each way that wants some; nothing where the rewriter is switched off."""
    if not settings.query_rewriter.enabled:
        return {}
    config = settings.query_understanding.model_copy(
        update={"timeout_s": settings.engine.variants_timeout_s, "rewrites": settings.engine.variants - 1}
    )
    model = chat_model(settings.models, "query_understanding")
    glossary = _glossary(settings, tenant_id, base)
    near = open_near(config, cache, embedder, lambda text: {hit.name for hit in base.name_index.find(text)})
    build = partial(
        build_pipeline,
        config,
        model=model,
        embedder=embedder,
        glossary=glossary,
        cache=cache,
        near=near,
        grace_s=GRACE_S,
    )
    made_up: list[Component] = ["hyde"] if settings.engine.hyde else []
    if made_up and model is None:
        raise ConfigError(
            "engine.hyde needs a chat model: set models.query_understanding.model to 'provider:name'"
        )
    worded: list[Component] = ["rewriter"] if settings.engine.variants > 1 else []
    splitting = build(["decomposer", *made_up])
    return {
        "decompose": splitting,
        "coref_decompose": splitting,
        "expand": build(["glossary", *worded, *made_up]),
    }


def _glossary(settings: Settings, tenant_id: str, base: KnowledgeBase) -> GlossaryExpander:
    """The tenant's glossary; without one, the other names of each entity of the knowledge base."""
    folder = settings.query_understanding.glossary_dir
    if folder is not None:
        return load_glossary_of(tenant_id, folder)
    return InMemoryGlossary({name.name: list(name.aliases) for name in base.names})


def _open_sink(config: EngineConfig) -> RecordSink | None:
    if config.telemetry_file is None:
        return None
    path = config.telemetry_file.expanduser()
    kind = ParquetSink if path.suffix == PARQUET else JsonlSink
    return kind(path, visitor_text=config.telemetry_text)


def _limits(config: EngineConfig, passages: int) -> Limits:
    return Limits(
        passages=passages,
        probes=config.index_calls,
        deadline=Deadline(config.deadline_s, config.patience_s),
        rerank_s=config.rerank_timeout_s,
    )


def _reranker(config: EngineConfig) -> Reranker:
    return CrossEncoder(config.cross_encoder.expanduser()) if config.cross_encoder else ScoreMix()
