"""A made-up answer to search with: it uses the words of a passage where the question does not."""

from __future__ import annotations

import asyncio
import unicodedata
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage

from ixinfra.embeddings import Embedder, Vectors
from ixinfra.llm import complete
from ixrag.query.cache import Cache, CacheKey, Lookup, cache_key, look_up, remember
from ixrag.query.context import QueryContext
from ixrag.query.listing import distinct, encodable
from ixrag.query.rewriter import MAX_PROMPT_CHARS
from ixrag.query.telemetry import note_cache

MAX_DOCUMENT_CHARS = 2000  # about the 512 tokens that embedding models read

HYDE_PROMPT = """\
Write the passage of a company's documentation that answers the user's message: three or four plain
sentences, in the language of the message, without greeting, heading or remark. If you do not know the
facts, write what such a passage would most likely say."""


@dataclass(frozen=True, slots=True)
class HyDEResult:
    """Made-up passages and, where an embedder is wired, what they average to.

    Attributes:
        documents: The passages; empty when there was nothing to write.
        vector: Mean of their vectors, scaled to unit length; None without embedder or documents.
        model: Id of the embedder; None without one.
        cache_hits: Vectors that came from the cache.
        cache_misses: Vectors that had to be computed although a cache is wired.
    """

    documents: list[str] = field(default_factory=list)
    vector: list[float] | None = None
    model: str | None = None
    cache_hits: int = 0
    cache_misses: int = 0


@runtime_checkable
class HyDE(Protocol):
    """Writes hypothetical documents for a query. Implement it by shape or subclass it."""

    @abstractmethod
    async def generate(self, ctx: QueryContext, query_text: str) -> HyDEResult:
        """Passages that would answer `query_text`, with their mean vector where it is known."""
        raise NotImplementedError


class NoopHyDE(HyDE):
    """Writes nothing."""

    async def generate(self, ctx: QueryContext, query_text: str) -> HyDEResult:
        """Always empty."""
        return HyDEResult()


class HyDEGenerator(HyDE):
    """Asks a chat model for passages and averages their vectors.

    Args:
        model: Any LangChain chat model. With `n` > 1 it wants a temperature above 0: equal passages
            count once.
        embedder: None when the caller embeds elsewhere.
        n: Number of passages, asked for side by side. Those that fail are missing; all failing fails.
        system_prompt: Replaces `HYDE_PROMPT`.
        embedding_cache: Keeps vectors by tenant, embedder and version (see `embedding_key`).
        embedding_model_version: Change it when the same embedder id starts to give other vectors.
        embedding_ttl_s: How long a vector is kept, in seconds.
        timeout_s: Longest wait for the model; default: the limit of its route.

    Raises:
        ValueError: `n` is below 1, or there is a cache and no embedder to fill it.
        ModelError: From `generate`, when the model gave no answer at all.

    Source: Gao, Ma, Lin, Callan, arXiv 2212.10496, 2022.
    """

    def __init__(
        self,
        model: BaseChatModel,
        embedder: Embedder | None = None,
        *,
        n: int = 1,
        system_prompt: str | None = None,
        embedding_cache: Cache | None = None,
        embedding_model_version: str = "v1",
        embedding_ttl_s: float = 86_400.0,
        timeout_s: float | None = None,
    ) -> None:
        if n < 1:
            raise ValueError(f"`n` must be >= 1, got {n}")
        if embedding_cache is not None and embedder is None:
            raise ValueError("`embedding_cache` needs an `embedder` to fill it")
        self._model = model
        self._embedder = embedder
        self._n = n
        self._system_prompt = HYDE_PROMPT if system_prompt is None else system_prompt
        self._cache = embedding_cache
        self._version = embedding_model_version
        self._ttl_s = embedding_ttl_s
        self._timeout_s = timeout_s

    async def generate(self, ctx: QueryContext, query_text: str) -> HyDEResult:
        """Up to `n` passages and their mean vector."""
        model = self._embedder.model_id if self._embedder else None
        if not query_text.strip():
            return HyDEResult(model=model)
        documents = await self._write(query_text)
        if self._embedder is None or not documents:
            return HyDEResult(documents, model=model)
        vectors, hits = await self._embed(self._embedder, ctx.tenant_id, documents)
        misses = len(documents) - hits if self._cache is not None else 0
        return HyDEResult(documents, mean_vector(vectors), model, hits, misses)

    async def _write(self, query_text: str) -> list[str]:
        messages = [
            SystemMessage(self._system_prompt),
            HumanMessage(encodable(query_text[:MAX_PROMPT_CHARS])),
        ]
        answers = await asyncio.gather(
            *(
                complete(self._model, messages, timeout_s=self._timeout_s, name="query-hyde")
                for _ in range(self._n)
            ),
            return_exceptions=True,
        )
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        texts = [
            answer.text[:MAX_DOCUMENT_CHARS] for answer in answers if not isinstance(answer, BaseException)
        ]
        if failures and not texts:
            raise failures[0]
        return distinct(texts)

    async def _embed(
        self, embedder: Embedder, tenant_id: str, documents: Sequence[str]
    ) -> tuple[Vectors, int]:
        """Vectors of the documents, float32 `[n, dim]`, and how many came from the cache."""
        keys = [embedding_key(tenant_id, embedder.model_id, self._version, text) for text in documents]
        found = [_decode(await look_up(self._cache, key), embedder.dim) for key in keys]
        note_cache("embeddings", _worst([reason for reason, _ in found]))
        missing = [index for index, (_, vector) in enumerate(found) if vector is None]
        rows = {index: vector for index, (_, vector) in enumerate(found) if vector is not None}
        if missing:
            fresh = await embedder.passage([documents[index] for index in missing])
            for index, vector in zip(missing, np.asarray(fresh, np.float32), strict=True):
                rows[index] = vector
                await remember(self._cache, keys[index], vector.tobytes(), ttl_s=self._ttl_s)
        return np.stack([rows[index] for index in range(len(documents))]), len(documents) - len(missing)


def embedding_key(tenant_id: str, model_id: str, model_version: str, text: str) -> CacheKey | None:
    """Key of a passage's vector, float32 bytes, for every user of the same store.

    Blanks and the Unicode form of `text` make no difference, case does: embedders read it.
    """
    normal = unicodedata.normalize("NFC", " ".join(text.split()))
    return cache_key(tenant_id, "embeddings", model_id, model_version, normal)


def mean_vector(vectors: Vectors) -> list[float] | None:
    """Component-wise mean of the rows of float32 `[n, dim]`, at unit length.

    None where there is no direction: no rows, vectors that cancel out, or values that are no numbers.
    """
    if not len(vectors):
        return None
    mean = np.asarray(vectors, np.float64).mean(axis=0)
    length = float(np.linalg.norm(mean))
    if not np.isfinite(length) or length < 1e-6:
        return None
    return [float(value) for value in mean / length]


def _decode(found: Lookup | None, dim: int) -> tuple[str | None, Vectors | None]:
    """How the look-up ended, and the vector it brought; a wrong size or value is `corrupt`."""
    if found is None or found.value is None:
        return (found.found if found else None), None
    if len(found.value) != 4 * dim:
        return "corrupt", None
    vector = np.frombuffer(found.value, np.float32)
    return ("hit", vector) if np.isfinite(vector).all() else ("corrupt", None)


def _worst(reasons: Sequence[str | None]) -> str | None:
    return next((reason for reason in reasons if reason != "hit"), "hit" if reasons else None)
