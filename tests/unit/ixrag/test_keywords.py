"""Graph keywords without a model."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ixrag.lightrag.keywords import MAX_KEYWORDS, extract_keywords
from ixrag.lightrag.manifest import EntityName
from ixrag.lightrag.stop_words import STOP_WORDS
from ixrag.names import NameIndex
from ixrag.words import fold_word

NAMES = NameIndex(
    [
        EntityName(name="Brodal", type="product", aliases=("Brodal Plan",)),
        EntityName(name="Café Lumquat", type="customer"),
        EntityName(name="Lumquat", type="product"),
        EntityName(name="C++", type="feature"),
    ]
)


@pytest.mark.parametrize(
    ("query", "ll", "hl"),
    [
        pytest.param("Combien coûte Brodal ?", ["Brodal"], ["coûte", "Brodal"], id="fr"),
        pytest.param("How much is the brodal plan?", ["Brodal"], ["Brodal"], id="alias, any case"),
        pytest.param("¿Y el CAFE LUMQUAT en España?", ["Café Lumquat"], ["Café Lumquat", "España"], id="longest name, accents"),
        pytest.param("Welche Filialen nutzen Lumquat", ["Lumquat"], ["Filialen", "nutzen", "Lumquat"], id="de"),
        pytest.param("Quanto dura la prova gratuita?", ["dura", "prova", "gratuita"], ["dura", "prova", "gratuita"], id="it"),
        pytest.param("lumquats", ["lumquats"], ["lumquats"], id="no part of a word"),
        pytest.param("Brodal BRODAL prix Prix", ["Brodal"], ["Brodal", "prix"], id="repeats"),
        pytest.param("多少钱 Brodal", ["Brodal"], ["多少钱", "Brodal"], id="script without spaces"),
        pytest.param("Oui", ["Oui"], ["Oui"], id="stop words alone"),
        pytest.param("Et vous ?", ["Et vous ?"], ["Et vous ?"], id="nothing but stop words"),
        pytest.param("👍", ["👍"], ["👍"], id="no words"),
        pytest.param("5", ["5"], ["5"], id="a number"),
        pytest.param("", [], [], id="empty"),
        pytest.param(" \n", [], [], id="blank"),
    ],
)  # fmt: skip
def test_names_stand_alone_for_entities_and_in_order_for_themes(
    query: str, ll: list[str], hl: list[str]
) -> None:
    assert extract_keywords(query, NAMES) == (ll, hl)


@given(st.text(max_size=300))
def test_both_lists_or_none_each_short_and_without_repeats(query: str) -> None:
    ll, hl = extract_keywords(query, NAMES)
    assert bool(ll) == bool(hl) == bool(query.strip())
    for keywords in (ll, hl):
        assert len(keywords) <= MAX_KEYWORDS
        assert len({keyword.casefold() for keyword in keywords}) == len(keywords)
        assert all(keyword.strip() for keyword in keywords)


def test_stop_words_are_in_the_form_they_are_compared_in() -> None:
    assert {word for word in STOP_WORDS if fold_word(word) != word} == set()


def test_twenty_thousand_names_cost_no_more_than_a_few() -> None:
    many = NameIndex(EntityName(name=f"Brodal {number} Nord") for number in range(20_000))
    started = time.perf_counter()
    for _ in range(100):
        assert extract_keywords("Combien coûte Brodal 77 Nord ?", many)[0][0] == "Brodal 77 Nord"
    assert time.perf_counter() - started < 2  # about 10 ms where nothing else runs
