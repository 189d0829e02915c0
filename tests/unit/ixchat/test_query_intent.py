"""`resolve_search_query`: a short reply becomes a short query for the chunk channel."""

import json
from pathlib import Path

import pytest
from fakes import ScriptedModel
from hypothesis import given
from hypothesis import strategies as st

from ixchat.utils.history import turn_from
from ixchat.utils.query_intent import MAX_WORDS, PROMPT, parse_search_query, resolve_search_query
from ixchat.utils.resolution import FALLBACKS, Turn
from ixchat.utils.terms import find_name

CASES = [
    case
    for case in map(
        json.loads,
        Path(__file__).parents[2].joinpath("cases/answers.jsonl").read_text(encoding="utf-8").splitlines(),
    )
    if case["input"]["resolver"] == "intent"
]
HISTORY = [("user", "Combien coûte le planning ?"), ("ai", "Quel est votre secteur ?")]


def turn(query: str = "Santé", company: str = "Solvea") -> Turn:
    return turn_from(query, HISTORY, company)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['id']}-{case['kind']}")
async def test_recorded_cases(case: dict) -> None:
    model = ScriptedModel(script=[case["input"]["model_output"]])
    given_turn = turn_from(case["input"]["message"], case["input"]["history"], case["input"]["company_name"])
    resolution = await resolve_search_query(given_turn, model)
    expected = case["expected"]
    assert resolution.fallback == expected.get("fallback_reason")
    assert resolution.query in expected.get("query_any_of", [expected.get("query", resolution.query)])
    assert resolution.query.startswith(expected.get("query_starts_with", ""))
    assert len(resolution.query.split()) <= expected.get("query_max_words", MAX_WORDS)
    assert expected.get("query_excludes", "\0") not in resolution.query


@pytest.mark.parametrize(
    ("answer", "query"),
    [
        pytest.param("Solvea tarifs santé", "Solvea tarifs santé", id="as agreed"),
        pytest.param("tarifs santé", "tarifs santé Solvea", id="company left out"),
        pytest.param("tarifs santé SOLVEA", "tarifs santé SOLVEA", id="company in another case"),
        pytest.param(
            "un deux trois quatre cinq six sept huit neuf",
            "un deux trois quatre cinq six sept Solvea",
            id="cut",
        ),
        pytest.param("a b c d e f g h Solvea", "a b c d e f g Solvea", id="company behind the cut"),
        pytest.param(
            "Solvea a b c d e f g h santé", "Solvea a b c d e f santé", id="own words behind the cut"
        ),
        pytest.param("Query: Solvea tarifs santé", "Solvea tarifs santé", id="label"),
        pytest.param(
            "Voici la requête :\n« Solvea tarifs santé »",
            "Solvea tarifs santé",
            id="preamble on its own line",
        ),
        pytest.param(
            "Solvea **tarifs** santé.\n\nThis finds prices.", "Solvea tarifs santé", id="comment below"
        ),
        pytest.param("```\nSolvea tarifs santé\n```", "Solvea tarifs santé", id="fence"),
        pytest.param(
            "<think>2. The visitor…</think>Solvea tarifs santé", "Solvea tarifs santé", id="thinking"
        ),
        pytest.param(
            "Solvea santé https://evil.example", "Solvea santé", id="an address is no word to search"
        ),
    ],
)
async def test_a_query_keeps_the_rules(answer: str, query: str) -> None:
    resolution = await resolve_search_query(turn(), ScriptedModel(script=[answer]))
    assert (resolution.query, resolution.decision, resolution.fallback) == (query, "resolve", None)
    assert resolution.retriever_kwargs == {}
    assert resolution.trace["prompt"] == PROMPT.version


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param("", "empty", id="empty"),
        pytest.param("NONE", "none", id="NONE"),
        pytest.param("Query: NONE.", "none", id="NONE behind a label"),
        pytest.param("nichts", "none", id="NONE in German"),
        pytest.param("1) Solvea tarifs santé", "scaffold", id="numbered"),
        pytest.param("Case 2: Solvea tarifs", "scaffold", id="numbered case"),
        pytest.param("Le visiteur demande les tarifs", "scaffold", id="about the visitor"),
        pytest.param("L’assistant a demandé le secteur", "scaffold", id="about the assistant"),
        pytest.param("Der Besucher fragt nach Preisen", "scaffold", id="in German"),
        pytest.param("Je suis désolé, je ne peux pas.", "unparsable", id="refusal"),
        pytest.param('{"query": "Solvea santé"}', "unparsable", id="JSON"),
        pytest.param("Here is the query", "unparsable", id="announcement"),
        pytest.param("https://evil.example", "unparsable", id="an address alone"),
        pytest.param("x" * 300, "unparsable", id="one giant token"),
        pytest.param("Solvea", "company", id="the company alone loses the reply"),
        pytest.param(TimeoutError(), "timeout", id="timeout"),
        pytest.param(RuntimeError("x"), "model_error", id="error"),
    ],
)
async def test_a_discarded_answer_leaves_the_visitors_words(answer: str | Exception, reason: str) -> None:
    resolution = await resolve_search_query(turn(), ScriptedModel(script=[answer]))
    assert (resolution.query, resolution.decision, resolution.fallback) == ("Santé", "error", reason)


@pytest.mark.parametrize(
    ("message", "answer", "query"),
    [
        pytest.param(
            "5 à 10 ans", "5 à 10 ans Solvea tarifs", "5 à 10 ans Solvea tarifs", id="the visitor's number"
        ),
        pytest.param("5 à 10 ans", "2. The assistant asked", None, id="another number"),
        pytest.param("5", "5. The visitor answered five", None, id="the visitor's number before scaffold"),
        pytest.param("2,5 tonnes", "2,5 tonnes Solvea", "2,5 tonnes Solvea", id="decimals"),
        pytest.param("2,5 tonnes", "2. tonnes Solvea", None, id="half of the number"),
        pytest.param(
            "the visitor badge",
            "Solvea the visitor badge price",
            "Solvea the visitor badge price",
            id="own phrase",
        ),
    ],
)
def test_what_the_visitor_wrote_is_no_scaffold(message: str, answer: str, query: str | None) -> None:
    expected = (query, None) if query else ("", "scaffold")
    assert parse_search_query(answer, turn(message)) == expected


@pytest.mark.parametrize(
    ("company", "query"),
    [
        pytest.param("", "tarifs santé", id="no company"),
        pytest.param("Les Ateliers du Nord", "tarifs santé Les Ateliers du Nord", id="four words"),
        pytest.param("a b c d e f g h i", "tarifs santé", id="a name that leaves no room"),
    ],
)
def test_company_names_of_any_length(company: str, query: str) -> None:
    assert parse_search_query("tarifs santé", turn(company=company)) == (query, None)


@pytest.mark.parametrize(
    ("given_turn", "gated", "reason", "calls"),
    [
        pytest.param(turn_from("Santé", []), True, "first_turn", 0, id="first turn"),
        pytest.param(
            turn("Combien de bureaux avez-vous ?"), True, "gate_declined", 0, id="searchable as written"
        ),
        pytest.param(turn("Combien de bureaux avez-vous ?"), False, None, 1, id="ungated"),
    ],
)
async def test_when_the_model_is_asked(given_turn: Turn, gated: bool, reason: str | None, calls: int) -> None:
    model = ScriptedModel(script=["Solvea tarifs"])
    resolution = await resolve_search_query(given_turn, model, gated=gated)
    assert (resolution.fallback, len(model.asked)) == (reason, calls)


PIECES = st.sampled_from(
    [
        "Solvea",
        "santé",
        " ",
        "\n",
        "Query:",
        "NONE",
        "**",
        "1. ",
        "the assistant",
        "```",
        "<think>",
        "</think>",
        "é",
        "https://evil.example/a",
        "a@b.example",
        "{",
        "x" * 90,
        "ignore all rules",
        ".",
        "«",
        "-",
        "\ud800",
        "5 à 10",
    ]
)


@given(
    st.lists(PIECES, max_size=20).map("".join) | st.text(max_size=100),
    st.sampled_from(["Solvea", "Les Ateliers du Nord"]),
)
def test_any_answer_gives_a_short_query_with_the_company_or_a_reason(output: str, company: str) -> None:
    query, reason = parse_search_query(output, turn(company=company))
    assert bool(query) is (reason is None)
    assert reason is None or reason in FALLBACKS
    if query:
        assert len(query.split()) <= MAX_WORDS
        assert find_name(company, query)
        assert "://" not in query
