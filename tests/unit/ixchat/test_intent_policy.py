"""The policy of the hybrid engine: when a short message is a reply, and who is asked about it."""

from __future__ import annotations

import pytest
from search_fakes import FakeIndex, hash_encoders

from ixchat.nodes.deps import Deps
from ixchat.nodes.intent_policy import choose_by_intent, is_reply
from ixchat.utils.history import turn_from
from ixchat.utils.intent_gate import IntentGate
from ixchat.utils.resolution import Resolution, Turn
from ixrag.search.engine import HybridRetriever


def said(assistant: str, query: str) -> Turn:
    return turn_from(
        query,
        [{"role": "user", "content": "Une question."}, {"role": "assistant", "content": assistant}],
    )


@pytest.mark.parametrize(
    ("assistant", "query", "expected"),
    [
        pytest.param("Combien de salariés doivent pointer ?", "environ 600", True, id="an answer"),
        pytest.param("Je peux vous envoyer les tarifs.", "avec plaisir", True, id="after an offer"),
        pytest.param("Pour 20 salariés, Nacelia suffit.", "non, 20 établissements", True, id="a correction"),
        pytest.param("Der Plan heißt Nacelia.", "nein, Gastronomie", True, id="a correction in German"),
        pytest.param("The update changes the worker node.", "disaster recovery", False, id="keywords"),
        pytest.param("Les données restent en France.", "tarifs Stokarel", False, id="keywords in French"),
        pytest.param("See https://example.com/list?page=2 for all.", "node data", False, id="an address"),
        pytest.param(
            "Which plan? " + "The plans differ in support and price. " * 12,
            "support",
            False,
            id="asked long before",
        ),
    ],
)
def test_a_short_message_is_a_reply_where_the_assistant_asked(
    assistant: str, query: str, *, expected: bool
) -> None:
    assert is_reply(said(assistant, query)) is expected


def test_without_a_conversation_nothing_is_a_reply() -> None:
    assert not is_reply(Turn("oui"))
    assert not is_reply(turn_from("tarifs", [{"role": "user", "content": "Vous êtes là ?"}]))


async def test_keywords_after_a_statement_are_searched_as_written() -> None:
    async def never(_turn: Turn) -> Resolution:
        raise AssertionError("no resolver should be asked")

    engine = HybridRetriever(FakeIndex({}), hash_encoders(), "base")
    deps = Deps(engine, text_resolver=never, reference_resolver=never)
    turn = said("The update changes the worker node.", "disaster recovery")
    plan = choose_by_intent(turn, deps, IntentGate())
    assert (await plan.resolver(turn)).query == "disaster recovery"
    reply = said("Which topic do you mean?", "disaster recovery")
    assert choose_by_intent(reply, deps, IntentGate()).resolver is never
