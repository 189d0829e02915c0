from __future__ import annotations

import pytest
from fakes import HashEmbedder, ScriptedModel

from ixchat.utils.anaphora import is_resolution_safe, recent_within, resolve_anaphora
from ixchat.utils.history import turn_from
from ixchat.utils.resolution import Message
from ixrag.query.cache import CacheKey, Lookup, MemoryCache
from ixrag.query.near import NearQueries
from ixrag.query.rewrite_cache import RewriteCache

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


OTHER = [("user", "Do you have a tool for rotas?"), ("assistant", "Yes, Brodal plans rotas in restaurants.")]


@pytest.mark.parametrize(
    ("query", "said", "tenant_id", "model_name", "asked_again"),
    [
        pytest.param(
            "how much is it", SAID, "acme", "m-1", False, id="the same message after the same words"
        ),
        pytest.param("How much is it?", OTHER, "acme", "m-1", True, id="another conversation"),
        pytest.param("It is how much?", SAID, "acme", "m-1", True, id="other words of the same meaning"),
        pytest.param("How much is it?", SAID, "other", "m-1", True, id="another tenant"),
        pytest.param("How much is it?", SAID, "", "m-1", True, id="no tenant"),
        pytest.param("How much is it?", SAID, "acme", "m-2", True, id="another model"),
    ],
)
async def test_a_rewrite_is_remembered_for_its_conversation_alone(
    query: str, said: list[tuple[str, str]], tenant_id: str, model_name: str, asked_again: bool
) -> None:
    near = NearQueries(HashEmbedder(256), at_least=0.5)  # it must not even be asked
    cache = RewriteCache(MemoryCache(), near=near)
    first = ScriptedModel(script=["How much is Stokarel?"], name_on_bill="m-1")
    await resolve_anaphora(turn_from("How much is it?", SAID, tenant_id="acme"), first, cache=cache)
    second = ScriptedModel(script=["How much is Brodal?"], name_on_bill=model_name)
    found = await resolve_anaphora(turn_from(query, said, tenant_id=tenant_id), second, cache=cache)
    assert bool(second.asked) is asked_again
    if not asked_again:
        assert (found.query, found.decision) == ("How much is Stokarel?", "resolve")
        assert found.trace["cache"] == "hit"


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        pytest.param("how much is it", True, id="keep is a verdict"),
        pytest.param("How much is Planivaro Enterprise Suite Gold?", False, id="an unsafe rewrite"),
        pytest.param("", False, id="silence"),
        pytest.param(RuntimeError("down"), False, id="a failure"),
    ],
)
async def test_only_safe_verdicts_are_remembered(answer: object, kept: bool) -> None:
    cache = RewriteCache(MemoryCache())
    model = ScriptedModel(script=[answer])
    turn = turn_from("How much is it?", SAID, tenant_id="acme")
    first = await resolve_anaphora(turn, model, cache=cache)
    again = await resolve_anaphora(turn, model, cache=cache)
    assert (first.query, first.decision, first.fallback) == (again.query, again.decision, again.fallback)
    assert len(model.asked) == (1 if kept else 2)


@pytest.mark.parametrize(
    "stored", [b"junk", b'["How much is Planivaro Enterprise Suite Gold?"]', b'["a", "b"]']
)
async def test_a_damaged_or_planted_entry_is_not_believed(stored: bytes) -> None:
    class Planted(MemoryCache):
        async def get(self, key: CacheKey) -> Lookup:
            return Lookup(stored, "hit")

    model = ScriptedModel(script=["How much is Stokarel?"])
    turn = turn_from("How much is it?", SAID, tenant_id="acme")
    found = await resolve_anaphora(turn, model, cache=RewriteCache(Planted()))
    assert (found.query, len(model.asked)) == ("How much is Stokarel?", 1)


def test_the_conversation_is_walked_backwards_within_its_budget() -> None:
    said = [Message("user", f"{n}" * 40) for n in range(9)]  # 14 tokens each
    assert recent_within(said) == tuple(said[-6:])
    assert recent_within(said, budget_tokens=30) == tuple(said[-2:])
    assert recent_within([*said, Message("user", "x" * 400)], budget_tokens=24) == (
        Message("user", "x" * 80),
    )
