from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ixrag.query import UnderstoodQuery
from ixrag.query.forms import COMPONENTS, EVERYWHERE, FORM_WEIGHT, expanded_text, forms

UNDERSTOOD = UnderstoodQuery(
    original_text="export payroll",
    rewrites=["pay slip export", "wage file"],
    sub_queries=["wage file"],
    expansion_terms={"payroll": ["wages", "Payroll", "pay"]},
    hyde_documents=["Wages are exported monthly.", "A file holds them."],
    hyde_vector=[0.6, 0.8],
)


def test_each_channel_is_searched_with_what_it_wants() -> None:
    found = forms(UNDERSTOOD, {"lexical": ["rewriter"], "dense": ["hyde"], "graph": ["glossary"]})

    assert [(form.text, form.component, sorted(form.channels)) for form in found] == [
        ("pay slip export", "rewriter", ["lexical"]),
        ("wage file", "rewriter", ["lexical"]),
        ("export payroll wages", "glossary", ["graph"]),
        ("Wages are exported monthly.", "hyde", ["dense"]),
    ]


def test_rewrites_share_a_weight_and_questions_have_one_each() -> None:
    split = UnderstoodQuery(original_text="q", rewrites=["r1", "r2"], sub_queries=["q1", "q2"])
    found = forms(split, {"dense": ["rewriter", "decomposer"]})

    assert [form.weight for form in found] == [FORM_WEIGHT / 2, FORM_WEIGHT / 2, FORM_WEIGHT, FORM_WEIGHT]


def test_a_text_that_two_components_found_is_searched_once_for_both() -> None:
    (_, form) = forms(UNDERSTOOD, {"lexical": ["rewriter"], "dense": ["decomposer"]})

    assert (form.text, sorted(form.channels)) == ("wage file", ["dense", "lexical"])
    assert form.weight == pytest.approx(FORM_WEIGHT / 2 + FORM_WEIGHT)


def test_the_mean_vector_stands_for_all_made_up_answers() -> None:
    (form,) = forms(UNDERSTOOD, {"dense": ["hyde"]})
    assert form.vector == (0.6, 0.8)

    without = UNDERSTOOD.model_copy(update={"hyde_vector": None})
    assert [form.vector for form in forms(without, {"dense": ["hyde"]})] == [None, None]


@pytest.mark.parametrize("wanted", [{}, {"dense": []}])
def test_nothing_is_searched_that_nobody_wants(wanted: dict[str, list[str]]) -> None:
    assert forms(UNDERSTOOD, wanted) == []  # type: ignore[arg-type]


def test_synonyms_that_the_query_holds_are_not_repeated() -> None:
    terms = {"wage": ["Wages", "salary"], "pay": ["salary", "remuneration"]}
    understood = UnderstoodQuery(original_text="wages and pay", expansion_terms=terms)

    assert expanded_text(understood) == "wages and pay salary remuneration"
    assert forms(UnderstoodQuery(original_text="q"), EVERYWHERE) == []


@given(
    st.text(st.characters()),
    st.lists(st.text(st.characters())),
    st.lists(st.text(st.characters())),
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.lists(st.text("ab"))),
)
def test_no_form_repeats_the_query_or_another_form(
    query: str, rewrites: list[str], parts: list[str], terms: dict[str, list[str]]
) -> None:
    understood = UnderstoodQuery.model_construct(
        original_text=query, rewrites=rewrites, sub_queries=parts, expansion_terms=terms, hyde_documents=[]
    )
    found = forms(understood, {"dense": COMPONENTS})

    assert query not in [form.text for form in found]
    assert len({form.text for form in found}) == len(found)
    assert all(form.text.strip() and form.weight > 0 for form in found)
