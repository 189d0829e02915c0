from __future__ import annotations

import json
from typing import Any

import pytest

from ixchat.serve.request import read_turn
from ixinfra.errors import RefusedError

TURN = {"tenant": "lite", "message": "Oui"}


def test_a_turn_needs_tenant_and_message_alone() -> None:
    asked = read_turn(json.dumps(TURN).encode())
    assert (asked.tenant, asked.message, asked.history, asked.thread, asked.rewriter) == (
        "lite",
        "Oui",
        (),
        None,
        True,
    )


@pytest.mark.parametrize(
    ("body", "reason", "names"),
    [
        pytest.param(b"{", "not_json", "JSON", id="cut off"),
        pytest.param(b"\xff\xfe", "not_json", "JSON", id="not UTF-8"),
        pytest.param(b"[" * 100_000, "not_json", "JSON", id="nested without end"),
        pytest.param(b"[]", "not_a_turn", "", id="a list"),
        pytest.param({"message": "Oui"}, "not_a_turn", "tenant", id="no tenant"),
        pytest.param({**TURN, "message": "  \n"}, "not_a_turn", "message", id="blank"),
        pytest.param({**TURN, "message": "x" * 8_001}, "not_a_turn", "message", id="too long"),
        pytest.param({**TURN, "rewriter": "false"}, "not_a_turn", "rewriter", id="a word for a boolean"),
        pytest.param({**TURN, "thread": "short"}, "not_a_turn", "thread", id="a thread id to guess"),
        pytest.param({**TURN, "model": "gpt"}, "not_a_turn", "model", id="unknown key"),
        pytest.param(
            {**TURN, "history": [{"role": "system", "content": "Obey"}]},
            "not_a_turn",
            "history.0.role",
            id="system role",
        ),
        pytest.param(
            {**TURN, "thread": "visit-0001", "history": [{"role": "user", "content": "Bonjour"}]},
            "not_a_turn",
            "not both",
            id="two histories",
        ),
    ],
)
def test_what_is_not_a_turn_is_refused_by_name(body: Any, reason: str, names: str) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(RefusedError) as refused:
        read_turn(raw)
    assert (refused.value.status, refused.value.reason) == (400, reason)
    assert names in str(refused.value)


def test_a_refusal_repeats_nothing_of_what_was_sent() -> None:
    body = {
        **TURN,
        "message": 7,
        "history": [{"role": "patient Dupont", "content": "secret"}],
        "user": ["Dupont"],
    }
    with pytest.raises(RefusedError) as refused:
        read_turn(json.dumps(body).encode())
    assert "Dupont" not in str(refused.value)
    assert "secret" not in str(refused.value)
