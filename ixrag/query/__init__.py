"""Query understanding: what else each index may be asked, given only the query string."""

from ixrag.query.cache import Cache, CacheKey, Lookup, MemoryCache, NoopCache, RedisCache, open_redis_cache
from ixrag.query.context import QueryContext
from ixrag.query.decomposer import (
    HeuristicQueryDecomposer,
    LLMQueryDecomposer,
    NoopQueryDecomposer,
    QueryDecomposer,
)
from ixrag.query.glossary import GlossaryExpander, InMemoryGlossary, NoopGlossaryExpander, TenantGlossary
from ixrag.query.glossary_files import load_glossary, load_tenant_glossaries
from ixrag.query.hyde import HyDE, HyDEGenerator, HyDEResult, NoopHyDE
from ixrag.query.rewriter import LLMQueryRewriter, NoopQueryRewriter, QueryRewriter
from ixrag.query.understanding import QueryUnderstandingPipeline, UnderstoodQuery

__all__ = [
    "Cache",
    "CacheKey",
    "GlossaryExpander",
    "HeuristicQueryDecomposer",
    "HyDE",
    "HyDEGenerator",
    "HyDEResult",
    "InMemoryGlossary",
    "LLMQueryDecomposer",
    "LLMQueryRewriter",
    "Lookup",
    "MemoryCache",
    "NoopCache",
    "NoopGlossaryExpander",
    "NoopHyDE",
    "NoopQueryDecomposer",
    "NoopQueryRewriter",
    "QueryContext",
    "QueryDecomposer",
    "QueryRewriter",
    "QueryUnderstandingPipeline",
    "RedisCache",
    "TenantGlossary",
    "UnderstoodQuery",
    "load_glossary",
    "load_tenant_glossaries",
    "open_redis_cache",
]
