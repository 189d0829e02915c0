"""The configuration schema: what a TOML file may say, and what stands when it says nothing.

Each field's description is the comment line of that key in `config/*.toml` and its row in
`docs/configuration.md`. In a file, an empty string leaves an optional text key unset.
"""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    StrictBool,
    field_validator,
    model_validator,
)

from ixinfra.errors import UnknownTierError

Environment = Literal["development", "test", "staging", "production"]
ENVIRONMENTS: tuple[Environment, ...] = get_args(Environment)

RagMode = Literal["naive", "mix", "global", "hybrid", "local"]
Tier = Literal["lite", "advanced"]
TIER_TO_RAG_MODE: dict[Tier, RagMode] = {"lite": "naive", "advanced": "mix"}

Storage = Literal["files", "postgres", "qdrant", "redis", "milvus", "neo4j", "opensearch", "mongodb"]
Exporter = Literal["langfuse", "otlp", "console", "none"]
PassageForm = Literal["rewriter", "decomposer", "glossary", "hyde"]
GraphForm = Literal["rewriter", "decomposer", "glossary"]
Engine = Literal["lightrag", "hybrid"]
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high"]


def tier_to_rag_mode(tier: str | None) -> RagMode:
    """The retrieval mode of a tier; case and surrounding blanks do not matter.

    Raises:
        UnknownTierError: `tier` is None, empty or not a key of `TIER_TO_RAG_MODE`.
    """
    return TIER_TO_RAG_MODE[_known_tier(tier)]


def _known_tier(tier: object) -> Tier:
    folded = tier.strip().casefold() if isinstance(tier, str) else None
    for known in TIER_TO_RAG_MODE:
        if folded == known:
            return known
    raise UnknownTierError(f"unknown tier {tier!r}; expected one of {sorted(TIER_TO_RAG_MODE)}")


def _unset_when_empty(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    if not parts.scheme or not (parts.netloc or parts.path):
        raise ValueError("expected an address such as 'http://localhost:8080'")
    if parts.password is not None:
        raise ValueError("an address must not hold a password; it has a key or variable of its own")
    return url


def _web_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected an http:// or https:// address")
    return url


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _matching(pattern: str, expected: str) -> AfterValidator:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"expected {expected}, got {text[:80]!r}")
        return text

    return AfterValidator(check)


Address = Annotated[str, AfterValidator(_without_password)]
WebAddress = Annotated[Address, AfterValidator(_web_address)]
Name = Annotated[str, _matching(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", "letters, digits, - and _, at most 64")]
Language = Annotated[str, _matching(r"[a-z]{2,3}", "a language code such as 'fr'")]
RouteModel = Annotated[str, _matching(r"[a-z0-9_]+:\S+", "'provider:name', such as 'openai:gpt-5.4-mini'")]
FIRST_LOCAL = "local+"
CheckModel = Annotated[
    str,
    _matching(r"(local\+)?[a-z0-9_]+:\S+", "'provider:name' or 'local+provider:name'"),
    Field(
        description='"local:learned": learned weights decide, and weigh words beside a search of written words; '
        '"local:rules"; "provider:name"; or "local+provider:name": as learned, and the model where unsure.'
    ),
]
VariableName = Annotated[str, _matching(r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable")]
Seconds = Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)]
RoutedModel = Annotated[
    RouteModel,
    Field(description='"provider:name", or "local:rules" / "local:quote", which need no model.'),
]
CallTimeout = Annotated[Seconds, Field(description="Seconds until the call is dropped and counts as failed.")]
MaxTokens = Annotated[int, Field(ge=1, description="Most tokens the model may write.")]
EmptyIsNone = BeforeValidator(_unset_when_empty)


class Section(BaseModel):
    """A table of the file: immutable, unknown keys refused, no value converted to another type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


class QueryRewriterConfig(Section):
    """The only switch of query resolution."""

    enabled: StrictBool = Field(
        True, description="On: resolve for the channel the tenant has. Off: search the visitor's own message."
    )
    strategy: Literal["messages", "memory"] = Field(
        "messages",
        description='What a text query is made from: the last "messages", or the thread\'s working "memory".',
    )
    fused: StrictBool = Field(
        False,
        description="Search the visitor's own words beside every resolved text, and fuse both rankings.",
    )
    ahead_share: float = Field(
        0.2,
        ge=0,
        le=1,
        description="Most turns whose likely name is searched while a model still checks; 0 is none, 1 all.",
    )


class ModelRoute(Section):
    """Which model answers one kind of question, and how long it may take."""

    local: ClassVar[tuple[str, ...]] = ("local:rules",)

    model: RoutedModel = "local:rules"
    timeout_s: CallTimeout = 2.0
    max_retries: int = Field(
        0, ge=0, le=5, description="Repeats of a failed call; 0 keeps the deadline honest."
    )
    max_tokens: MaxTokens = 64
    temperature: float = Field(
        0.0, ge=0, le=2, description="Sampling temperature; 0 gives the likeliest words."
    )
    reasoning_effort: Annotated[ReasoningEffort | None, EmptyIsNone] = Field(
        None, description='How long a reasoning model thinks; "none" turns it off, "" is not sent.'
    )
    base_url: Annotated[WebAddress | None, EmptyIsNone] = Field(
        None, description='Server that speaks the provider\'s protocol; "" is the provider itself.'
    )
    api_key_env: Annotated[VariableName | None, EmptyIsNone] = Field(
        None,
        description='Variable holding the API key; "" is the provider\'s own, and no key for a base_url.',
    )

    @field_validator("model")
    @classmethod
    def _is_known_when_local(cls, model: str) -> str:
        if model.startswith("local:") and model not in cls.local:
            allowed = " or ".join(map(repr, cls.local))
            raise ValueError(f"without a model this route can only be {allowed}")
        return model

    @property
    def provider(self) -> str:
        """What stands before the first colon of `model`."""
        return self.model.removeprefix(FIRST_LOCAL).partition(":")[0]

    @property
    def name(self) -> str:
        """What stands after the first colon of `model`."""
        return self.model.removeprefix(FIRST_LOCAL).partition(":")[2]


class ReferenceRoute(ModelRoute):
    """Runs beside the search of the visitor's own words."""

    local: ClassVar[tuple[str, ...]] = ("local:learned", "local:rules")

    model: CheckModel = "local:learned"
    ask_below: float = Field(
        0.85,
        ge=0,
        le=1,
        description='Confidence below which "local+provider:name" asks the model; 0 never does.',
    )

    @property
    def asks_rules_first(self) -> bool:
        """Whether the model is asked only where the rules are unsure."""
        return self.model.startswith(FIRST_LOCAL)

    @property
    def is_learned(self) -> bool:
        """Whether learned weights decide without a model, and weigh words beside a search of written words."""
        return self.asks_rules_first or self.model == "local:learned"


class RewriterRoute(ModelRoute):
    """A visitor waits for it before the search starts."""

    timeout_s: CallTimeout = 1.0
    max_tokens: MaxTokens = 128


class KeywordRoute(ModelRoute):
    """Runs inside the search."""

    timeout_s: CallTimeout = 3.0
    max_tokens: MaxTokens = 200


class AnswerRoute(ModelRoute):
    """Writes prose, streamed while it is written."""

    local: ClassVar[tuple[str, ...]] = ("local:quote",)

    model: RoutedModel = "local:quote"
    timeout_s: CallTimeout = 30.0
    max_tokens: MaxTokens = 800


class ExtractionRoute(ModelRoute):
    """Reads whole passages while a knowledge base is built; nobody waits for a turn."""

    timeout_s: CallTimeout = 120.0
    max_retries: int = Field(2, ge=0, le=5, description="Repeats of a failed call.")
    max_tokens: MaxTokens = 4000


class UnderstandingRoute(ModelRoute):
    """Writes several lines or a paragraph beside the first search."""

    max_tokens: MaxTokens = 300


class ModelsConfig(Section):
    """One route for each kind of question that a model may answer."""

    query_rewriter: RewriterRoute = Field(
        default_factory=RewriterRoute,
        description="Resolves a short reply: into a query (lite) or into graph keywords (advanced).",
    )
    query_reference: ReferenceRoute = Field(
        default_factory=ReferenceRoute,
        description="Decides which named product a longer follow-up refers to, if any.",
    )
    answer: AnswerRoute = Field(
        default_factory=AnswerRoute, description="Writes the answer from the passages found."
    )
    lightrag_keyword: KeywordRoute = Field(
        default_factory=KeywordRoute, description="Extracts graph keywords from a query that brings none."
    )
    lightrag_extract: ExtractionRoute = Field(
        default_factory=ExtractionRoute,
        description="Finds entities and relations in passages at `ix ingest`; without a model, rules do.",
    )
    query_understanding: UnderstandingRoute = Field(
        default_factory=UnderstandingRoute,
        description="Paraphrases a query, splits it, and writes made-up answers to search with.",
    )


class QueryUnderstandingConfig(Section):
    """Limits of what is searched beside the query itself; which forms are, each tenant says."""

    timeout_s: Seconds = Field(
        2.0, description="Seconds for all components together; a late one adds nothing."
    )
    rewrites: int = Field(3, ge=1, le=10, description="Most paraphrases of a query.")
    hyde_documents: int = Field(
        1, ge=1, le=5, description="Made-up answers to average; more than 1 wants a temperature above 0."
    )
    glossary_dir: Annotated[Annotated[Path, Field(strict=False)] | None, EmptyIsNone] = Field(
        None, description='Folder of glossaries, "<tenant>.toml" or ".csv"; "" for none.'
    )
    cache: Literal["none", "memory", "redis"] = Field(
        "memory", description="Where paraphrases and their vectors are remembered, by tenant."
    )
    cache_ttl_s: float = Field(3600.0, gt=0, allow_inf_nan=False, description="Seconds an entry is kept.")
    cache_likeness: float = Field(
        0.98,
        gt=0,
        le=1,
        description="Least cosine at which an earlier message's paraphrases count as this one's; 1 for equal words alone.",
    )
    cache_url: Annotated[Address | None, EmptyIsNone] = Field(
        None, description='Address of the Redis server, without password; "" for the others.'
    )
    cache_password_env: Annotated[str | None, EmptyIsNone] = Field(
        None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description='Variable holding its password; "" for none.'
    )

    @model_validator(mode="after")
    def _redis_has_address(self) -> QueryUnderstandingConfig:
        if self.cache == "redis" and self.cache_url is None:
            raise ValueError('cache "redis" needs cache_url')
        return self


class EmbeddingConfig(Section):
    """Which model turns text into vectors; an index remembers it and refuses another."""

    model: RouteModel = Field("local:multilingual-e5-small", description='Embedding model, "provider:name".')


class LightRAGConfig(Section):
    """Numbers and texts of the graph engine; all are passed explicitly, none is read from a `.env`."""

    working_dir: Path = Field(
        Path("~/.cache/ix"), strict=False, validate_default=True, description="Folder of the local indexes."
    )
    top_k: int = Field(40, ge=1, le=1000, description="Entities, and relations, taken from the graph.")
    chunk_top_k: int = Field(20, ge=1, le=1000, description="Passages returned by a search.")
    max_entity_tokens: int = Field(6000, ge=0, description="Token budget of entities.")
    max_relation_tokens: int = Field(8000, ge=0, description="Token budget of relations.")
    max_total_tokens: int = Field(
        30000, ge=1, description="Token budget of a whole result; passages get what is left."
    )
    cosine_threshold: float = Field(0.2, ge=-1, le=1, description="Least cosine similarity of a vector hit.")
    related_chunk_number: int = Field(
        5, ge=0, le=100, description="Passages taken for each entity or relation."
    )
    kg_chunk_pick_method: Literal["VECTOR", "WEIGHT"] = Field(
        "VECTOR", description='How they are picked: "VECTOR" by similarity, "WEIGHT" by mentions.'
    )
    enable_rerank: StrictBool = Field(
        False, description="Reorder passages by a reranker, where one is wired."
    )
    min_rerank_score: float = Field(0.0, ge=0, le=1, description="Least reranker score of a passage.")
    enable_llm_cache: StrictBool = Field(
        False, description="Keep extracted keywords on disk; the whole file is rewritten at every new entry."
    )
    llm_max_async: int = Field(
        4, ge=1, le=256, description="Keyword extractions running at once, per tenant."
    )
    embedding_max_async: int = Field(
        1, ge=1, le=256, description="Embedding calls running at once, per tenant."
    )
    embedding_batch: int = Field(10, ge=1, le=1000, description="Texts in one embedding call.")
    chunk_token_size: int = Field(
        300, ge=50, description="Tokens (four letters) of a passage; the local embedder reads about 500."
    )
    chunk_overlap_token_size: int = Field(40, ge=0, description="Tokens shared by neighbouring passages.")
    query_timeout_s: Seconds = Field(
        10.0, description="Seconds until a search is dropped and counts as failed."
    )
    company_binding: Annotated[str | None, EmptyIsNone] = Field(
        'Question about "{company}": {query}',
        description='What is sent for a tenant with a company name, so that "you" means it; "" sends {query}.',
    )

    @field_validator("working_dir")
    @classmethod
    def _expand_home(cls, folder: Path) -> Path:
        return folder.expanduser()

    @field_validator("company_binding")
    @classmethod
    def _has_known_fields(cls, template: str | None) -> str | None:
        if template is None:
            return None
        parts = [
            (name, spec, how) for _, name, spec, how in string.Formatter().parse(template) if name is not None
        ]
        if {name for name, *_ in parts} - {"company", "query"} or any(spec or how for _, spec, how in parts):
            raise ValueError("only {company} and {query} may stand in braces")
        if "query" not in {name for name, *_ in parts}:
            raise ValueError("{query} is missing: nothing would be searched")
        return template

    @model_validator(mode="after")
    def _overlap_fits(self) -> LightRAGConfig:
        if self.chunk_overlap_token_size >= self.chunk_token_size:
            raise ValueError("chunk_overlap_token_size must be smaller than chunk_token_size")
        return self


class VectorDatabaseConfig(Section):
    """Where vectors and passages are stored."""

    storage: Storage = Field("files", description='"files" in lightrag.working_dir, or a server.')
    url: Annotated[Address | None, EmptyIsNone] = Field(
        None, description='Address of the server, without password; "" for files.'
    )
    api_key: Annotated[SecretStr | None, EmptyIsNone] = Field(
        None, description="Key or password of the server; better given as IX_VECTOR_DATABASE__API_KEY."
    )

    max_connections: int = Field(
        20, ge=1, le=1000, description="Most connections of one process; PostgreSQL and Redis only."
    )

    @model_validator(mode="after")
    def _server_has_address(self) -> VectorDatabaseConfig:
        if self.storage != "files" and self.url is None:
            raise ValueError(f"storage {self.storage!r} needs url")
        return self


class EngineConfig(Section):
    """Limits of the hybrid engine; which tenants use it, each tenant says. Its index is in vector_database."""

    deadline_s: float = Field(
        0.18,
        ge=0,
        le=60,
        allow_inf_nan=False,
        description="Seconds until the indexes that answered are enough.",
    )
    patience_s: Seconds = Field(
        2.0, description="Seconds until a search without any answer counts as failed."
    )
    index_calls: int = Field(12, ge=1, le=100, description="Most index calls of one search.")
    variants: int = Field(
        4,
        ge=1,
        le=4,
        description="Most wordings of a message that are searched, its own among them; 1 for that one alone.",
    )
    variants_timeout_s: Seconds = Field(
        0.045, description="Seconds for finding them; a hosted model needs more, and so a longer deadline_s."
    )
    hyde: StrictBool = Field(
        False,
        description="On: a chat model also writes a made-up answer, whose vector is searched beside the message's.",
    )
    model_calls_a_minute: int = Field(
        600,
        ge=0,
        description="Model calls a tenant may make in a minute, for variants and rewritten follow-ups; 0 for none.",
    )
    model_tokens_a_minute: int = Field(
        300_000,
        ge=0,
        description="Tokens they may take in a minute, prompts and answers; after that the message's own words are searched.",
    )
    cross_encoder: Annotated[Annotated[Path, Field(strict=False)] | None, EmptyIsNone] = Field(
        None, description='Folder with model.onnx and tokenizer.json of a reranker; "" mixes scores instead.'
    )
    rerank_timeout_s: Seconds = Field(0.05, description="Seconds until the fused order stands as it is.")
    telemetry_file: Annotated[Annotated[Path, Field(strict=False)] | None, EmptyIsNone] = Field(
        None, description='File for a record of each search, JSON Lines; ending in ".parquet", a folder of Parquet files; "" for none.'
    )
    telemetry_text: StrictBool = Field(
        False, description="On: records hold messages. Off: their lengths and digests only."
    )

    @model_validator(mode="after")
    def _patience_outlasts_the_deadline(self) -> EngineConfig:
        if self.patience_s < self.deadline_s:
            raise ValueError("patience_s must not be shorter than deadline_s")
        return self


class TracingConfig(Section):
    """Where spans go. Langfuse's keys are variables: LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY, LANGFUSE_BASE_URL."""

    exporter: Annotated[tuple[Exporter, ...], BeforeValidator(_as_list), Field(strict=False)] = Field(
        ("none",), description='"none", or any of "langfuse", "otlp", "console".'
    )
    otlp_endpoint: Annotated[WebAddress | None, EmptyIsNone] = Field(
        None, description='Address for "otlp", such as http://localhost:4318/v1/traces.'
    )
    visitor_text: StrictBool = Field(
        True, description="On: spans hold messages and passages. Off: lengths and decisions only."
    )
    timeout_s: Seconds = Field(2.0, description="Seconds an export may take; a turn never waits for it.")

    @field_validator("exporter")
    @classmethod
    def _makes_sense(cls, exporters: tuple[Exporter, ...]) -> tuple[Exporter, ...]:
        if not exporters or len(set(exporters)) != len(exporters):
            raise ValueError('name each exporter once; "none" for no export')
        if "none" in exporters and len(exporters) > 1:
            raise ValueError('"none" stands alone')
        return exporters

    @model_validator(mode="after")
    def _otlp_has_address(self) -> TracingConfig:
        if "otlp" in self.exporter and self.otlp_endpoint is None:
            raise ValueError('exporter "otlp" needs otlp_endpoint')
        return self


class ServeConfig(Section):
    """The web server of `ix serve`."""

    host: str = Field(
        "127.0.0.1", min_length=1, description='Address to listen on; "0.0.0.0" is every network card.'
    )
    port: int = Field(8350, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    api_key_env: Annotated[VariableName | None, EmptyIsNone] = Field(
        None, description='Variable holding the key that every request must bring; "" asks for none.'
    )
    playground: StrictBool = Field(
        True,
        description="On: the page at / is served, and answers to turns hold their spans. Off: neither.",
    )
    max_request_bytes: int = Field(65536, ge=1024, description="Largest request that is read.")
    turns_per_minute: int = Field(
        120, ge=0, description="Turns one client address may start in a minute; 0 for no limit."
    )
    max_turns: int = Field(64, ge=1, description="Turns running at once; the next is asked to come back.")
    max_threads: int = Field(
        1000, ge=1, description="Conversations kept in memory; the longest untouched is forgotten."
    )


class TenantConfig(Section):
    """One client: its tier decides the retrieval mode."""

    tier: Annotated[Tier, BeforeValidator(_known_tier)] = Field(
        description='"lite" searches passages alone, "advanced" passages and graph.'
    )
    company_name: str = Field(
        "", max_length=200, description='Company whose site this is; "" binds no query to a company.'
    )
    language: Language = Field("en", description="Main language of its visitors, ISO 639 code.")
    knowledge_base: Name = Field(description="Name of the knowledge base that is searched.")
    retriever: Engine = Field(
        "lightrag",
        description='"lightrag" searches as the tier says; "hybrid" fuses three passage indexes, without graph.',
    )
    passage_forms: Annotated[tuple[PassageForm, ...], Field(strict=False)] = Field(
        (),
        description='Besides the query, passages are searched by: "rewriter", "decomposer", "glossary", "hyde".',
    )
    graph_forms: Annotated[tuple[GraphForm, ...], Field(strict=False)] = Field(
        (), description='Likewise the graph, by: "rewriter", "decomposer", "glossary".'
    )

    @model_validator(mode="before")
    @classmethod
    def _missing_tier_is_unknown(cls, data: Any) -> Any:
        return {"tier": None, **data} if isinstance(data, dict) else data

    @model_validator(mode="after")
    def _engine_plans_its_own_forms(self) -> TenantConfig:
        if self.retriever == "hybrid" and (self.passage_forms or self.graph_forms):
            key = "passage_forms" if self.passage_forms else "graph_forms"
            raise ValueError(
                f"{key} is for retriever = \"lightrag\"; the hybrid engine plans its forms itself: use []"
            )
        return self

    @field_validator("company_name")
    @classmethod
    def _strip(cls, name: str) -> str:
        return name.strip()

    @property
    def rag_mode(self) -> RagMode:
        """The retrieval mode of the tier."""
        return tier_to_rag_mode(self.tier)


class Source(BaseModel):
    """Where settings came from: the file, and the variable behind each overridden key."""

    model_config = ConfigDict(frozen=True)

    path: Path | None = None
    variables: dict[str, str] = Field(default_factory=dict)


class Settings(Section):
    """Everything one environment's file says."""

    env: Environment = Field(
        "development", description="Name of the environment; the file's name, not a key."
    )
    query_rewriter: QueryRewriterConfig = QueryRewriterConfig()
    models: ModelsConfig = Field(default_factory=ModelsConfig)
    query_understanding: QueryUnderstandingConfig = QueryUnderstandingConfig()
    embedding: EmbeddingConfig = EmbeddingConfig()
    lightrag: LightRAGConfig = Field(default_factory=LightRAGConfig)
    vector_database: VectorDatabaseConfig = VectorDatabaseConfig()
    engine: EngineConfig = EngineConfig()
    tracing: TracingConfig = TracingConfig()
    serve: ServeConfig = ServeConfig()
    tenants: dict[Name, TenantConfig] = Field(default_factory=dict)

    _source: Source = PrivateAttr(default_factory=Source)

    @property
    def source(self) -> Source:
        """Where these settings were read from."""
        return self._source
