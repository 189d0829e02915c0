"""How much model work a tenant may ask for in a minute."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ixinfra.spending import Spending

WINDOW_S = 60.0


@dataclass(slots=True)
class _Minute:
    entries: deque[tuple[float, int, int]] = field(default_factory=deque)  # when, calls, tokens
    calls: int = 0
    tokens: int = 0

    def add(self, now_s: float, calls: int, tokens: int) -> None:
        self.entries.append((now_s, calls, tokens))
        self.calls += calls
        self.tokens += tokens

    def forget(self, until_s: float) -> None:
        while self.entries and self.entries[0][0] <= until_s:
            _, calls, tokens = self.entries.popleft()
            self.calls -= calls
            self.tokens -= tokens


@dataclass(slots=True)
class Quota:
    """Counts calls and tokens of each tenant over the last minute; for one event loop.

    Work reserves one call and a guess of its tokens before it starts, so that many searches at once cannot
    all slip through, and says afterwards what it took.

    Attributes:
        calls: Most calls a minute; 0 for none at all, None for no limit.
        tokens: Most tokens a minute, likewise.
        clock: Seconds, never going back.
    """

    calls: int | None = None
    tokens: int | None = None
    clock: Callable[[], float] = time.monotonic
    _spent: dict[str, _Minute] = field(default_factory=dict)

    def take(self, tenant_id: str, tokens: int) -> bool:
        """Whether the tenant may make one more call of about this many tokens; if so, it is counted."""
        now_s, spent = self._minute(tenant_id)
        if self.calls is not None and spent.calls >= self.calls:
            return False
        if self.tokens is not None and spent.tokens + tokens > self.tokens:
            return False
        spent.add(now_s, 1, tokens)
        return True

    def settle(self, tenant_id: str, reserved: int, spent: Spending) -> None:
        """Put what the work really took in place of the call and the `reserved` tokens of `take`."""
        now_s, minute = self._minute(tenant_id)
        minute.add(now_s, spent.calls - 1, spent.tokens - reserved)

    def _minute(self, tenant_id: str) -> tuple[float, _Minute]:
        now_s, minute = self.clock(), self._spent.setdefault(tenant_id, _Minute())
        minute.forget(now_s - WINDOW_S)
        return now_s, minute
