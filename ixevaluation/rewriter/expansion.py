"""Model-free ways to put the conversation into the query. Baselines: a resolver has to beat them."""

from __future__ import annotations

import re
from collections.abc import Callable

from ixchat.utils.resolution import Turn

TOPIC_RARITY = 4.5  # nats; a word this rare anywhere in the conversation names its topic
RECENT_RARITY = 3.5  # enough for a word of the previous visitor message
CLEAR_RARITY = 6.0  # a message with a word this rare stands on its own
MAX_ADDED_WORDS = 6

_WORD = re.compile(r"\w[\w'’-]+")


def with_previous_message(turn: Turn) -> str:
    """The previous visitor message, a blank, and this one."""
    users = _user_messages(turn)
    return f"{users[-1]} {turn.query}" if users else turn.query


def with_all_user_messages(turn: Turn) -> str:
    """This message and every earlier visitor message, newest first."""
    return " ".join([turn.query, *reversed(_user_messages(turn))])


def with_rare_words(turn: Turn, rarity: Callable[[str], float]) -> str:
    """The message with the rare words of earlier visitor messages appended.

    Args:
        turn: The message and its conversation.
        rarity: Inverse document frequency of a word in nats, 0 when the collection lacks it.

    Source: the idea of historical query expansion, Yang et al., TREC CAsT 2019: topic words from the
    whole conversation, weaker words from the last turn, both only where the message is unclear.
    """
    own = {word.casefold() for word in _WORD.findall(turn.query)}
    users = _user_messages(turn)
    is_clear = rarity(turn.query) >= CLEAR_RARITY
    if is_clear or not users:
        return turn.query
    added: dict[str, str] = {}
    for age, message in enumerate(reversed(users)):
        least = RECENT_RARITY if age == 0 else TOPIC_RARITY
        for word in _WORD.findall(message):
            if word.casefold() not in own and rarity(word) >= least:
                added.setdefault(word.casefold(), word)
    return " ".join([turn.query, *list(added.values())[:MAX_ADDED_WORDS]])


def _user_messages(turn: Turn) -> list[str]:
    return [message.content for message in turn.messages if message.role == "user"]
