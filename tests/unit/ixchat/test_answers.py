"""Cleaning a model's answer: what is taken off, and that it takes no time."""

import time
from collections.abc import Callable

import pytest

from ixchat.utils.answers import answer_lines, is_nothing, is_refusal, unwrap, without_preamble
from ixchat.utils.history import plain_text, turn_from
from ixchat.utils.query_intent import parse_search_query
from ixchat.utils.query_keywords import parse_keywords
from ixchat.utils.query_reference import parse_verdict
from ixchat.utils.terms import find_name

TURN = turn_from("Santé", [("ai", "Quel secteur ?")], "Solvea")
PARSERS: list[Callable[[str], object]] = [
    parse_verdict,
    parse_keywords,
    lambda text: parse_search_query(text, TURN),
    plain_text,
    lambda text: find_name("Badgeo", text),
]


@pytest.mark.parametrize(
    "parse", PARSERS, ids=["verdict", "keywords", "search query", "plain text", "find name"]
)
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("```" + " " * 4_000, id="blanks after an open fence"),
        pytest.param("RESOLVE:" + " " * 4_000 + "Badgeo", id="blanks before a name"),
        pytest.param("RESOLVE: " + "Badgeo - " * 2_000, id="many glosses"),
        pytest.param("<think>" * 2_000, id="open tags"),
        pytest.param("<" * 4_000, id="angle brackets"),
        pytest.param("SPECIFIC:" * 2_000, id="labels"),
        pytest.param("SPECIFIC: " + "," * 4_000 + "\nTHEME: a", id="commas"),
        pytest.param("*_`" * 2_000, id="emphasis"),
        pytest.param("[" * 4_000 + "](" * 2_000, id="brackets"),
        pytest.param("a" * 8_000 + "@", id="almost an address"),
        pytest.param("1" * 8_000, id="digits"),
        pytest.param("\n" * 8_000, id="line breaks"),
        pytest.param("é " * 4_000, id="words"),
    ],
)
def test_parsing_is_linear(parse: Callable[[str], object], answer: str) -> None:
    parse(answer)
    started = time.perf_counter()
    parse(answer)
    assert time.perf_counter() - started < 0.25  # some milliseconds; a backtracking pattern takes seconds


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        pytest.param("a\r\nb\u2028c", ["a", "b", "c"], id="every line end"),
        pytest.param("- a\n* b\n# c\n> d", ["a", "b", "c", "d"], id="bullets"),
        pytest.param("**a** - b", ["**a** - b"], id="a dash inside a line stays"),
        pytest.param("```json\na\n```", ["a"], id="fence"),
        pytest.param("a<think>b", ["a"], id="thinking that never ends"),
        pytest.param("x</think>a", ["a"], id="thinking that never began"),
        pytest.param("\ufeffa\x00b", ["ab"], id="invisible"),
        pytest.param(" \n", [], id="blank"),
    ],
)
def test_answer_lines(answer: str, lines: list[str]) -> None:
    assert answer_lines(answer) == lines


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        pytest.param("« “Badgeo” ».", "Badgeo", id="nested quotes"),
        pytest.param("**Badgeo.**", "Badgeo", id="full stop inside emphasis"),
        pytest.param("etc...", "etc...", id="an ellipsis is no full stop"),
        pytest.param("L’Atelier", "L’Atelier", id="apostrophe inside"),
    ],
)
def test_unwrap(text: str, bare: str) -> None:
    assert unwrap(text) == bare


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        pytest.param("Here's the query: a b", "a b", id="English"),
        pytest.param("Requête de recherche : a b", "a b", id="French, spaced colon"),
        pytest.param("Suchanfrage： a", "a", id="German, full-width colon"),
        pytest.param("Voici la requête", "", id="announcement alone"),
        pytest.param("Solvea : tarifs", "Solvea : tarifs", id="another colon"),
        pytest.param("Query language: SQL", "SQL", id="a label with more words"),
        pytest.param("certification santé", "certification santé", id="a word that begins like an opening"),
    ],
)
def test_without_preamble(line: str, rest: str) -> None:
    assert without_preamble(line) == rest


@pytest.mark.parametrize(
    "text", ["NONE", "none.", "(N/A)", "Aucun", "ningún nombre", "—", "nulla", "Entfällt", "null"]
)
def test_ways_to_say_nothing(text: str) -> None:
    assert is_nothing(text)


@pytest.mark.parametrize("text", ["Nonesuch", "aucun logiciel", "Nada Surf", "Null & Co", "0"])
def test_what_only_looks_like_nothing(text: str) -> None:
    assert not is_nothing(text)


@pytest.mark.parametrize(
    "text", ["I can’t help with that", "Désolé, je", "Lo siento", "Es tut mir leid", "As an AI model"]
)
def test_refusals(text: str) -> None:
    assert is_refusal(text)
    assert not is_refusal("Sorrento tarifs")
