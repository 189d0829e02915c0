"""Other ways to ask the same question, for a lexical index that only knows its own words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage

from ixinfra.errors import ModelError
from ixinfra.llm import complete, model_id
from ixrag.query.asked import Asked
from ixrag.query.cache import Cache
from ixrag.query.context import QueryContext
from ixrag.query.listing import distinct, encodable, list_items
from ixrag.query.near import NearQueries
from ixrag.query.rewrite_cache import RewriteCache
from ixrag.query.telemetry import note_cache

MAX_PROMPT_CHARS = 2000  # a longer message is a document; its head says what is asked

REWRITE_PROMPT = """\
Write {n} search queries that would find the documents answering the user's message.
- Each means exactly what the message means: add no condition, drop none, answer nothing.
- Vary the words: synonyms, the full form of an abbreviation, the noun for a verb.
- Keep product names, codes and numbers as they are.
- Stay in the language of the message.
Answer with JSON alone: {"queries": ["…", "…"]}"""

NO_SCHEMA = frozenset({400, 404, 415, 422, 501})  # what servers say that cannot be held to a schema


@runtime_checkable
class QueryRewriter(Protocol):
    """Finds other wordings of a query. Implement it by shape or subclass it.

    Contract: the query itself is not among them, none comes twice (case makes no difference), and
    there are at most `n`; fewer, or none, is fine. The pipeline corrects whoever breaks it.
    """

    @abstractmethod
    async def rewrite(self, ctx: QueryContext, query_text: str, *, n: int = 3) -> list[str]:
        """At most `n` other wordings of `query_text`, best first."""
        raise NotImplementedError


class NoopQueryRewriter(QueryRewriter):
    """Finds no other wording."""

    async def rewrite(self, ctx: QueryContext, query_text: str, *, n: int = 3) -> list[str]:
        """Always empty."""
        return []


class LLMQueryRewriter(QueryRewriter):
    """Asks a chat model for paraphrases, once per query.

    A model that can be held to a JSON schema is; whatever comes back is read tolerantly. A server that
    refuses the schema is asked again without it, and never with it after that.

    Args:
        model: Any LangChain chat model.
        system_prompt: Replaces `REWRITE_PROMPT`; `{n}` becomes the number asked for, other braces stay.
        cache: Spares the call for a query seen before (case and blanks make no difference). Empty
            answers are not kept, unreadable entries are overwritten.
        cache_ttl_s: How long an answer is kept, in seconds.
        near: Finds, in the same cache, the answer for a query that means the same.
        prompt_version: Part of the cache key; the text of the prompt and the model are part of it as well.
        depends_on: What else makes kept answers void when it changes, such as a glossary's version.
        timeout_s: Longest wait for the model; default: the limit of its route.

    Raises:
        ModelError: From `rewrite`, when the model gave no answer.
    """

    def __init__(
        self,
        model: BaseChatModel,
        *,
        system_prompt: str | None = None,
        cache: Cache | None = None,
        cache_ttl_s: float = 3600.0,
        near: NearQueries | None = None,
        prompt_version: str = "v1",
        depends_on: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> None:
        self._model = model
        self._system_prompt = REWRITE_PROMPT if system_prompt is None else system_prompt
        self._cache = RewriteCache(cache, cache_ttl_s, near) if cache is not None else None
        self._prompt_version = prompt_version
        self._depends_on = tuple(depends_on)
        self._timeout_s = timeout_s
        self._takes_schema = True

    async def rewrite(self, ctx: QueryContext, query_text: str, *, n: int = 3) -> list[str]:
        """At most `n` paraphrases in the order of the model; from the cache where it has them."""
        if n < 1 or not query_text.strip():
            return []
        prompt = self._system_prompt.replace("{n}", str(n))
        asked = Asked(
            ctx.tenant_id,
            "rewrites",
            query_text,
            model_id(self._model),
            f"{self._prompt_version} {prompt}",
            (n, *self._depends_on),
            ctx.language,
        )
        if self._cache is not None:
            found, cached = await self._cache.find(asked)
            note_cache("rewrites", found)
            if cached:
                return distinct(cached, other_than=[query_text], limit=n)
        answer = await self._ask(prompt, query_text, n)
        rewrites = distinct(list_items(answer), other_than=[query_text], limit=n)
        if self._cache is not None:
            await self._cache.keep(asked, rewrites)
        return rewrites

    async def _ask(self, prompt: str, query_text: str, n: int) -> str:
        messages = [SystemMessage(prompt), HumanMessage(encodable(query_text[:MAX_PROMPT_CHARS]))]
        ask = partial(complete, self._model, messages, timeout_s=self._timeout_s, name="query-rewrites")
        if self._takes_schema:
            try:
                return (await ask(schema=schema_of(n))).text
            except ModelError as error:
                if error.status not in NO_SCHEMA:
                    raise
                self._takes_schema = False
        return (await ask()).text


def schema_of(n: int) -> dict[str, Any]:
    """JSON schema of an answer with 1 to `n` queries."""
    queries = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": n}
    return {
        "title": "queries",
        "description": "Search queries that mean what the message means.",
        "type": "object",
        "properties": {"queries": queries},
        "required": ["queries"],
        "additionalProperties": False,
    }
