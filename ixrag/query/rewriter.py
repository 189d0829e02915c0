"""Other ways to ask the same question, for a lexical index that only knows its own words."""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import Protocol, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage

from ixinfra.llm import complete, model_id
from ixrag.query.cache import Cache, Lookup, cache_key, look_up, remember
from ixrag.query.context import QueryContext
from ixrag.query.listing import distinct, encodable, list_items
from ixrag.query.telemetry import note_cache

MAX_PROMPT_CHARS = 2000  # a longer message is a document; its head says what is asked

REWRITE_PROMPT = """\
Write {n} search queries that would find the documents answering the user's message.
- Each means exactly what the message means: add no condition, drop none, answer nothing.
- Vary the words: synonyms, the full form of an abbreviation, the noun for a verb.
- Keep product names, codes and numbers as they are.
- Stay in the language of the message.
One query per line, nothing else."""


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

    Args:
        model: Any LangChain chat model.
        system_prompt: Replaces `REWRITE_PROMPT`; `{n}` becomes the number asked for, other braces stay.
        cache: Spares the call for a query seen before (case and blanks make no difference). Empty
            answers are not kept, unreadable entries are overwritten.
        cache_ttl_s: How long an answer is kept, in seconds.
        prompt_version: Part of the cache key; the text of the prompt is part of it as well.
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
        prompt_version: str = "v1",
        timeout_s: float | None = None,
    ) -> None:
        self._model = model
        self._system_prompt = REWRITE_PROMPT if system_prompt is None else system_prompt
        self._cache = cache
        self._cache_ttl_s = cache_ttl_s
        self._prompt_version = prompt_version
        self._timeout_s = timeout_s

    async def rewrite(self, ctx: QueryContext, query_text: str, *, n: int = 3) -> list[str]:
        """At most `n` paraphrases in the order of the model; from the cache where it has them."""
        if n < 1 or not query_text.strip():
            return []
        prompt = self._system_prompt.replace("{n}", str(n))
        normal = " ".join(query_text.lower().split())
        key = cache_key(
            ctx.tenant_id, "rewrites", model_id(self._model), self._prompt_version, prompt, n, normal
        )
        found, cached = _decode(await look_up(self._cache, key))
        note_cache("rewrites", found)
        if cached:
            return distinct(cached, other_than=[query_text], limit=n)
        messages = [SystemMessage(prompt), HumanMessage(encodable(query_text[:MAX_PROMPT_CHARS]))]
        completion = await complete(self._model, messages, timeout_s=self._timeout_s, name="query-rewrites")
        rewrites = distinct(list_items(completion.text), other_than=[query_text], limit=n)
        if rewrites:
            await remember(self._cache, key, json.dumps(rewrites).encode(), ttl_s=self._cache_ttl_s)
        return rewrites


def _decode(found: Lookup | None) -> tuple[str | None, list[str]]:
    """How the look-up ended, and the rewrites it brought; an unreadable or empty entry is `corrupt`."""
    if found is None or found.value is None:
        return (found.found if found else None), []
    try:
        items = json.loads(found.value)
    except (ValueError, RecursionError):
        items = None
    if isinstance(items, list) and items and all(isinstance(item, str) for item in items):
        return "hit", items
    return "corrupt", []
