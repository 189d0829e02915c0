"""Where to set `ask_below`: calls saved against decisions that nobody checks."""

from __future__ import annotations

from typing import Any

import pytest

from ixchat.nodes.deps import Resolvers
from ixchat.utils.resolution import Resolution, Resolver, Turn, keep_raw
from ixevaluation.dataset import Expected
from ixevaluation.stress import stress_pairs
from ixevaluation.thresholds import Decided, decide_items, decide_stress, sweep

DECIDED = [Decided(0.5, False), Decided(0.7, True), Decided(0.7, False), Decided(0.9, True)]


@pytest.mark.parametrize(
    ("ask_below", "alone", "right", "at_best"),
    [
        pytest.param(0.5, 4, 2, 2, id="never asked"),
        pytest.param(0.7, 3, 2, 3, id="a confidence as high as the threshold stands"),
        pytest.param(0.71, 1, 1, 4, id="asked in between"),
        pytest.param(0.95, 0, 0, 4, id="always asked"),
    ],
)
def test_a_threshold_trades_calls_for_unchecked_decisions(
    ask_below: float, alone: int, right: int, at_best: int
) -> None:
    (point,) = sweep(DECIDED, [ask_below])
    assert (point.turns, point.alone, point.right, point.at_best) == (4, alone, right, at_best)


def appends(name: str, confidence: float) -> Resolver:
    async def resolve(turn: Turn) -> Resolution:
        return Resolution(f"{turn.query} — {name}", "resolve", trace={"confidence": confidence})

    return resolve


async def test_labelled_turns_of_the_check_are_decided_without_the_model(
    item: Any, retriever: Any, arm_deps: Any
) -> None:
    long = "How much would that cost for eighty people?"
    items = [
        item("a", query=long, expected=Expected(decision="resolve", name="Zanthic")),
        item("b", query=long, expected=Expected(decision="keep")),
        item("c", query="Health", expected=Expected(decision="keep")),
        item("d", query=long),
    ]
    local = Resolvers(keep_raw, keep_raw, appends("Zanthic", 0.8))
    deps = arm_deps(retriever({}), local=local)
    assert await decide_items(items, lambda _item: deps) == [Decided(0.8, True), Decided(0.8, False)]
    assert await decide_items(items, lambda _item: arm_deps(retriever({}))) == []


async def test_stress_questions_are_kept_after_any_dialogue() -> None:
    decided = await decide_stress()
    assert len(decided) == len(stress_pairs()) >= 200
    wrong = sum(not one.is_right for one in decided)
    assert wrong <= 0.01 * len(decided)
