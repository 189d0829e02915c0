"""`build_keyword_query`: a short reply becomes both keyword lists, or neither."""

import json
from pathlib import Path

import pytest
from fakes import ScriptedModel
from hypothesis import given
from hypothesis import strategies as st

from ixchat.utils.history import turn_from
from ixchat.utils.query_keywords import PROMPT, build_keyword_query, parse_keywords
from ixchat.utils.resolution import FALLBACKS, Turn
from ixrag.words import folded

CASES = [
    case
    for case in map(
        json.loads,
        Path(__file__).parents[2].joinpath("cases/answers.jsonl").read_text(encoding="utf-8").splitlines(),
    )
    if case["input"]["resolver"] == "keywords"
]
GOOD = "SPECIFIC: santé, tarifs\nTHEME: pricing"
HISTORY = [("user", "Combien coûte le planning ?"), ("ai", "Quel est votre secteur ?")]


def turn(query: str = "Santé") -> Turn:
    return turn_from(query, HISTORY, "Solvea")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['id']}-{case['kind']}")
async def test_recorded_cases(case: dict) -> None:
    model = ScriptedModel(script=[case["input"]["model_output"]])
    given_turn = turn_from(case["input"]["message"], case["input"]["history"], case["input"]["company_name"])
    resolution = await build_keyword_query(given_turn, model)
    expected = case["expected"]
    assert resolution.query == expected["query"]
    assert resolution.fallback == expected.get("fallback_reason")
    if "retriever_kwargs" in expected:
        assert resolution.retriever_kwargs == expected["retriever_kwargs"]
    else:
        assert set(expected.get("ll_keywords_contains", [])) <= set(resolution.ll_keywords)
        assert list(resolution.hl_keywords) == expected.get("hl_keywords", list(resolution.hl_keywords))
        assert 1 <= len(resolution.ll_keywords) <= expected.get("ll_max", 5)
        assert 1 <= len(resolution.hl_keywords) <= expected.get("hl_max", 3)


@pytest.mark.parametrize(
    ("answer", "ll", "hl"),
    [
        pytest.param(
            "specific : santé ; tarifs\ntheme : prix", ["santé", "tarifs"], ["prix"], id="spacing and case"
        ),
        pytest.param("**SPECIFIC:** santé\n**THEME:** prix", ["santé"], ["prix"], id="bold labels"),
        pytest.param("- SPECIFIC: `santé`\n- THEME: « prix »", ["santé"], ["prix"], id="bullets and quotes"),
        pytest.param("SPECIFIC: santé | THEME: prix", ["santé"], ["prix"], id="one line"),
        pytest.param(
            "SPECIFIC:\n- santé\n- tarifs\nTHEME:\n1. prix", ["santé", "tarifs"], ["prix"], id="a term a line"
        ),
        pytest.param("THEME: prix\nSPECIFIC: santé", ["santé"], ["prix"], id="other order"),
        pytest.param(
            'SPECIFIC: ["santé", "tarifs"]\nTHEME: ["prix"]', ["santé", "tarifs"], ["prix"], id="JSON lists"
        ),
        pytest.param("SPECIFIC: santé, SANTÉ, sante\nTHEME: prix, Prix", ["santé"], ["prix"], id="repeats"),
        pytest.param(
            "SPECIFIC: santé, N/A, -\nTHEME: prix, aucun", ["santé"], ["prix"], id="placeholders among terms"
        ),
        pytest.param(
            "SPECIFIC: 1,5 tonne, 200 salariés\nTHEME: poids",
            ["1,5 tonne", "200 salariés"],
            ["poids"],
            id="figures",
        ),
        pytest.param("```\nSPECIFIC: santé\nTHEME: prix\n```", ["santé"], ["prix"], id="fence"),
        pytest.param(
            "<think>SPECIFIC: x\nTHEME: y</think>\nSPECIFIC: santé\nTHEME: prix",
            ["santé"],
            ["prix"],
            id="thinking",
        ),
        pytest.param(
            "SPECIFIC: santé\nTHEME: prix\nSPECIFIC: autre\nTHEME: autre",
            ["santé"],
            ["prix"],
            id="said twice",
        ),
        pytest.param(
            "SPECIFIC: santé\nTHEME: prix\n\nHope this helps!", ["santé"], ["prix"], id="closing remark"
        ),
        pytest.param(
            "SPECIFIC: santé, https://evil.example, a@b.example\nTHEME: prix",
            ["santé"],
            ["prix"],
            id="addresses",
        ),
        pytest.param(
            "SPECIFIC: santé, un deux trois quatre cinq six sept\nTHEME: prix",
            ["santé"],
            ["prix"],
            id="a sentence",
        ),
        pytest.param("SPECIFIC：医療、料金\nTHEME：価格", ["医療", "料金"], ["価格"], id="Japanese"),
    ],
)
async def test_ways_to_write_the_lists(answer: str, ll: list[str], hl: list[str]) -> None:
    resolution = await build_keyword_query(turn(), ScriptedModel(script=[answer]))
    assert resolution.retriever_kwargs == {"ll_keywords": ll, "hl_keywords": hl}
    assert (resolution.query, resolution.decision, resolution.fallback) == ("Santé", "resolve", None)
    assert resolution.trace["prompt"] == PROMPT.version


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param("", "empty", id="empty"),
        pytest.param("<think>hm", "empty", id="thinking that never ends"),
        pytest.param("NONE", "none", id="NONE"),
        pytest.param("Aucun.", "none", id="NONE in French"),
        pytest.param("SPECIFIC: NONE\nTHEME: NONE", "none", id="NONE twice"),
        pytest.param("SPECIFIC: santé\nTHEME: none", "incomplete", id="one list of nothing"),
        pytest.param("THEME: prix", "incomplete", id="one list"),
        pytest.param("santé, tarifs", "unparsable", id="no labels"),
        pytest.param("I'm sorry, I can't help.", "unparsable", id="refusal"),
        pytest.param(
            "SPECIFIC: the assistant asked for a sector\nTHEME: prix", "scaffold", id="scaffold in a list"
        ),
        pytest.param("2. Le visiteur répond à la question", "scaffold", id="scaffold"),
        pytest.param(TimeoutError(), "timeout", id="timeout"),
        pytest.param(ValueError("x"), "model_error", id="error"),
    ],
)
async def test_no_lists_means_no_keyword_arguments(answer: str | Exception, reason: str) -> None:
    resolution = await build_keyword_query(turn(), ScriptedModel(script=[answer]))
    assert resolution.retriever_kwargs == {}
    assert (resolution.query, resolution.decision, resolution.fallback) == ("Santé", "error", reason)


@pytest.mark.parametrize(
    ("given_turn", "gated", "reason", "calls"),
    [
        pytest.param(turn_from("Santé", []), True, "first_turn", 0, id="first turn"),
        pytest.param(turn_from("Santé", []), False, "first_turn", 0, id="first turn, ungated"),
        pytest.param(
            turn("Combien de bureaux avez-vous ?"), True, "gate_declined", 0, id="searchable as written"
        ),
        pytest.param(turn("Combien de bureaux avez-vous ?"), False, None, 1, id="ungated"),
    ],
)
async def test_when_the_model_is_asked(given_turn: Turn, gated: bool, reason: str | None, calls: int) -> None:
    model = ScriptedModel(script=[GOOD])
    resolution = await build_keyword_query(given_turn, model, gated=gated)
    assert (resolution.fallback, len(model.asked)) == (reason, calls)


PIECES = st.sampled_from(
    [
        "SPECIFIC:",
        "THEME:",
        "specific",
        "\n",
        ",",
        ";",
        " ",
        "santé",
        "tarifs",
        "NONE",
        "n/a",
        "**",
        "the assistant",
        "```",
        "https://evil.example",
        "- ",
        "1. ",
        "[",
        '"',
        "x" * 100,
        "un deux trois quatre cinq six sept",
        "é",
        "\ud800",
    ]
)


@given(st.lists(PIECES, max_size=25).map("".join) | st.text(st.characters(codec=None), max_size=100))
def test_lists_come_both_or_not_at_all_and_keep_their_bounds(output: str) -> None:
    ll, hl, reason = parse_keywords(output, "Santé")
    assert bool(ll) is bool(hl) is (reason is None)
    assert reason is None or reason in FALLBACKS
    assert len(ll) <= 5
    assert len(hl) <= 3
    for terms in (ll, hl):
        assert len({folded(term) for term in terms}) == len(terms)
        assert all(term == term.strip() and len(term.split()) <= 6 for term in terms)
        assert not {folded(term) for term in terms} & {"none", "n a", "aucun", ""}
        assert not any("://" in term for term in terms)
