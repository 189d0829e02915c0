"""LightRAG as an embedded engine: imported without side effects, every value pinned.

LightRAG 1.5.7 reads a `.env` at import, takes defaults from the environment and logs visitor text.
This module is where that stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import logging
import os
import re
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ixinfra.config.settings import LightRAGConfig, RagMode, VectorDatabaseConfig
from ixinfra.embeddings import Embedder, Vectors
from ixinfra.errors import ConfigError, KnowledgeBaseError, MissingExtraError
from ixrag.lightrag.calls import CALLS, cancellable
from ixrag.lightrag.stores import FILES, STORES, Stores, expect_stores, lease, unreachable

logger = logging.getLogger(__name__)

CALL_TIMEOUT_S = 600  # LightRAG's own limit on one call; ours, on a whole search, is far below

WORKSPACE_VARIABLES = tuple(
    f"{store}_WORKSPACE"
    for store in ("MEMGRAPH", "MILVUS", "MONGODB", "NEO4J", "OPENSEARCH", "POSTGRES", "QDRANT", "REDIS")
)
"""Each overrides the workspace of every LightRAG object in the process, and so mixes tenants."""

MODULES = (
    "lightrag.lightrag",
    "lightrag.kg.json_kv_impl",
    "lightrag.kg.json_doc_status_impl",
    "lightrag.kg.nano_vector_db_impl",
    "lightrag.kg.networkx_impl",
)
"""Loaded together, because each reads the `.env` when it is imported."""

KeywordModel = Callable[[str], Awaitable[str]]
"""LightRAG's extraction prompt in, JSON with `high_level_keywords` and `low_level_keywords` out."""

ExtractModel = Callable[[str, str], Awaitable[str]]
"""A passage's prompt and LightRAG's instructions in, records of entities and relations out."""


def refuse_environment(variables: Mapping[str, str]) -> None:
    """Refuse variables that would reach through LightRAG into a tenant's data or end the process.

    Raises:
        ConfigError: One is set; the message names it.
    """
    for name in WORKSPACE_VARIABLES:
        if name in variables:
            raise ConfigError(
                f"environment variable {name} is set: LightRAG would keep every tenant in that one workspace; unset it"
            )
    if "ENTITY_TYPES" in variables:
        raise ConfigError(
            "environment variable ENTITY_TYPES is set: LightRAG ends the process then; unset it"
        )


async def start_lightrag(
    folder: Path,
    workspace: str,
    *,
    config: LightRAGConfig,
    embedder: Embedder,
    database: VectorDatabaseConfig = FILES,
    keyword_model: KeywordModel | None = None,
    extract_model: ExtractModel | None = None,
) -> Any:
    """A `LightRAG`, ready to use in the running loop; `stop_lightrag` when done.

    Args:
        folder: LightRAG's working directory.
        workspace: Sub-folder, and name of its data in the process: LightRAG keeps texts in module-level
            dictionaries by workspace alone, so two different contents must never share one.
        config: Every number LightRAG would otherwise take from the environment.
        embedder: Called with queries or passages, as LightRAG says.
        database: Where its data is.
        keyword_model: Extracts keywords where none are supplied; without one, supply them always.
        extract_model: Finds entities and relations in documents; without one, insert a graph.

    Raises:
        ConfigError: The stores cannot be used as configured.
        MissingExtraError: A client package is missing.
        KnowledgeBaseError: The server does not answer.
    """
    stores = expect_stores(database)

    def make() -> Any:
        values = pinned_values(folder, workspace, config, embedder, keyword_model, extract_model, stores)
        return lightrag.LightRAG(**values)

    lightrag = await asyncio.to_thread(load_lightrag, stores)
    release = lease(database)
    try:
        # The constructor reads every file of the index, seconds for a large one.
        rag = await asyncio.to_thread(make)
        rag.ix_release = release  # called by `stop_lightrag`
        await rag.initialize_storages()
    except Exception as error:
        release()
        if stores.has_server:
            raise unreachable(database, error) from None
        raise
    return rag


def pinned_values(
    folder: Path,
    workspace: str,
    config: LightRAGConfig,
    embedder: Embedder,
    keyword_model: KeywordModel | None,
    extract_model: ExtractModel | None = None,
    stores: Stores = STORES["files"],
) -> dict[str, Any]:
    """Constructor arguments of LightRAG: all of them, so that no environment variable has a say."""
    lightrag, utils = load_lightrag(), importlib.import_module("lightrag.utils")
    base = importlib.import_module("lightrag.base")
    roles = importlib.import_module("lightrag.llm_roles")
    role = functools.partial(roles.RoleLLMConfig, timeout=CALL_TIMEOUT_S)
    return {
        "working_dir": str(folder),
        "workspace": workspace,
        "kv_storage": stores.kv,
        "vector_storage": stores.vectors,
        "graph_storage": stores.graph,
        "doc_status_storage": stores.doc_status,
        "auto_manage_storages_states": False,
        "vector_db_storage_cls_kwargs": {},
        "cosine_better_than_threshold": config.cosine_threshold,
        # what a search takes
        "top_k": config.top_k,
        "chunk_top_k": config.chunk_top_k,
        "max_entity_tokens": config.max_entity_tokens,
        "max_relation_tokens": config.max_relation_tokens,
        "max_total_tokens": config.max_total_tokens,
        "related_chunk_number": config.related_chunk_number,
        "kg_chunk_pick_method": config.kg_chunk_pick_method,
        "enable_content_headings": False,
        "max_graph_nodes": 1000,
        # models
        "tokenizer": utils.Tokenizer("ix", _FourCharacterTokens()),
        "tiktoken_model_name": "",
        "embedding_func": utils.EmbeddingFunc(
            embedding_dim=embedder.dim,
            func=cancellable(_embed_with(embedder)),
            max_token_size=None,
            send_dimensions=False,
            model_name=embedder.model_id,
            supports_asymmetric=True,
        ),
        "embedding_batch_num": config.embedding_batch,
        "embedding_func_max_async": config.embedding_max_async,
        "embedding_cache_config": {"enabled": False, "similarity_threshold": 0.95, "use_llm_check": False},
        "embedding_chunk_overlap_token_size": 100,
        "default_embedding_timeout": CALL_TIMEOUT_S,
        "llm_model_func": _no_model,
        "llm_model_name": "none",
        "llm_model_kwargs": {},
        "llm_model_max_async": config.llm_max_async,
        "default_llm_timeout": CALL_TIMEOUT_S,
        "role_llm_configs": {
            "extract": role(
                func=_extract_with(extract_model) if extract_model else None, max_async=config.llm_max_async
            ),
            "query": role(max_async=1),
            "vlm": role(max_async=1),
            "keyword": role(
                func=cancellable(_keywords_with(keyword_model)) if keyword_model else None,
                max_async=config.llm_max_async,
            ),
        },
        "rerank_model_func": None,
        "rerank_model_max_async": 1,
        "default_rerank_timeout": CALL_TIMEOUT_S,
        "min_rerank_score": config.min_rerank_score,
        "enable_llm_cache": config.enable_llm_cache,
        "enable_llm_cache_for_entity_extract": False,
        "vlm_process_enable": False,
        "user_prompt_prefix": "",
        "ollama_server_infos": base.OllamaServerInfos(name="none", tag="none"),
        # ingestion of documents, which ix does not leave to LightRAG
        "chunk_token_size": config.chunk_token_size,
        "chunk_overlap_token_size": config.chunk_overlap_token_size,
        "addon_params": {
            "language": "English",
            "entity_type_prompt_file": "",
            "chunker": {"chunk_token_size": config.chunk_token_size},
        },
        "entity_extract_max_gleaning": 0,
        "entity_extract_max_records": 100,
        "entity_extract_max_entities": 40,
        "entity_extraction_use_json": False,
        "force_llm_summary_on_merge": 8,
        "summary_max_tokens": 1200,
        "summary_context_size": min(12000, config.max_total_tokens),
        "summary_length_recommended": 600,
        "max_source_ids_per_entity": 200,
        "max_source_ids_per_relation": 200,
        "source_ids_limit_method": "KEEP",
        "max_file_paths": 75,
        "file_path_more_placeholder": "truncated",
        "max_parallel_insert": 1,
        "max_parallel_parse_native": 1,
        "max_parallel_parse_mineru": 1,
        "max_parallel_parse_docling": 1,
        "max_parallel_analyze": 1,
        "queue_size_parse": 20,
        "queue_size_analyze": 100,
        "queue_size_insert": 4,
        "pipeline_scheduling_page_size": 500,
        "pipeline_require_strict_storage_reads": False,
        "max_pending_documents": 0,
        "chunking_func": lightrag.chunking_by_token_size,
    }


def query_param(
    config: LightRAGConfig, mode: RagMode, ll_keywords: Sequence[str], hl_keywords: Sequence[str]
) -> Any:
    """What a search asks of LightRAG; again every value, none left to the environment."""
    return load_lightrag().QueryParam(
        mode=mode,
        ll_keywords=list(ll_keywords),
        hl_keywords=list(hl_keywords),
        top_k=config.top_k,
        chunk_top_k=config.chunk_top_k,
        max_entity_tokens=config.max_entity_tokens,
        max_relation_tokens=config.max_relation_tokens,
        max_total_tokens=config.max_total_tokens,
        enable_rerank=False,
        conversation_history=[],
        user_prompt=None,
        disable_user_prompt_prefix=True,
        response_type="",
        stream=False,
        include_references=False,
    )


def _embed_with(embedder: Embedder) -> Callable[..., Awaitable[Vectors]]:
    async def embed(texts: Sequence[str], context: str = "document", **_ignored: Any) -> Vectors:
        if context != "query":
            return await embedder.passage(texts)
        # In one company's base its name tells no passage from another, but it moves the vector: bound
        # questions found their passage at a mean reciprocal rank of 0.53, their own words at 0.85.
        calls = CALLS.get()
        return await embedder.query([calls.query if calls and text == calls.text else text for text in texts])

    return embed


def _keywords_with(model: KeywordModel) -> Callable[..., Awaitable[str]]:
    async def extract(prompt: str, **_ignored: Any) -> str:
        return await model(prompt)

    return extract


def _extract_with(model: ExtractModel) -> Callable[..., Awaitable[str]]:
    async def extract(prompt: str, system_prompt: str | None = None, **_ignored: Any) -> str:
        return await model(prompt, system_prompt or "")

    return extract


async def _no_model(*_args: Any, **_kwargs: Any) -> str:
    raise KnowledgeBaseError("LightRAG asked for a model, but none is configured for it")


def count_tokens(text: str) -> int:
    """How many tokens LightRAG counts in `text` here."""
    return len(_FourCharacterTokens().encode(text))


class _FourCharacterTokens:
    """Counts a token for four characters of an alphabet, one for a character of any other script.

    The real tokenisers are downloads. Budgets are bounds on text size, for which this is enough.
    """

    _TOKEN = re.compile(r"[\x00-\u024f]{1,4}|[^\x00-\u024f]")

    def encode(self, text: str) -> list[str]:
        return self._TOKEN.findall(text)

    def decode(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)

    def __deepcopy__(self, memo: dict[int, Any]) -> _FourCharacterTokens:
        return self  # LightRAG copies its configuration, this object with it, on every query


_IMPORT_LOCK = threading.Lock()


def load_lightrag(stores: Stores = STORES["files"]) -> Any:
    """The module `lightrag.lightrag`, and those of the stores, imported without side effects on the host."""
    with _IMPORT_LOCK:
        lightrag = _load_lightrag()
        if stores.modules:
            with _without_dotenv(), _without_basic_config(), _without_installing():
                for name in stores.modules:
                    importlib.import_module(f"lightrag.kg.{name}")
        return lightrag


@functools.cache
def _load_lightrag() -> Any:
    with _without_dotenv(), _without_basic_config():
        modules = {name: importlib.import_module(name) for name in MODULES}
    engine_logger = logging.getLogger("lightrag")
    for handler in engine_logger.handlers[:]:
        engine_logger.removeHandler(handler)
    engine_logger.propagate = True
    engine_logger.setLevel(logging.WARNING)
    engine_logger.addFilter(_withhold_text)
    logging.getLogger("nano-vectordb").setLevel(logging.WARNING)
    lightrag: Any = modules["lightrag.lightrag"]
    lightrag.check_storage_env_vars = _told_by_ix
    return lightrag


def _told_by_ix(_storage: str) -> None:
    """LightRAG looks for the variables of a storage in the process's environment; `stores` gives them."""


def _withhold_text(record: logging.LogRecord) -> bool:
    """LightRAG writes queries and keywords into its messages: let the host see where, not what."""
    logger.debug("lightrag: %s", record.getMessage(), exc_info=record.exc_info)
    record.msg, record.args = f"{record.module}:{record.lineno} (text withheld, see DEBUG of {__name__})", ()
    record.exc_info = record.exc_text = None
    return True


@contextlib.contextmanager
def _without_dotenv() -> Iterator[None]:
    before = os.environ.get("PYTHON_DOTENV_DISABLED")
    os.environ["PYTHON_DOTENV_DISABLED"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHON_DOTENV_DISABLED"]
        else:
            os.environ["PYTHON_DOTENV_DISABLED"] = before


@contextlib.contextmanager
def _without_installing() -> Iterator[None]:
    """Storage modules call pip, through pipmaster, when their client package is missing or too old."""
    pipmaster: Any = importlib.import_module("pipmaster")
    install = pipmaster.install

    def refuse(package: str, *_args: Any, **_kwargs: Any) -> None:
        raise MissingExtraError(f"LightRAG wants to install {package!r}: install it yourself")

    pipmaster.install = refuse
    try:
        yield
    finally:
        pipmaster.install = install


@contextlib.contextmanager
def _without_basic_config() -> Iterator[None]:
    """`logging.basicConfig`, which nano-vectordb calls, does nothing while the root has a handler."""
    root, httpx = logging.getLogger(), logging.getLogger("httpx")
    placeholder, httpx_level = logging.NullHandler(), httpx.level
    root.addHandler(placeholder)
    try:
        yield
    finally:
        root.removeHandler(placeholder)
        httpx.setLevel(httpx_level)
