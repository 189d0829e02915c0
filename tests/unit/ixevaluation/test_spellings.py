"""A turn is decided alike however its text is encoded: every bundled turn of five languages, in other spellings."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import pytest
from fakes import FakeRetriever

from ixchat.nodes.deps import Deps
from ixchat.nodes.knowledge_retriever import choose
from ixchat.utils.local import LocalResolver
from ixchat.utils.resolution import Message, Turn
from ixevaluation.dataset import BUNDLED_DIR, read_items
from ixrag.names import NameIndex
from ixrag.profiles import NameProfiles
from ixrag.sample import sample_corpus
from ixrag.words import folded

SETS = ("v1", "elliptic", "reference")

Spelling = Callable[[str], str]

SPELLINGS = [
    pytest.param(lambda text: unicodedata.normalize("NFC", text), id="NFC"),
    pytest.param(lambda text: unicodedata.normalize("NFD", text), id="NFD"),
    pytest.param(lambda text: re.sub(r"(?<=\w)(?=\w)", "\u200b", text), id="zero-width inside words"),
    pytest.param(lambda text: "\ufeff" + text.replace(" ", " \u200b"), id="zero-width before words"),
    pytest.param(lambda text: re.sub(r"(?<=\w\w)(?=\w\w)", "\u00ad", text), id="soft hyphens"),
    pytest.param(lambda text: text.replace("'", "’"), id="typographic apostrophe"),
    pytest.param(lambda text: text.replace("’", "'"), id="typewriter apostrophe"),
    pytest.param(lambda text: re.sub("['’]", "ʼ", text), id="apostrophe that is a letter to Unicode"),
    pytest.param(lambda text: text.replace("-", "\u2011"), id="hyphens that do not break"),
    pytest.param(lambda text: text.replace(" ", "\xa0"), id="blanks that do not break"),
]
CASES = [pytest.param(str.lower, id="lower case"), pytest.param(str.upper, id="capitals")]


@cache
def resolver(*, learned: bool = False) -> LocalResolver:
    corpus = sample_corpus()
    index = NameIndex(corpus.entities)
    profiles = NameProfiles.of((passage.text for passage in corpus.passages), index)
    return LocalResolver(index, learned=learned, profiles=lambda: profiles)


@cache
def turns() -> Sequence[tuple[str, Turn]]:
    return [(item.id, item.turn()) for name in SETS for item in read_items(BUNDLED_DIR / f"{name}.jsonl")]


async def decision(turn: Turn, local: LocalResolver) -> tuple[object, ...]:
    """What is decided and added, without the spelling of either."""
    reference = await local.reference(turn)
    text = await local.search_query(turn)
    keywords = await local.keyword_query(turn)
    return (
        choose(turn, Deps(FakeRetriever())).path,
        *(reference.decision, reference.fallback, reference.trace.get("reason"), folded(reference.query)),
        *(text.decision, text.fallback, folded(text.query)),
        *(keywords.decision, keywords.fallback),
        [folded(word) for words in keywords.retriever_kwargs.values() for word in words],
    )


@pytest.mark.parametrize(
    "local", [resolver(), resolver(learned=True), LocalResolver()], ids=["rules", "learned", "no graph"]
)
@pytest.mark.parametrize("spell", SPELLINGS)
async def test_another_encoding_of_a_turn_is_the_same_turn(spell: Spelling, local: LocalResolver) -> None:
    for item_id, turn in turns():
        messages = [Message(said.role, spell(said.content)) for said in turn.messages]
        spelt = Turn(spell(turn.query), messages, spell(turn.company_name))
        assert await decision(spelt, local) == await decision(turn, local), item_id


@pytest.mark.parametrize("learned", [False, True], ids=["rules", "learned"])
@pytest.mark.parametrize("spell", CASES)
async def test_the_visitors_case_decides_nothing(spell: Spelling, learned: bool) -> None:
    local = resolver(learned=learned)
    for item_id, turn in turns():
        spelt = replace(turn, query=spell(turn.query))
        assert await decision(spelt, local) == await decision(turn, local), item_id
