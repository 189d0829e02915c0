"""Conversations that the server keeps for its clients, in memory."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

MAX_MESSAGES = 100  # of one conversation; resolvers read the last two exchanges


@dataclass(eq=False, slots=True)
class Thread:
    """One conversation, oldest message first, and how often somebody has spoken."""

    messages: list[AnyMessage] = field(default_factory=list)
    turns: int = 0

    def say(self, message: str) -> int:
        """Add the visitor's message; returns the number of this turn."""
        self._add(HumanMessage(message))
        self.turns += 1
        return self.turns

    def answer(self, turn: int, text: str) -> None:
        """Add the answer, unless the visitor has spoken again meanwhile."""
        if turn == self.turns:
            self._add(AIMessage(text))

    def _add(self, message: AnyMessage) -> None:
        self.messages.append(message)
        del self.messages[:-MAX_MESSAGES]


@dataclass(eq=False, slots=True)
class Threads:
    """The conversations of all tenants; the longest untouched is forgotten first.

    Attributes:
        max_threads: How many are kept.
    """

    max_threads: int
    _threads: OrderedDict[tuple[str, str], Thread] = field(default_factory=OrderedDict)

    def open(self, tenant_id: str, thread_id: str) -> Thread:
        """The conversation of that id, new where it is unknown. The same id of two tenants is two threads."""
        thread = self._threads.setdefault((tenant_id, thread_id), Thread())
        self._threads.move_to_end((tenant_id, thread_id))
        while len(self._threads) > self.max_threads:
            self._threads.popitem(last=False)
        return thread
