"""The scripted conversation of the demo: its expectations can be met from what was said before."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, get_args

import pytest

from ixchat.nodes.record import Path
from ixchat.utils.resolution import FALLBACKS, Decision

SCENARIOS: list[dict[str, Any]] = json.loads(
    resources.files("ixchat").joinpath("sample", "conversation.json").read_text(encoding="utf-8")
)["scenarios"]
TURNS = [
    pytest.param(scenario["turns"], position, id=f"{scenario['id']}-{position}")
    for scenario in SCENARIOS
    for position in range(len(scenario["turns"]))
]


def test_both_tenants_are_played_in_both_languages() -> None:
    played = {(scenario["tenant"], scenario["lang"]) for scenario in SCENARIOS}
    assert played == {(tenant, lang) for tenant in ("lite", "advanced") for lang in ("fr", "en")}
    assert len({scenario["id"] for scenario in SCENARIOS}) == len(SCENARIOS)


def test_every_outcome_is_shown() -> None:
    shown = {(turn["expect"]["path"], turn["expect"]["decision"]) for s in SCENARIOS for turn in s["turns"]}
    assert {path for path, _ in shown} == set(get_args(Path))
    assert {decision for _, decision in shown} == set(get_args(Decision))


@pytest.mark.parametrize(("turns", "position"), TURNS)
def test_a_turn_expects_something_that_can_happen(turns: list[dict[str, Any]], position: int) -> None:
    turn = turns[position]
    expect = turn["expect"]
    assert turn["user"].strip()
    assert turn["assistant"].strip()
    assert expect.get("fallback") is None or expect["fallback"] in FALLBACKS
    assert (expect.get("fallback") == "first_turn") is (position == 0)
    assert (turn.get("model") == "dead") is (expect["decision"] == "error")


@pytest.mark.parametrize(("turns", "position"), TURNS)
def test_a_resolved_name_was_said_in_the_last_two_turns(turns: list[dict[str, Any]], position: int) -> None:
    name = turns[position]["expect"].get("name")
    if turns[position]["expect"]["path"] == "reference":
        assert (name is not None) is (turns[position]["expect"]["decision"] == "resolve")
    if name:
        said = " ".join(t["user"] + t["assistant"] for t in turns[max(0, position - 2) : position])
        assert name in said
        assert name not in turns[position]["user"]
