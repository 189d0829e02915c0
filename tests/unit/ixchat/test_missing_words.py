"""Words weighed beside a search: what the node does with them, and what happens when they cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from fakes import FakeRetriever
from langchain_core.documents import Document

from ixchat.effort import with_effort
from ixchat.nodes.knowledge_retriever import Deps, choose, retrieve
from ixchat.utils.local.grounding import ground_words
from ixchat.utils.local.learned import WordWeigher, missing_words
from ixchat.utils.resolution import Message, Missing, MissingWord, Resolution, Turn
from ixinfra.config.settings import RagMode
from ixinfra.errors import RetrievalError
from ixrag.rarity import Rarity

RARITY = Rarity.of(["the cost of a plan", "how to cancel a plan", "symptoms and treatment", "what is it"] * 5)
FOLLOW_UP = Turn(
    "How is it treated?",
    (
        Message("user", "What is anemia?"),
        Message("assistant", "Anemia means too few healthy red blood cells."),
    ),
)
BEHIND = ["Haematology: anemia\nAnemia is a lack of red blood cells.", "Blood tests for anemia"]


async def weigh(turn: Turn) -> Missing:
    return Missing(0.9, (MissingWord("anemia", 0.8, 0.7),))


class WordIndex:
    """An engine with written words: what it was asked, and how it misbehaves."""

    rag_mode: RagMode = "naive"

    def __init__(self, *, error: Exception | None = None, delay_s: float = 0.0) -> None:
        self.error, self.delay_s = error, delay_s
        self.looked_up: list[str] = []

    async def ainvoke(self, input: str, **kwargs: Any) -> Sequence[Document]:
        return []

    async def said_in(self, texts: Sequence[str], passages: int) -> list[list[str]]:
        self.looked_up += texts
        await asyncio.sleep(self.delay_s)
        if self.error:
            raise self.error
        return [BEHIND[:passages] for _ in texts]


async def test_the_words_go_beside_the_search_and_into_the_record() -> None:
    engine = FakeRetriever(["a"], rag_mode="naive")
    found = await retrieve(FOLLOW_UP, Deps(engine, weigh=weigh))
    assert engine.calls == [(FOLLOW_UP.query, {"missing_words": {"anemia": 0.7}})]
    assert found.record["missing_words"] == {
        "need": 0.9,
        "words": [{"word": "anemia", "weight": 0.7}],
        "problem": None,
    }
    assert found.record["changed"]


async def test_they_accompany_a_resolved_text_too() -> None:
    async def resolve(turn: Turn) -> Resolution:
        return Resolution(f"{turn.query} — anemia", "resolve")

    engine = FakeRetriever(["a"], ["b"], rag_mode="mix")
    await retrieve(FOLLOW_UP, Deps(engine, reference_resolver=resolve, weigh=weigh))
    assert engine.calls[-1] == (f"{FOLLOW_UP.query} — anemia", {"missing_words": {"anemia": 0.7}})


@pytest.mark.parametrize(
    ("turn", "deps"),
    [
        pytest.param(Turn("How is it treated?"), Deps(FakeRetriever(["a"]), weigh=weigh), id="first turn"),
        pytest.param(FOLLOW_UP, Deps(FakeRetriever(["a"]), weigh=weigh, enabled=False), id="switched off"),
        pytest.param(
            FOLLOW_UP, with_effort(Deps(FakeRetriever(["a"]), weigh=weigh), "off"), id="no effort wanted"
        ),
    ],
)
def test_nothing_is_weighed_where_nothing_is_resolved(turn: Turn, deps: Deps) -> None:
    assert choose(turn, deps).weigh is None


async def test_a_broken_weigher_costs_the_turn_nothing() -> None:
    async def broken(turn: Turn) -> Missing:
        raise RuntimeError("no")

    engine = FakeRetriever(["a"], rag_mode="naive")
    found = await retrieve(FOLLOW_UP, Deps(engine, weigh=broken))
    assert engine.calls == [(FOLLOW_UP.query, {})]
    assert found.record["problems"] == ["missing_words:RuntimeError"]
    assert found.record["documents"] == 1


async def test_a_search_that_fails_with_the_words_is_repeated_without_them() -> None:
    async def resolve(turn: Turn) -> Resolution:
        return Resolution("anemia treatment", "resolve")

    turn = Turn("Treatment", FOLLOW_UP.messages)
    engine = FakeRetriever(RetrievalError("down", reason="unavailable"), ["a"], rag_mode="naive")
    found = await retrieve(turn, Deps(engine, text_resolver=resolve, weigh=weigh))
    assert engine.calls[-1] == ("Treatment", {})
    assert found.record["fallback"] == "search_failed"
    assert found.record["documents"] == 1


async def test_own_words_that_fail_beside_others_are_searched_alone() -> None:
    engine = FakeRetriever(RetrievalError("down", reason="unavailable"), ["a"], rag_mode="naive")
    found = await retrieve(FOLLOW_UP, Deps(engine, weigh=weigh))
    assert engine.calls[1:] == [(FOLLOW_UP.query, {})]
    assert found.record["documents"] == 1


async def test_passages_behind_an_answer_are_looked_up_once() -> None:
    index = WordIndex()
    weigher = WordWeigher(RARITY, index)
    first = await weigher(FOLLOW_UP)
    assert await weigher(FOLLOW_UP) == first
    assert index.looked_up == ["Anemia means too few healthy red blood cells."]
    assert "haematology" in {word.text for word in first.words}  # of the passage alone
    assert "anemia" in {word.text.lower() for word in first.words}


@pytest.mark.parametrize(
    "index",
    [
        pytest.param(WordIndex(error=RetrievalError("down", reason="unavailable")), id="failing"),
        pytest.param(WordIndex(delay_s=60.0), id="hanging"),
    ],
)
async def test_without_its_passages_the_conversation_is_read_alone(index: WordIndex) -> None:
    found = await WordWeigher(RARITY, index)(FOLLOW_UP)
    alone = missing_words(FOLLOW_UP, RARITY)
    assert found.problem in ("RetrievalError", "TimeoutError")
    assert found.need == alone.need
    assert {word.text for word in found.words} <= {word.text for word in alone.words}
    assert found.words


async def test_a_message_that_needs_nothing_gets_no_words() -> None:
    alone = Turn("What is photosynthesis in plants?", FOLLOW_UP.messages)
    missing = await WordWeigher(RARITY, WordIndex())(alone)
    assert (missing.words == ()) is (missing.need < 0.2)
    assert missing.need < (await WordWeigher(RARITY, WordIndex())(FOLLOW_UP)).need


def test_words_of_passages_are_counted_by_share_title_and_age() -> None:
    """Two answers with two passages each; 'anemia' is in three of them, 'iron' in one of the older answer's."""
    answers = ["Anemia is common.", "Iron helps."]
    passages = [["Anemia guide", "Blood and anemia"], ["Iron and anemia", "Diet"]]
    words = ground_words(answers, passages, "en")
    assert words["anemia"].share == pytest.approx(3 / 4)
    assert words["anemia"].last == 1.0
    assert (words["iron"].share, words["iron"].last) == (pytest.approx(1 / 4), 0.0)
    assert words["anemia"].support == pytest.approx(1 / 2)  # of "anemia common", "anemia" is found
