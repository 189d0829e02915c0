"""The sets written for this project: their labels agree with the bundled knowledge base and with themselves."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from importlib import resources
from itertools import combinations
from typing import Any

import pytest

from ixevaluation.dataset import BUNDLED, BUNDLED_DIR, UNJUDGED_MODES, Item, read_items
from ixrag.words import folded

SETS = [name for name in BUNDLED if (BUNDLED_DIR / f"{name}.jsonl").is_file()]
SIZES = {"v1": (50, 50), "elliptic": (120, 140), "reference": (120, 140)}
SHARES = {"fr": 0.35, "en": 0.25, "es": 0.14, "it": 0.13, "de": 0.13}
CONTACT = re.compile(
    r"\S+@\S+|https?://|www\.|(?<!\d)(?:\+\d{2}|0\d)(?:[ .-]?\d{2}){4}(?!\d)|[A-Z]{2}\d{2}(?: ?\d{4}){3}"
)


@cache
def items(name: str) -> tuple[Item, ...]:
    return read_items(BUNDLED_DIR / f"{name}.jsonl")


@cache
def passages() -> dict[str, str]:
    text = resources.files("ixrag").joinpath("sample", "passages.jsonl").read_text(encoding="utf-8")
    return {record["id"]: record["text"] for record in map(json.loads, text.splitlines())}


@cache
def entity_types() -> dict[str, str]:
    text = resources.files("ixrag").joinpath("sample", "graph.json").read_text(encoding="utf-8")
    return {entity["name"]: entity["type"] for entity in json.loads(text)["entities"]}


@cache
def stress() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((BUNDLED_DIR / "stress.json").read_text(encoding="utf-8"))
    return loaded


def said(item: Item) -> str:
    """The last two exchanges, folded; what a resolver is shown."""
    return f" {folded(' '.join(message.content for message in item.history[-4:]))} "


@pytest.mark.parametrize("name", [name for name in SETS if name in SIZES])
def test_a_set_has_its_size_and_its_mix_of_languages(name: str) -> None:
    least, most = SIZES[name]
    assert least <= len(items(name)) <= most
    languages = Counter(item.lang for item in items(name))
    assert set(languages) == set(SHARES)
    for lang, share in SHARES.items():
        assert languages[lang] / len(items(name)) == pytest.approx(share, abs=0.03), lang


def test_the_short_replies_are_mostly_answers_to_a_qualifying_question() -> None:
    modes = Counter(item.mode for item in items("elliptic"))
    assert set(modes) == {"qualification", "case_request", "topic_shift", "no_retrieval", "correction"}
    assert modes["qualification"] / sum(modes.values()) == pytest.approx(0.6, abs=0.05)
    assert min(modes.values()) >= 8
    assert sum(len(item.query.split()) <= 4 for item in items("elliptic")) >= 100


def test_the_follow_ups_hold_every_decision() -> None:
    decisions = Counter(item.expected.decision for item in items("reference") if item.expected)
    assert sum(decisions.values()) == len(items("reference"))
    assert decisions["resolve"] >= 50
    assert decisions["keep"] >= 35
    assert decisions["ambiguous"] >= 20


@pytest.mark.parametrize("name", SETS)
def test_labels_point_at_passages_that_hold_the_answer(name: str) -> None:
    for item in items(name):
        assert set(item.relevant) <= set(passages()), item.id
        if item.answer:
            assert any(item.answer in passages()[passage] for passage in item.relevant), item.id
        if item.mode in UNJUDGED_MODES:
            assert (item.need, item.relevant, item.answer) == (None, (), None), item.id
        else:
            assert item.need, item.id
            assert item.relevant or "no_candidate" in item.tags, item.id


@pytest.mark.parametrize("name", SETS)
def test_the_expected_name_was_said_and_is_not_in_the_message(name: str) -> None:
    for item in items(name):
        if item.expected is None:
            continue
        assert (item.expected.name is not None) is (item.expected.decision == "resolve"), item.id
        if item.expected.name:
            wanted = f" {folded(item.expected.name)} "
            assert item.expected.name in entity_types(), item.id
            assert wanted in said(item), item.id
            assert wanted not in f" {folded(item.query)} ", item.id


def test_a_follow_up_is_ambiguous_only_with_no_candidate_or_several_of_a_kind() -> None:
    for item in items("reference"):
        assert item.expected is not None
        if item.expected.decision != "ambiguous":
            continue
        kinds = Counter(kind for name, kind in entity_types().items() if f" {folded(name)} " in said(item))
        products = kinds["product"] + kinds["module"]
        several = max([products, *kinds.values()]) > 1
        assert several is not ("no_candidate" in item.tags), item.id


@pytest.mark.parametrize("name", SETS)
def test_every_item_belongs_to_its_half_and_its_site(name: str) -> None:
    split = "holdout" if name.endswith("-holdout") else "dev"
    assert {(item.split, item.company_name) for item in items(name)} == {(split, "Velmora")}


def test_no_turn_is_written_twice() -> None:
    turns = Counter(
        (tuple(message.content for message in item.history), item.query)
        for name in SETS
        for item in items(name)
    )
    assert [turn for turn, count in turns.items() if count > 1] == []


def test_no_history_is_a_copy_of_another_with_a_word_changed() -> None:
    """Templates show as histories that share nearly all their words."""
    for name in SETS:
        bags = [(item.id, set(said(item).split())) for item in items(name) if len(said(item).split()) >= 12]
        close = [
            (first, second)
            for (first, a), (second, b) in combinations(bags, 2)
            if len(a & b) / len(a | b) > 0.75
        ]
        assert close == []


@pytest.mark.parametrize("path", sorted(BUNDLED_DIR.glob("*.json*")), ids=lambda path: path.name)
def test_no_address_number_or_link_is_bundled(path: Any) -> None:
    assert CONTACT.findall(path.read_text(encoding="utf-8")) == []


def test_the_stress_set_pairs_enough_standalone_questions_with_dialogues() -> None:
    questions, dialogues = Counter(q["lang"] for q in stress()["questions"]), stress()["dialogues"]
    pairs = sum(questions[dialogue["lang"]] for dialogue in dialogues)
    assert pairs >= 200
    assert set(questions) == set(SHARES)
    assert min(questions.values()) >= 9
    assert min(Counter(dialogue["lang"] for dialogue in dialogues).values()) >= 5


def test_each_stress_dialogue_is_about_one_thing_that_no_question_names() -> None:
    kinds = {"product", "module", "plan", "customer"}
    for dialogue in stress()["dialogues"]:
        names = [e["name"] for e in stress()["companies"][dialogue["company_name"]] if e["type"] in kinds]
        heard = f" {folded(' '.join(message['content'] for message in dialogue['history']))} "
        assert sum(f" {folded(name)} " in heard for name in names) == 1, dialogue
        for question in stress()["questions"]:
            assert not any(f" {folded(name)} " in f" {folded(question['text'])} " for name in names), question
