from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ixrag.query.listing import MAX_LINE_CHARS, clean_line, distinct, list_items, unquoted

# Strings of any code point, lone surrogates included.
anything = st.text(st.characters())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("1. export payroll", "export payroll", id="number and full stop"),
        pytest.param("2) export payroll", "export payroll", id="number and bracket"),
        pytest.param("(3) export payroll", "export payroll", id="bracketed number"),
        pytest.param("- export payroll", "export payroll", id="hyphen"),
        pytest.param("* export payroll", "export payroll", id="asterisk"),
        pytest.param("•export payroll", "export payroll", id="bullet without blank"),
        pytest.param("a) export payroll", "export payroll", id="letter"),
        pytest.param("### export payroll", "export payroll", id="heading"),
        pytest.param("> - **export** `payroll`", "export payroll", id="markdown in a quoted bullet"),
        pytest.param('"export payroll"', "export payroll", id="straight quotes"),
        pytest.param("« exporter la paie »", "exporter la paie", id="French quotes"),
        pytest.param("„Lohn exportieren“", "Lohn exportieren", id="German quotes"),
        pytest.param("「給与を出力」", "給与を出力", id="Japanese quotes"),
        pytest.param('1. "**export** payroll"', "export payroll", id="number, quotes and emphasis"),
        pytest.param("Query 2: export payroll", "export payroll", id="English label"),
        pytest.param("Requête : exporter la paie", "exporter la paie", id="French label"),
        pytest.param("[export](https://a.example/b) payroll", "export payroll", id="link"),
        pytest.param("  export \t payroll  ", "export payroll", id="blanks"),
        pytest.param("3.5 tonnes per lorry", "3.5 tonnes per lorry", id="a decimal is no number of a list"),
        pytest.param("24/7 support", "24/7 support", id="a number that belongs to the query"),
        pytest.param("10:30 shift", "10:30 shift", id="a time"),
        pytest.param("-5 degrees", "-5 degrees", id="a minus sign"),
        pytest.param("payroll: how to export", "payroll: how to export", id="a colon that is no label"),
        pytest.param('say "hello" and "bye"', 'say "hello" and "bye"', id="quotes inside"),
        pytest.param('"a" and "b"', '"a" and "b"', id="two quoted words"),
        pytest.param("", "", id="empty"),
    ],
)
def test_a_line_loses_what_the_model_put_around_it(line: str, expected: str) -> None:
    assert clean_line(line) == expected


def test_talk_around_the_list_is_left_out() -> None:
    answer = (
        "Sure! Three ideas.\nHere are 3 search queries:\n\n```text\n1. pay slip export\n2. wage file download\n```\n\n"
        "Let me know if you need more."
    )

    assert list_items(answer) == ["pay slip export", "wage file download"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param('{"queries": ["pay slips", "wage file"]}', ["pay slips", "wage file"], id="as asked"),
        pytest.param('{"queries":["a b"],"note":"x"}', ["a b"], id="and more than was asked"),
        pytest.param('{\n  "variants": [\n    "a b",\n    "c d"\n  ]\n}', ["a b", "c d"], id="spread out"),
        pytest.param(
            'Here you go:\n```json\n{"queries": ["a b"]}\n```\nAnything else?', ["a b"], id="wrapped"
        ),
        pytest.param('{"queries": ["a b", "c \\"d\\"", "e f', ["a b", 'c "d"'], id="cut off"),
        pytest.param('["a b", "c', ["a b"], id="an array that is cut off"),
        pytest.param('{"queries": [1, 2]}', ['{"queries": [1, 2]}'], id="no strings: read as lines"),
        pytest.param("[draft] pay slips", ["[draft] pay slips"], id="a bracket that is no JSON"),
        pytest.param('{"queries": []}', [], id="nothing"),
    ],
)
def test_json_is_read_however_it_comes(answer: str, expected: list[str]) -> None:
    assert list_items(answer) == expected


def test_a_json_array_is_a_list() -> None:
    assert list_items('```json\n["pay slip export", "wage file"]\n```') == ["pay slip export", "wage file"]


@pytest.mark.parametrize("answer", ["[1, 2]", "[broken", "[" * 5000, '{"a": 1}'])
def test_other_json_is_read_as_lines(answer: str) -> None:
    assert all(isinstance(item, str) for item in list_items(answer))


def test_an_answer_instead_of_a_query_is_left_out() -> None:
    assert list_items("x" * (MAX_LINE_CHARS + 1) + "\nexport payroll") == ["export payroll"]


@given(anything)
def test_any_answer_gives_clean_single_lines(answer: str) -> None:
    for item in list_items(answer):
        assert item == item.strip()
        assert item.splitlines() == [item]
        assert len(item) <= MAX_LINE_CHARS


@given(st.lists(st.from_regex(r"[a-z]{4,9}( [a-z]{4,9}){1,3}", fullmatch=True), min_size=1, max_size=5))
def test_numbered_and_plain_lists_read_the_same(items: list[str]) -> None:
    plain = list_items("\n".join(items))

    assert list_items("\n".join(f"{n}. {item}" for n, item in enumerate(items, 1))) == plain
    assert list_items("\n".join(f"- **{item}**" for item in items)) == plain
    assert list_items(json.dumps(items)) == items


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("“Pay”", "Pay", id="curly"),
        pytest.param("'\"Pay\"'", "Pay", id="nested"),
        pytest.param("”Pay”", "Pay", id="Swedish"),
        pytest.param('"Pay', '"Pay', id="one side only"),
        pytest.param('"', '"', id="a single mark"),
        pytest.param("l'export d'hier", "l'export d'hier", id="apostrophes"),
    ],
)
def test_quotes_go_only_around_the_whole(text: str, expected: str) -> None:
    assert unquoted(text) == expected


def test_what_repeats_or_is_no_text_is_dropped() -> None:
    found = ["Pay run", "pay  RUN", "PAY RUN?", " ", None, 3, "", "wage file", "What is pay?", "shift"]

    assert distinct(found, other_than=["what is PAY"], limit=2) == ["Pay run", "wage file"]


def test_both_unicode_forms_are_one_text() -> None:
    assert distinct(["congés", "conge\u0301s"]) == ["congés"]


@given(st.lists(anything), anything, st.integers(0, 5))
def test_distinct_texts_can_be_encoded(texts: list[str], original: str, limit: int) -> None:
    kept = distinct(texts, other_than=[original], limit=limit)

    assert len(kept) <= limit
    for text in kept:
        text.encode()
        assert text.strip().casefold() != original.strip().casefold()
