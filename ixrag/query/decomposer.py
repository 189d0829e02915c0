"""The questions inside a question, each to be searched on its own."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage

from ixinfra.llm import complete
from ixrag.query.boundaries import clauses, is_courtesy, sentences
from ixrag.query.context import QueryContext
from ixrag.query.languages import languages
from ixrag.query.listing import distinct, encodable, list_items
from ixrag.query.rewriter import MAX_PROMPT_CHARS

MIN_CHARS = 30  # a shorter message hardly ever asks two things
MIN_PART_CHARS = 3  # a shorter part means that a boundary was wrong
MAX_PARTS = 6  # more is a pasted text, not a question

DECOMPOSE_PROMPT = """\
The user's message may ask several things at once, or something that takes several look-ups.
If so, write the separate questions, each complete by itself: replace pronouns by what they stand for,
keep names, codes and numbers, stay in the language of the message, answer nothing.
If one look-up is enough, write NONE.
One question per line, at most {n}, nothing else."""


@runtime_checkable
class QueryDecomposer(Protocol):
    """Splits a query into questions. Implement it by shape or subclass it.

    Contract: an empty list means that nothing was split and the caller searches the query itself; the
    query itself is never a part. The pipeline corrects whoever breaks it.
    """

    @abstractmethod
    async def decompose(self, ctx: QueryContext, query_text: str) -> list[str]:
        """The separate questions in order, or `[]`."""
        raise NotImplementedError


class NoopQueryDecomposer(QueryDecomposer):
    """Splits nothing."""

    async def decompose(self, ctx: QueryContext, query_text: str) -> list[str]:
        """Always empty."""
        return []


class HeuristicQueryDecomposer(QueryDecomposer):
    """Splits at sentence ends and at conjunctions before a new question, without a model.

    Knows French, English, Spanish, Italian and German (`languages.toml`) and splits at sentence ends
    alone elsewhere. It rather leaves two questions together than cuts one in half. Each part is a
    piece of the query, so a pronoun in it still points at what stood before.

    Args:
        min_chars: Shorter queries are left alone.
        max_parts: A query with more parts is left alone.
    """

    def __init__(self, *, min_chars: int = MIN_CHARS, max_parts: int = MAX_PARTS) -> None:
        self._min_chars = min_chars
        self._max_parts = max_parts
        languages()  # read now: the first visitor should not wait for a file

    async def decompose(self, ctx: QueryContext, query_text: str) -> list[str]:
        """The parts in order, or `[]`."""
        text = query_text.strip()
        if not self._min_chars <= len(text) <= MAX_PROMPT_CHARS:
            return []
        pieces = [piece for sentence in sentences(text) for piece in clauses(sentence, ctx.language)]
        parts = [piece for piece in pieces if not is_courtesy(piece)]
        if any(len(part) < MIN_PART_CHARS for part in parts):
            return []
        parts = distinct(parts, other_than=[query_text])
        return parts if 2 <= len(parts) <= self._max_parts else []


class LLMQueryDecomposer(QueryDecomposer):
    """Asks a chat model for the separate questions.

    Args:
        model: Any LangChain chat model.
        system_prompt: Replaces `DECOMPOSE_PROMPT`; `{n}` becomes `max_parts`, other braces stay.
        max_parts: Most questions taken from an answer.
        timeout_s: Longest wait for the model; default: the limit of its route.

    Raises:
        ModelError: From `decompose`, when the model gave no answer.
    """

    def __init__(
        self,
        model: BaseChatModel,
        *,
        system_prompt: str | None = None,
        max_parts: int = MAX_PARTS,
        timeout_s: float | None = None,
    ) -> None:
        self._model = model
        prompt = DECOMPOSE_PROMPT if system_prompt is None else system_prompt
        self._system_prompt = prompt.replace("{n}", str(max_parts))
        self._max_parts = max_parts
        self._timeout_s = timeout_s

    async def decompose(self, ctx: QueryContext, query_text: str) -> list[str]:
        """The questions in the order of the model; `[]` when it says NONE or repeats the query."""
        if not query_text.strip():
            return []
        messages = [
            SystemMessage(self._system_prompt),
            HumanMessage(encodable(query_text[:MAX_PROMPT_CHARS])),
        ]
        completion = await complete(self._model, messages, timeout_s=self._timeout_s, name="query-decompose")
        return distinct(list_items(completion.text), other_than=[query_text, "none"], limit=self._max_parts)
