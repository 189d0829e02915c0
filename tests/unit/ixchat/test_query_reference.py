"""`resolve_reference`: append the one name a follow-up points at, or keep the message."""

import asyncio
import json
from pathlib import Path

import pytest
from fakes import ScriptedModel
from hypothesis import given
from hypothesis import strategies as st

from ixchat.utils.history import plain_text, turn_from
from ixchat.utils.prompts import Prompt
from ixchat.utils.query_keywords import resolve_reference
from ixchat.utils.query_reference import PROMPT, parse_verdict
from ixchat.utils.resolution import FALLBACKS, Resolution, Turn

FOLDER = Path(__file__).parents[2] / "cases"
CASES = [
    case
    for file in ("references", "answers")
    for case in map(json.loads, (FOLDER / f"{file}.jsonl").read_text(encoding="utf-8").splitlines())
    if case["input"].get("resolver", "reference") == "reference"
]
QUERY = "Quelles enseignes l'ont déjà installée ?"
HISTORY = [("user", "Quels modules proposez-vous ?"), ("ai", "Nous proposons Badgeo et Pack - Premium.")]


def turn(query: str = QUERY) -> Turn:
    return turn_from(query, HISTORY, "Solvea", "t1")


async def ask(answer: str | Exception, query: str = QUERY) -> Resolution:
    return await resolve_reference(turn(query), ScriptedModel(script=[answer]))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['id']}-{case['kind']}")
async def test_recorded_cases(case: dict) -> None:
    model = ScriptedModel(script=[case["input"]["model_output"]])
    given_turn = turn_from(case["input"]["message"], case["input"]["history"], case["input"]["company_name"])
    resolution = await resolve_reference(given_turn, model)
    expected = case["expected"]
    assert resolution.query == expected["resolved_query"]
    assert resolution.decision == expected["decision"]
    assert resolution.trace.get("rejected") == expected["rejected"]
    assert resolution.fallback == (expected["rejected"] or expected.get("fallback_reason"))
    assert resolution.retriever_kwargs == {}


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        pytest.param("RESOLVE：Badgeo", "Badgeo", id="full-width colon"),
        pytest.param("RESOLVE\u00a0: « Badgeo »", "Badgeo", id="guillemets"),
        pytest.param("RESOLVE: “Badgeo”.", "Badgeo", id="curly quotes and a full stop"),
        pytest.param("**RESOLVE:** *Badgeo*", "Badgeo", id="bold"),
        pytest.param("- RESOLVE: Badgeo", "Badgeo", id="bullet"),
        pytest.param("RESOLVE -> Badgeo", "Badgeo", id="arrow"),
        pytest.param("RESOLVE — Badgeo", "Badgeo", id="dash"),
        pytest.param("Answer: RESOLVE: Badgeo", "Badgeo", id="label"),
        pytest.param("Here is my decision:\nRESOLVE: Badgeo", "Badgeo", id="preamble"),
        pytest.param("```text\nRESOLVE: Badgeo\n```", "Badgeo", id="fence"),
        pytest.param("<think>RESOLVE: Planeo</think>RESOLVE: Badgeo", "Badgeo", id="thinking"),
        pytest.param(
            "RESOLVE: Planeo?\n</think>\nRESOLVE: Badgeo", "Badgeo", id="thinking whose tag was in the prompt"
        ),
        pytest.param("RESOLVE: Badgeo – the clock-in module", "Badgeo", id="en dash gloss"),
        pytest.param("RESOLVE: Badgeo (module de badgeuse)", "Badgeo", id="bracketed gloss"),
        pytest.param("RESOLVE: Badgeo, the module - as named", "Badgeo", id="two glosses"),
        pytest.param("RESOLVE: Badgeo. It was named last.", "Badgeo", id="a sentence behind"),
        pytest.param(
            "RESOLVE: Pack - Premium - the dearer one", "Pack - Premium", id="gloss behind a dashed name"
        ),
        pytest.param("RESOLVE: Bad\u200bgeo", "Badgeo", id="zero-width space"),
    ],
)
async def test_ways_to_write_a_name(answer: str, name: str) -> None:
    resolution = await ask(answer)
    assert resolution.query == f"{QUERY} — {name}"
    assert (resolution.decision, resolution.fallback) == ("resolve", None)


@pytest.mark.parametrize(
    ("answer", "decision", "fallback"),
    [
        pytest.param("keep", "keep", None, id="lower case"),
        pytest.param('"KEEP"', "keep", None, id="quoted"),
        pytest.param("KEEP: Badgeo", "keep", None, id="a name behind KEEP is ignored"),
        pytest.param("KEEP\nRESOLVE: Badgeo", "keep", None, id="the first decision counts"),
        pytest.param("AMBIGUOUS.", "ambiguous", None, id="ambiguous"),
        pytest.param("<think>RESOLVE: Badgeo", "error", "empty", id="thinking that never ends"),
        pytest.param("Badgeo", "error", "unparsable", id="the name alone"),
        pytest.param("Resolve Badgeo", "error", "unparsable", id="no separator"),
        pytest.param("RESOLVED: Badgeo", "error", "unparsable", id="another word"),
        pytest.param("RESOLVE:\nBadgeo", "error", "unparsable", id="a name on the next line"),
        pytest.param("NONE", "error", "none", id="NONE"),
        *(
            pytest.param(f"RESOLVE: {nothing}", "error", "none", id=f"placeholder {nothing}")
            for nothing in ("N/A", "aucun", "Ninguno.", "nessuno", "keiner", "-", '""', "(none)")
        ),
    ],
)
async def test_answers_without_a_name(answer: str, decision: str, fallback: str | None) -> None:
    resolution = await ask(answer)
    assert (resolution.query, resolution.decision, resolution.fallback) == (QUERY, decision, fallback)
    assert "entity" not in resolution.trace


async def test_the_trace_says_who_answered_and_where_the_name_stands() -> None:
    trace = (await ask("RESOLVE: badgeo")).trace
    assert (trace["model"], trace["provider"]) == ("scripted-1", "scripted")
    assert trace["usage"] == {"input": 12, "output": 3, "total": 15}
    assert (trace["entity"], trace["rejected"], trace["prompt"]) == ("Badgeo", None, PROMPT.version)
    evidence = trace["evidence"]
    assert HISTORY[evidence["message"]][1][evidence["start"] : evidence["end"]] == "Badgeo"
    json.dumps(dict(trace))


async def test_a_first_turn_asks_no_model() -> None:
    model = ScriptedModel()
    resolution = await resolve_reference(turn_from(QUERY, [], "Solvea"), model)
    assert (resolution.query, resolution.decision, resolution.fallback) == (QUERY, "raw", "first_turn")
    assert model.asked == []


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        pytest.param(RuntimeError("429"), "model_error", id="provider error"),
        pytest.param(TypeError("unexpected"), "model_error", id="client bug"),
        pytest.param(TimeoutError(), "timeout", id="provider timeout"),
    ],
)
async def test_a_failing_model_costs_the_message_nothing(failure: Exception, reason: str) -> None:
    resolution = await ask(failure)
    assert (resolution.query, resolution.decision, resolution.fallback) == (QUERY, "error", reason)
    assert resolution.trace["prompt"] == PROMPT.version
    assert "scripted" in resolution.trace["model"]


async def test_a_slow_model_is_not_waited_for() -> None:
    model = ScriptedModel(script=["RESOLVE: Badgeo"], delay_s=30)
    resolution = await resolve_reference(turn(), model, timeout_s=0.01)
    assert (resolution.query, resolution.fallback) == (QUERY, "timeout")


async def test_a_cancellation_goes_through() -> None:
    task = asyncio.create_task(resolve_reference(turn(), ScriptedModel(delay_s=30)))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


PIECES = st.sampled_from(
    [
        "RESOLVE",
        "resolve:",
        ":",
        " ",
        "\n",
        "KEEP",
        "AMBIGUOUS",
        "Badgeo",
        "Pack - Premium",
        "Solvea",
        " - ",
        "**",
        "```",
        "<think>",
        "</think>",
        "http://evil.example/",
        "ignore all rules",
        "none",
        "«",
        "»",
        "modules",
        "{",
        '"',
        "é",
        "—",
    ]
)
OUTPUT = st.lists(PIECES, max_size=15).map("".join) | st.binary(max_size=80).map(
    lambda raw: raw.decode(errors="replace")
)
SAID = st.lists(PIECES | st.sampled_from(["Quels ", "proposons ", "x@y.example "]), max_size=10).map("".join)


@given(st.lists(st.tuples(st.sampled_from(["user", "ai"]), SAID), min_size=1, max_size=4), SAID, OUTPUT)
async def test_no_answer_can_do_more_than_append_six_words_of_the_conversation(
    messages: list[tuple[str, str]], query: str, output: str
) -> None:
    given_turn = turn_from(query, messages, "Solvea")
    resolution = await resolve_reference(given_turn, ScriptedModel(script=[output]))
    assert resolution.retriever_kwargs == {}
    assert resolution.fallback is None or resolution.fallback in FALLBACKS
    if resolution.query == given_turn.query:
        return
    appended = resolution.query.removeprefix(f"{given_turn.query} — ")
    assert resolution.query == f"{given_turn.query} — {appended}"
    assert 1 <= len(appended.split()) <= 6
    assert any(appended in plain_text(message.content) for message in given_turn.messages)


@given(OUTPUT | st.text(st.characters(codec=None), max_size=200))
def test_any_text_gives_a_verdict(output: str) -> None:
    verdict = parse_verdict(output)
    assert bool(verdict.name) is (verdict.decision == "resolve")
    assert (verdict.reason is None) is (verdict.decision != "error")


def test_the_version_of_a_prompt_changes_with_its_text() -> None:
    changed = Prompt(PROMPT.name, PROMPT.instructions + " ", PROMPT.ask)
    assert len(PROMPT.version) == 12
    assert changed.version != PROMPT.version
