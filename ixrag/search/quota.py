"""How much model work a tenant may ask for in a minute."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

WINDOW_S = 60.0


@dataclass(slots=True)
class Quota:
    """Counts calls and tokens of each tenant over the last minute; for one event loop.

    Attributes:
        calls: Most calls a minute; 0 for none at all, None for no limit.
        tokens: Most tokens a minute, likewise.
        clock: Seconds, never going back.
    """

    calls: int | None = None
    tokens: int | None = None
    clock: Callable[[], float] = time.monotonic
    _spent: dict[str, deque[tuple[float, int]]] = field(default_factory=lambda: defaultdict(deque))

    def take(self, tenant_id: str, tokens: int) -> bool:
        """Whether the tenant may make one more call of about this many tokens; if so, it is counted."""
        now, spent = self.clock(), self._spent[tenant_id]
        while spent and spent[0][0] <= now - WINDOW_S:
            spent.popleft()
        if self.calls is not None and len(spent) >= self.calls:
            return False
        if self.tokens is not None and sum(size for _, size in spent) + tokens > self.tokens:
            return False
        spent.append((now, tokens))
        return True
