"""How much may be searched ahead of a verdict, on a guess that may prove wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class AheadBudget:
    """Bounds the searches started on a guess; shared by the turns of one tenant.

    A guess costs the engine one search that is thrown away when the verdict is another. So only a share
    of the turns may start one, and only while few of them run at once: a busy engine serves verdicts.

    Attributes:
        max_share: Largest share of checked turns that search ahead, 0 to 1; 0 never does.
        max_running: Most such searches at once.
    """

    max_share: float = 0.2
    max_running: int = 2
    turns: int = 0
    started: int = 0
    running: int = 0

    def take(self, *, wanted: bool) -> bool:
        """Count a checked turn and say whether its guess may be searched; if so, `give_back` at the end."""
        self.turns += 1
        allowed = wanted and self.running < self.max_running and self.started < self.max_share * self.turns
        if allowed:
            self.started += 1
            self.running += 1
        return allowed

    def give_back(self) -> None:
        """The search ahead has ended."""
        self.running -= 1
