"""Where to set `ask_below`: what learned weights decide alone at each confidence, how well, and which calls that saves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ixchat.nodes.deps import Deps
from ixchat.nodes.knowledge_retriever import choose
from ixchat.utils.local.resolver import LocalResolver
from ixchat.utils.resolution import Resolution, Resolver
from ixevaluation.dataset import Item
from ixevaluation.report import outcome
from ixevaluation.stress import stress_pairs

THRESHOLDS = tuple(step / 100 for step in range(50, 100, 5))


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision without a model on a turn where a person has decided, too."""

    confidence: float
    is_right: bool


@dataclass(frozen=True, slots=True)
class Point:
    """One setting of `ask_below`.

    Attributes:
        ask_below: Confidence below which the model is asked.
        turns: Turns that reach the check.
        alone: Turns the rules decide alone: the calls saved.
        right: How many of those they decide as the person did.
    """

    ask_below: float
    turns: int
    alone: int
    right: int

    @property
    def at_best(self) -> int:
        """Right decisions with a model that is never wrong."""
        return self.right + self.turns - self.alone


def sweep(decided: Sequence[Decided], thresholds: Iterable[float] = THRESHOLDS) -> list[Point]:
    """Every setting on the same decisions."""
    points = []
    for ask_below in thresholds:
        alone = [one.is_right for one in decided if one.confidence >= ask_below]
        points.append(Point(ask_below, len(decided), len(alone), sum(alone)))
    return points


async def decide_items(items: Sequence[Item], deps_for: Callable[[Item], Deps]) -> list[Decided]:
    """Labelled items that the shipping policy sends to the check, decided by the tenant's local resolver."""
    found = []
    for item in items:
        deps, turn = deps_for(item), item.turn()
        if item.expected is None or deps.local is None or choose(turn, deps).path != "reference":
            continue
        guess = await deps.local.reference(turn)
        how = outcome(
            item.expected.decision == "resolve",
            item.expected.name,
            changed=guess.changes(turn),
            searched=guess.query,
        )
        found.append(Decided(_confidence(guess), how == "right"))
    return found


async def decide_stress() -> list[Decided]:
    """Every pair of the stress set; keeping the message is right."""
    found = []
    for pair in stress_pairs():
        resolve: Resolver = LocalResolver(pair.names, learned=True).reference
        guess = await resolve(pair.turn)
        found.append(Decided(_confidence(guess), not guess.changes(pair.turn)))
    return found


def _confidence(guess: Resolution) -> float:
    return float(guess.trace.get("confidence", 0.0))
