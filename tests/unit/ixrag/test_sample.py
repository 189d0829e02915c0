"""The bundled knowledge base about Velmora: its references hold, and it names no real person or address."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib import resources
from typing import Any

import pytest

ENTITY_TYPES = {
    "company",
    "customer",
    "event",
    "feature",
    "module",
    "office",
    "partner",
    "plan",
    "product",
    "sector",
}
LEAST_PASSAGES = {"fr": 35, "en": 30, "es": 6, "it": 6, "de": 6}
CONTACT = re.compile(r"\S+@\S+|https?://|www\.|(?<!\d)(?:\+\d{2}|0\d)(?:[ .-]?\d{2}){4}(?!\d)")


def _read(name: str) -> str:
    return resources.files("ixrag").joinpath("sample", name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def passages() -> list[dict[str, str]]:
    return [json.loads(line) for line in _read("passages.jsonl").splitlines()]


@pytest.fixture(scope="module")
def graph() -> dict[str, list[dict[str, Any]]]:
    loaded: dict[str, list[dict[str, Any]]] = json.loads(_read("graph.json"))
    return loaded


def test_passages_have_unique_ids_that_begin_with_their_language(passages: list[dict[str, str]]) -> None:
    assert all(set(p) == {"id", "title", "lang", "source", "text"} for p in passages)
    assert max(Counter(p["id"] for p in passages).values()) == 1
    assert max(Counter(p["text"] for p in passages).values()) == 1
    assert [p["id"] for p in passages if not re.fullmatch(rf"{p['lang']}(-[a-z0-9]+)+", p["id"])] == []


def test_passages_cover_five_languages_and_are_of_one_size(passages: list[dict[str, str]]) -> None:
    languages = Counter(p["lang"] for p in passages)
    assert set(languages) == set(LEAST_PASSAGES)
    assert all(languages[lang] >= least for lang, least in LEAST_PASSAGES.items())
    assert [p["id"] for p in passages if not 40 <= len(p["text"].split()) <= 110] == []


def test_entities_are_named_once_and_rest_on_passages(
    passages: list[dict[str, str]], graph: dict[str, list[dict[str, Any]]]
) -> None:
    known = {p["id"] for p in passages}
    names = [name.casefold() for e in graph["entities"] for name in (e["name"], *e["aliases"])]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    for entity in graph["entities"]:
        assert set(entity) == {"name", "type", "aliases", "description", "passages"}
        assert entity["type"] in ENTITY_TYPES, entity["name"]
        assert entity["passages"], entity["name"]
        assert set(entity["passages"]) <= known, entity["name"]
        assert 4 <= len(entity["description"].split()) <= 30, entity["name"]


def test_a_named_thing_occurs_in_each_passage_it_rests_on(
    passages: list[dict[str, str]], graph: dict[str, list[dict[str, Any]]]
) -> None:
    text = {p["id"]: f"{p['title']} {p['text']}" for p in passages}
    absent = [
        (entity["name"], passage)
        for entity in graph["entities"]
        if entity["type"] not in {"sector", "feature"}
        for passage in entity["passages"]
        if not any(name in text[passage] for name in (entity["name"], *entity["aliases"]))
    ]
    assert absent == []


def test_relations_join_known_entities_once_and_rest_on_a_passage(
    passages: list[dict[str, str]], graph: dict[str, list[dict[str, Any]]]
) -> None:
    known = {p["id"] for p in passages}
    names = {e["name"] for e in graph["entities"]}
    pairs: Counter[frozenset[str]] = Counter()
    for relation in graph["relations"]:
        assert set(relation) == {"source", "target", "description", "keywords", "weight", "passage"}
        assert {relation["source"], relation["target"]} <= names
        assert relation["source"] != relation["target"]
        assert relation["passage"] in known
        assert relation["keywords"]
        assert 0 < relation["weight"] <= 2
        pairs[frozenset((relation["source"], relation["target"]))] += 1
    assert [set(pair) for pair, count in pairs.items() if count > 1] == []
    assert names - {name for pair in pairs for name in pair} == set()


def test_every_passage_can_be_reached_from_the_graph(
    passages: list[dict[str, str]], graph: dict[str, list[dict[str, Any]]]
) -> None:
    reached = {passage for e in graph["entities"] for passage in e["passages"]}
    assert {p["id"] for p in passages} - reached == set()


@pytest.mark.parametrize("name", ["passages.jsonl", "graph.json"])
def test_no_address_number_or_link_is_bundled(name: str) -> None:
    assert CONTACT.findall(_read(name)) == []
