from __future__ import annotations

import pytest
from fakes import ScriptedModel

from ixchat.utils.anaphora import is_resolution_safe, recent_within, resolve_anaphora
from ixchat.utils.history import turn_from
from ixchat.utils.resolution import Message

SAID = [
    ("user", "Do you have a tool for stock?"),
    ("assistant", "Yes, Stokarel counts stock in restaurants."),
]
HISTORY = [text for _, text in SAID]


@pytest.mark.parametrize(
    ("original", "resolved", "safe"),
    [
        pytest.param("How much is it?", "How much is Stokarel?", True, id="a name of the conversation"),
        pytest.param("Is it used in a restaurant?", "Is Stokarel used in a restaurant?", True, id="another ending"),
        pytest.param("How much is it?", "How much is the Stokarel licence?", True, id="one new word"),
        pytest.param("How much is it?", "How much is Planivaro Enterprise Suite Gold?", False, id="an invented product"),
        pytest.param("Pour 12 magasins ?", "Stokarel pour plusieurs magasins ?", False, id="a figure is lost"),
        pytest.param("How much is it?", "How much is Stokarel for 40 shops?", False, id="a figure is invented"),
        pytest.param("How much is it?", "", False, id="nothing"),
        pytest.param("How much is it?", " ".join(["Stokarel"] * 40), False, id="far too long"),
        pytest.param("Combien ça coûte ?", "Combien est-ce que Stokarel coûte ?", True, id="small words of French"),
    ],
)  # fmt: skip
def test_a_rewrite_may_add_next_to_nothing(original: str, resolved: str, safe: bool) -> None:
    assert is_resolution_safe(original, resolved, HISTORY) is safe


@pytest.mark.parametrize(
    ("answer", "query", "decision", "fallback"),
    [
        pytest.param("How much is Stokarel?", "How much is Stokarel?", "resolve", None, id="rewritten"),
        pytest.param("how much is it", "How much is it?", "keep", None, id="repeated"),
        pytest.param("It costs three euros.\nAsk sales.", "How much is it?", "error", "unparsable", id="two lines"),
        pytest.param("How much is Planivaro Enterprise Suite Gold?", "How much is it?", "error", "not_in_history", id="invented"),
        pytest.param("", "How much is it?", "error", "empty", id="silent"),
        pytest.param(RuntimeError("down"), "How much is it?", "error", "model_error", id="down"),
    ],
)  # fmt: skip
async def test_whatever_the_model_says_there_is_a_query(
    answer: object, query: str, decision: str, fallback: str | None
) -> None:
    found = await resolve_anaphora(turn_from("How much is it?", SAID), ScriptedModel(script=[answer]))
    assert (found.query, found.decision, found.fallback) == (query, decision, fallback)


async def test_a_hanging_model_is_a_timeout() -> None:
    found = await resolve_anaphora(
        turn_from("How much is it?", SAID), ScriptedModel(delay_s=30.0), timeout_s=0.01
    )
    assert (found.query, found.fallback) == ("How much is it?", "timeout")


async def test_a_first_turn_asks_no_model() -> None:
    model = ScriptedModel()
    assert (await resolve_anaphora(turn_from("How much is it?"), model)).fallback == "first_turn"
    assert model.asked == []


def test_the_conversation_is_walked_backwards_within_its_budget() -> None:
    said = [Message("user", f"{n}" * 40) for n in range(9)]  # 14 tokens each
    assert recent_within(said) == tuple(said[-6:])
    assert recent_within(said, budget_tokens=30) == tuple(said[-2:])
    assert recent_within([*said, Message("user", "x" * 400)], budget_tokens=24) == (
        Message("user", "x" * 80),
    )
