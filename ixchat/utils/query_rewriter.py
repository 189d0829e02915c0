"""The retired prose rewriter, kept to reproduce an old evaluation arm. Production never imports it.

It rewrites every follow-up into a standalone question and measured worse than the visitor's own words.
Its defects are the point, so they are kept: answers cut in the middle of a word, markdown copied from
the conversation, a first turn that only understands English.
"""

from __future__ import annotations

import re

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage

from ixchat.utils.resolution import Fallback, Resolution, Turn
from ixinfra.errors import ModelError
from ixinfra.llm import complete, model_id

MAX_TOKENS = 50
MIN_CHARS = 2  # the only check its output ever had

INSTRUCTIONS = """\
Rewrite the visitor's last message as one complete question that can be understood without the conversation. \
Say what the message is about, replace pronouns by what they stand for, and name the company where the visitor \
says "you". Answer with the question alone."""

_YOU = re.compile(r"\b(you|your)\b", re.IGNORECASE)
_TOKEN = re.compile(r"\s*(?:\w{1,7}|[^\w\s])")


async def rewrite_query(turn: Turn, model: BaseChatModel, *, timeout_s: float | None = None) -> Resolution:
    """Rewrite the message into a standalone question, as it was once done on every turn.

    Args:
        turn: The visitor's message and the conversation before it.
        model: Any LangChain chat model; called once, or not at all on a first turn.
        timeout_s: Longest wait for it, in seconds; default: the limit of its route.

    Returns:
        The rewritten question with decision `resolve`. On a first turn, and when the model fails or
        says nothing, the message with English "you" and "your" replaced by the company's name, and the reason.
    """
    facts: dict[str, object] = {"conversation_history_length": len(turn.messages)}
    if not turn.messages:
        return Resolution(name_the_company(turn), fallback="first_turn", trace=facts)
    lines = [f"{message.role}: {message.content}" for message in turn.messages]
    conversation = "\n".join([f"Company: {turn.company_name}", "", *lines, f"user: {turn.query}"])
    messages = [SystemMessage(INSTRUCTIONS), HumanMessage(conversation)]
    try:
        completion = await complete(_capped(model), messages, timeout_s=timeout_s, name="query-rewriter")
    except ModelError as error:
        failure: Fallback = "timeout" if error.reason == "timeout" else "model_error"
        return Resolution(name_the_company(turn), "error", failure, facts | {"model": model_id(model)})
    facts |= {"model": completion.model, "provider": completion.provider, "usage": dict(completion.usage)}
    rewritten = first_tokens(completion.text, MAX_TOKENS)
    if len(rewritten) < MIN_CHARS:
        return Resolution(name_the_company(turn), "error", "empty", facts)
    return Resolution(rewritten, "resolve", None, facts)


def name_the_company(turn: Turn) -> str:
    """The message with English "you" and "your" replaced by the company; every other language is left."""
    if not turn.company_name:
        return turn.query
    possessive = f"{turn.company_name}'s"
    return _YOU.sub(lambda match: possessive if match[0].lower() == "your" else turn.company_name, turn.query)


def first_tokens(text: str, count: int) -> str:
    """The first `count` tokens, cut wherever that falls. A token is taken as up to seven letters or one sign,
    which gives the 230 to 275 characters that 50 tokens of French were measured at."""
    position = 0
    for _ in range(count):
        token = _TOKEN.match(text, position)
        if token is None:
            return text
        position = token.end()
    return text[:position]


def _capped(model: BaseChatModel) -> BaseChatModel:
    """The model with its own output cap set, where it has one."""
    if "max_tokens" not in type(model).model_fields:
        return model
    return model.model_copy(update={"max_tokens": MAX_TOKENS})
