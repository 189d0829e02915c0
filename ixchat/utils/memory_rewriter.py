"""A rewrite from what a thread remembers: its summary and facts, instead of its last messages.

For hosts that keep a working memory of each conversation. It resolves what was said longer ago than
the two exchanges the other resolvers read.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage

from ixchat.utils.answers import is_nothing, is_refusal
from ixchat.utils.resolution import Fallback, Resolution, Resolver, Turn
from ixinfra.errors import ModelError
from ixinfra.llm import Completion, complete
from ixrag.query.listing import encodable, unquoted

KIND = "QUERY_REWRITE"
MAX_OUTPUT_TOKENS = 1000  # a query is one line, but a reasoning model thinks within the same limit
MAX_QUERY_CHARS = 500
MAX_PROMPT_CHARS = 2000
MAX_SUMMARY_CHARS = 2000
MAX_FACTS = 40
MAX_FACT_CHARS = 200
NOTHING_YET = "(nothing yet)"
FAILED = "IX-2001"  # stable: operators alert on it

MEMORY_PROMPT = """\
The user's next message goes to a search engine that knows nothing of the conversation. Write what to
search for instead: one line, in the language of the message, that names whatever "it", "that one" or
"the same" stands for. Use the summary and the facts for that and for nothing else. Keep names, numbers
and what is asked. If the message is clear by itself, repeat it. Never answer it.

Summary of the conversation:
{summary}

Facts:
{facts}"""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkingMemory:
    """What a thread remembers.

    Attributes:
        summary: The conversation so far, in prose; blank when there is none.
        facts: What is known for certain, by name: `{"plan": "Business"}`.
    """

    summary: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing a pronoun could be resolved with."""
        return not self.summary.strip() and not self.facts


Recall = Callable[[Turn], Awaitable[WorkingMemory]]
"""Finds the memory of the thread a turn belongs to, such as in LangGraph's store."""


def memory_resolver(
    model: BaseChatModel, recall: Recall, *, enabled: bool, timeout_s: float | None = None
) -> Resolver:
    """The resolver of a tenant whose threads have a working memory.

    Args:
        model: Any LangChain chat model; give its route `MAX_OUTPUT_TOKENS`.
        recall: Asked once a turn.
        enabled: The value of `query_rewriter.enabled`; there is no default on purpose. Off: neither
            `recall` nor the model is asked.
        timeout_s: Longest wait for the model; default: the limit of its route.
    """

    async def resolve(turn: Turn) -> Resolution:
        if not enabled:
            return Resolution(turn.query, fallback="disabled")
        try:
            memory = await recall(turn)
        except Exception as error:  # the host's own store; a broken one must not end the turn
            return _failed(turn, "resolver_error", type(error).__name__)
        return await rewrite_with_memory(turn, model, memory, timeout_s=timeout_s)

    return resolve


async def rewrite_with_memory(
    turn: Turn, model: BaseChatModel, memory: WorkingMemory, *, timeout_s: float | None = None
) -> Resolution:
    """One line to search for, made of the visitor's message and the thread's memory.

    Nothing is stored. With an empty memory the model is not asked. The message itself is searched when
    the model fails, refuses or says nothing; that is logged with the code `FAILED`, without any text.
    """
    if memory.is_empty or not turn.query.strip():
        return Resolution(turn.query, fallback="no_memory" if memory.is_empty else "empty")
    messages = [
        SystemMessage(memory_prompt(memory)),
        HumanMessage(encodable(turn.query[:MAX_PROMPT_CHARS])),
    ]
    try:
        completion = await complete(
            model, messages, timeout_s=timeout_s, name="query-rewrite", metadata={"kind": KIND}
        )
    except ModelError as error:
        return _failed(turn, "timeout" if error.reason == "timeout" else "model_error", error.reason)
    query = parse_query(completion.text)
    if rejection := _reject(query):
        return _failed(turn, rejection, rejection, completion)
    if query == turn.query.strip():
        return Resolution(turn.query, "keep", trace=_trace(completion))
    return Resolution(query, "resolve", trace=_trace(completion))


def memory_prompt(memory: WorkingMemory) -> str:
    """The system prompt: summary and facts, or "(nothing yet)" for what is missing."""
    facts = [f"- {_line(name)}: {_line(value)}" for name, value in list(memory.facts.items())[:MAX_FACTS]]
    summary = encodable(memory.summary.strip()[:MAX_SUMMARY_CHARS])
    # Not `format`: a summary may hold braces.
    before, _, rest = MEMORY_PROMPT.partition("{summary}")
    between, _, after = rest.partition("{facts}")
    return "".join([before, summary or NOTHING_YET, between, "\n".join(facts) or NOTHING_YET, after])


def parse_query(answer: str) -> str:
    """The first line of a model's answer that is not blank, unquoted, at most `MAX_QUERY_CHARS` long.

    A longer line is cut between words, or inside one that is longer than the limit.
    """
    line = next((stripped for line in answer.splitlines() if (stripped := line.strip())), "")
    query = unquoted(encodable(line))
    if len(query) <= MAX_QUERY_CHARS:
        return query
    head = query[: MAX_QUERY_CHARS + 1].rpartition(" ")[0].rstrip()
    return head or query[:MAX_QUERY_CHARS]


def _reject(query: str) -> Fallback | None:
    if not query:
        return "empty"
    if is_nothing(query):
        return "none"
    return "scaffold" if is_refusal(query) else None


def _failed(turn: Turn, fallback: Fallback, reason: str, completion: Completion | None = None) -> Resolution:
    _log.error("%s: no query from working memory (%s); the message itself is searched", FAILED, reason)
    return Resolution(turn.query, "error", fallback, _trace(completion) if completion else {"kind": KIND})


def _trace(completion: Completion) -> dict[str, object]:
    return {
        "kind": KIND,
        "model": completion.model,
        "provider": completion.provider,
        "usage": dict(completion.usage),
        "elapsed_ms": completion.elapsed_ms,
    }


def _line(text: object) -> str:
    return encodable(" ".join(str(text).split())[:MAX_FACT_CHARS])
