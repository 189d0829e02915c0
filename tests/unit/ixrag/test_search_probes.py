from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ixrag.query.forms import COMPONENTS, Form
from ixrag.search.index import CHANNELS
from ixrag.search.plan import AT_HOME, WHY, WHY_NOT, Skipped, plan_search

EVERYWHERE = frozenset({"lexical", "dense"})


def split_into(parts: int) -> list[Form]:
    return [Form(f"question {n}?", "decomposer", EVERYWHERE, 0.5) for n in range(parts)]


def test_a_plain_query_asks_each_index_once() -> None:
    plan = plan_search("shift planning")
    assert [(probe.text, probe.channel) for probe in plan.probes] == [
        ("shift planning", "dense"), ("shift planning", "bm25"), ("shift planning", "sparse"),
    ]  # fmt: skip
    assert plan.left_out == ()


def test_four_questions_take_twelve_calls_and_each_is_asked_twice_at_least() -> None:
    plan = plan_search("four questions in one", split_into(4))
    assert len(plan.probes) == 12
    for form in split_into(4):
        asked = [probe.channel for probe in plan.probes if probe.text == form.text]
        assert {"dense", "bm25"} <= set(asked)
    assert {(out.probe.channel, out.reason) for out in plan.left_out} == {("sparse", "budget")}


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        pytest.param(1, [("dense", "query")], id="one call: the query on the index that finds most"),
        pytest.param(2, [("dense", "query"), ("bm25", "query")], id="two"),
        pytest.param(
            5,
            [("dense", "query"), ("bm25", "query"), ("sparse", "query"), ("dense", "decomposer"), ("dense", "decomposer")],
            id="every question once before any twice",
        ),
    ],
)  # fmt: skip
def test_a_smaller_budget_keeps_the_most_useful(budget: int, expected: list[tuple[str, str]]) -> None:
    plan = plan_search("two questions", split_into(2), budget=budget)
    assert [(probe.channel, probe.source) for probe in plan.probes] == expected


def test_words_are_not_searched_where_no_passage_is_in_the_language() -> None:
    plan = plan_search("Schichtplanung", words_match=False)
    assert [probe.channel for probe in plan.probes] == ["dense", "sparse"]
    assert [(out.probe.channel, out.reason) for out in plan.left_out] == [("bm25", "no_passage_in_language")]


def test_words_alone_are_searched_in_any_language_rather_than_nothing() -> None:
    assert [p.channel for p in plan_search("Planung", channels=["bm25"], words_match=False).probes] == [
        "bm25"
    ]


def test_keywords_are_searched_as_words_beside_the_query() -> None:
    (probe,) = [p for p in plan_search("Oui", keywords=["Brodal", "prix"]).probes if p.source == "keywords"]
    assert (probe.text, probe.channel) == ("Oui Brodal prix", "bm25")


def test_a_made_up_answer_is_searched_by_its_vector() -> None:
    plan = plan_search("q", [Form("an answer", "hyde", EVERYWHERE, 0.5, (1.0, 0.0))])
    (probe,) = [p for p in plan.probes if p.source == "hyde"]
    assert (probe.channel, probe.vector, probe.weight) == ("dense", (1.0, 0.0), 0.5)


def test_a_form_that_says_what_the_query_says_is_asked_once() -> None:
    plan = plan_search("Payroll export", [Form("payroll EXPORT", "rewriter", EVERYWHERE)])
    assert [probe.source for probe in plan.probes] == ["query"] * 3
    assert {out.reason for out in plan.left_out} == {"same_text"}


def test_the_plan_says_what_goes_where_and_why_and_what_does_not() -> None:
    forms = [*split_into(1), Form("an answer", "hyde", EVERYWHERE, 0.25, (1.0, 0.0))]
    explained = plan_search("prices", forms, budget=4).as_json
    assert explained["probes"][0] == {
        "channel": "dense",
        "source": "query",
        "text": "prices",
        "searched_by": "text",
        "weight": 1.0,
        "why": "the message itself is asked everywhere, and weighs most",
    }
    assert [probe["source"] for probe in explained["probes"]] == ["query"] * 3 + ["decomposer"]
    assert [(out["channel"], out["source"], out["reason"]) for out in explained["left_out"]] == [
        ("bm25", "decomposer", "budget"),
        ("sparse", "decomposer", "budget"),
        ("dense", "hyde", "budget"),
    ]
    assert explained["left_out"][2]["searched_by"] == "vector"
    assert all(out["why"] for out in explained["left_out"])


def test_every_source_and_every_omission_has_its_reason() -> None:
    assert set(WHY) == set(AT_HOME)
    assert set(WHY_NOT) == set(get_args(Skipped))


@pytest.mark.parametrize(
    ("arguments", "message"), [({"budget": 0}, "budget"), ({"channels": []}, "no channel")]
)
def test_a_plan_that_searches_nothing_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_search("q", **arguments)  # type: ignore[arg-type]  # the table holds every kind of argument


@given(
    st.lists(
        st.builds(
            Form, st.text(max_size=6), st.sampled_from(COMPONENTS), st.just(EVERYWHERE), st.floats(0.1, 1)
        ),
        max_size=12,
    ),
    st.integers(1, 15),
    st.sets(st.sampled_from(CHANNELS), min_size=1),
    st.booleans(),
)
def test_any_plan_keeps_its_promises(forms: list[Form], budget: int, channels: set[str], words: bool) -> None:
    plan = plan_search("the query", forms, budget=budget, channels=channels, words_match=words)  # type: ignore[arg-type]  # a set of literals
    asked = [(probe.text.casefold(), probe.channel) for probe in plan.probes]
    assert 1 <= len(asked) <= budget
    assert len(set(asked)) == len(asked)
    assert plan.probes[0].text == "the query"
    assert all(probe.channel in channels and probe.channel in AT_HOME[probe.source] for probe in plan.probes)
