"""What a piece of work asked of chat models: calls and tokens, counted where the calls are made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass

CHARS_A_TOKEN = 4  # where a server does not count, and for calls that never came back


@dataclass(slots=True)
class Spending:
    """Calls made so far and tokens, those of prompts and answers together."""

    calls: int = 0
    tokens: int = 0


_SPENDING: ContextVar[Spending | None] = ContextVar("ix_spending", default=None)


@contextlib.contextmanager
def spending() -> Iterator[Spending]:
    """Count what is asked of models inside the block, tasks started there included.

    A call counts from its start with the size of its prompt, so that one that is cancelled or fails is not
    free, and with the server's own count once it has answered.
    """
    spent = Spending()
    token = _SPENDING.set(spent)
    try:
        yield spent
    finally:
        _SPENDING.reset(token)


@dataclass(slots=True)
class Bill:
    """One call on its way. `spent` is None where nobody counts."""

    spent: Spending | None
    estimate: int

    def settle(self, *, counted: int, answer_chars: int) -> None:
        """The call has answered: put the server's count in place of the estimate."""
        if self.spent is not None:
            self.spent.tokens += (counted - self.estimate) if counted else answer_chars // CHARS_A_TOKEN


def begin_call(prompt_chars: int) -> Bill:
    """Count a call that is about to be made."""
    bill = Bill(_SPENDING.get(), prompt_chars // CHARS_A_TOKEN + 1)
    if bill.spent is not None:
        bill.spent.calls += 1
        bill.spent.tokens += bill.estimate
    return bill
