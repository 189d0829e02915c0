"""Making values small and plain, masking them, and hiding what visitors wrote."""

from __future__ import annotations

import json
from collections import UserDict
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from ixinfra.tracing_text import (
    MAX_CHARS,
    MAX_DEPTH,
    MAX_ITEMS,
    MAX_KEYS,
    MAX_VALUES,
    Redaction,
    as_json,
    plain,
)
from ixinfra.tracing_tree import SpanRecord


class Colour(Enum):
    RED = "red"


@dataclass
class Opaque:
    token: str = "canary"


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class HostileMapping(UserDict[str, int]):
    def items(self) -> Any:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"fallback_reason": None}, {"fallback_reason": None}, id="a null stays"),
        pytest.param(True, True, id="a truth value is no number"),
        pytest.param(("a", {"b"}), ["a", ["b"]], id="tuples and sets are lists"),
        pytest.param({1: "x", None: "y"}, {"1": "x", "None": "y"}, id="keys are texts"),
        pytest.param(Colour.RED, "red", id="enum"),
        pytest.param(float("inf"), None, id="JSON has no infinity"),
        pytest.param(10**400, "[large number]", id="more than OTLP can carry"),
        pytest.param("caf\u00e9 \ud83d", "caf\u00e9 ?", id="a lone surrogate"),
        pytest.param(b"secret", "<bytes>", id="bytes"),
        pytest.param(SecretStr("canary"), "<SecretStr>", id="a secret"),
        pytest.param(Opaque(), "<Opaque>", id="an object is its class name"),
        pytest.param(Hostile(), "<Hostile>", id="an object whose repr raises"),
        pytest.param(HostileMapping(), "<HostileMapping>", id="a mapping that raises"),
    ],
)
def test_anything_becomes_plain(value: Any, expected: Any) -> None:
    assert plain(value) == expected


def test_long_texts_and_lists_say_what_was_cut() -> None:
    assert plain("x" * (MAX_CHARS + 5)) == "x" * MAX_CHARS + "[5 more characters]"
    assert plain(list(range(MAX_ITEMS + 3))) == [*range(MAX_ITEMS), "[3 more]"]
    assert plain({str(n): n for n in range(MAX_KEYS + 1)})["…"] == "[1 more]"


def test_depth_and_total_are_bounded() -> None:
    deep: Any = "bottom"
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    assert "bottom" not in as_json(plain(deep))
    wide = plain([[[0] * MAX_ITEMS] * MAX_ITEMS] * MAX_ITEMS)
    assert as_json(wide).count("0,") <= MAX_VALUES
    recursive: list[Any] = []
    recursive.append(recursive)
    assert as_json(plain(recursive)).count("[") < MAX_DEPTH + 3


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
        max_leaves=30,
    )
)
def test_whatever_it_is_it_can_be_sent(value: Any) -> None:
    sent = as_json(plain(value)).encode("utf-8")
    assert json.loads(sent) == plain(value)


def span(**facts: Any) -> SpanRecord:
    return SpanRecord(
        name="n",
        kind="tool",
        trace_id="0" * 32,
        session_id="s",
        tenant_id="t",
        user_id="",
        start_ms=0,
        **facts,
    )


@pytest.mark.parametrize(
    ("key", "text", "kept"),
    [
        pytest.param("decision", "keep", True, id="a decision"),
        pytest.param("model", "mistralai:ministral-3b-latest", True, id="a model"),
        pytest.param("problems", "early search:timeout", True, id="a reason"),
        pytest.param("decision", "j'habite à Lyon", False, id="text under the name of a decision"),
        pytest.param("rejected", "zoe@example.com", False, id="an address under the name of a reason"),
        pytest.param("entity", "Velmora", False, id="a name from the conversation"),
        pytest.param("resolved_query", "keep", False, id="a query"),
        pytest.param("", "keep", False, id="no key"),
    ],
)
def test_the_visitor_text_switch(key: str, text: str, kept: bool) -> None:
    hidden = f"[{len(text)} characters]"
    redacted = Redaction(visitor_text=False).span(span(output={key: text}, metadata={key: [text]}))
    assert redacted.output == {key: text if kept else hidden}
    assert redacted.metadata == {key: [text if kept else hidden]}


def test_numbers_truth_values_and_nulls_stay_with_the_switch_off() -> None:
    facts = {"documents": 3, "changed": False, "fallback_reason": None, "ms": 1.5}
    assert Redaction(visitor_text=False).span(span(output=facts)).output == facts


def test_the_mask_sees_keys_texts_models_and_status() -> None:
    masked = Redaction(mask=str.upper).span(
        span(input="a", output={"b": ["c"]}, metadata={"d": "e"}, model="f", error="Failed", status="error")
    )
    assert (masked.input, masked.output, masked.metadata) == ("A", {"B": ["C"]}, {"D": "E"})
    assert (masked.model, masked.error) == ("F", "FAILED")


def test_the_span_itself_is_not_touched() -> None:
    record = span(input="a", output={"b": "c"})
    Redaction(visitor_text=False, mask=str.upper).span(record)
    assert (record.input, record.output) == ("a", {"b": "c"})
