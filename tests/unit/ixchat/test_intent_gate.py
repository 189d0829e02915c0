from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ixchat.utils.history import turn_from
from ixchat.utils.intent_gate import DIM, STRATEGIES, IntentGate, decide, features
from ixevaluation.gate_training.__main__ import write_onnx
from ixinfra.errors import ConfigError

SAID = [("user", "Do you have a tool for stock?"), ("assistant", "Yes, Stokarel counts stock.")]


@pytest.fixture(scope="module")
def gate() -> IntentGate:
    return IntentGate()


@pytest.mark.parametrize(
    ("scores", "first_turn", "strategy", "reason"),
    [
        pytest.param([0.1, 0.8, 0.05, 0.03, 0.02], False, "coref", "model", id="sure"),
        pytest.param([0.1, 0.54, 0.2, 0.1, 0.06], False, "passthrough", "unsure", id="below the floor"),
        pytest.param([0.1, 0.55, 0.2, 0.1, 0.05], False, "coref", "model", id="at the floor"),
        pytest.param([0.0, 0.9, 0.06, 0.04, 0.0], True, "passthrough", "unsure", id="first turn, nothing else likely"),
        pytest.param([0.0, 0.2, 0.0, 0.15, 0.65], True, "passthrough", "unsure", id="first turn, compound"),
        pytest.param([0.1, 0.05, 0.8, 0.05, 0.0], True, "decompose", "model", id="first turn, two questions"),
    ],
)  # fmt: skip
def test_the_rule_over_the_scores(scores: list[float], first_turn: bool, strategy: str, reason: str) -> None:
    intent = decide(scores, first_turn=first_turn, min_confidence=0.55)
    assert (intent.strategy, intent.reason) == (strategy, reason)


def test_a_first_turn_falls_to_the_likelier_of_the_two_others() -> None:
    assert decide([0.0, 0.5, 0.1, 0.4, 0.0], first_turn=True, min_confidence=0.3).strategy == "expand"
    assert decide([0.0, 0.5, 0.4, 0.1, 0.0], first_turn=True, min_confidence=0.3).strategy == "decompose"


@given(st.lists(st.floats(0, 1), min_size=5, max_size=5), st.floats(0, 1))
def test_a_first_turn_is_never_taken_for_a_reference(scores: list[float], floor: float) -> None:
    assert not decide(scores, first_turn=True, min_confidence=floor).strategy.startswith("coref")


@pytest.mark.parametrize(
    ("query", "strategy"),
    [
        ("How much does it cost per month?", "coref"),
        ("Combien ça coûte par mois ?", "coref"),
        ("¿Cuánto cuesta al mes?", "coref"),
        ("In which languages is the mobile application of Stokarel available?", "passthrough"),
        ("Dans quelles langues l'application mobile de Stokarel est-elle disponible ?", "passthrough"),
        ("payroll export", "expand"),
        ("Quels sont vos horaires ? Avez-vous un bureau à Madrid ?", "decompose"),
    ],
)
def test_the_shipped_gate_on_plain_cases(gate: IntentGate, query: str, strategy: str) -> None:
    assert gate.classify(turn_from(query, SAID)).strategy == strategy


@given(st.text(max_size=300))
def test_any_message_has_features_and_a_decision(text: str) -> None:
    row = features(turn_from(text, SAID))
    assert row.shape == (DIM,)
    assert np.isfinite(row).all()


def test_the_onnx_file_computes_a_softmax_of_the_linear_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(DIM, len(STRATEGIES))).astype(np.float32)
    bias = rng.normal(size=len(STRATEGIES)).astype(np.float32)
    write_onnx(tmp_path / "gate.onnx", weights, bias)
    rows = np.stack([features(turn_from(q, SAID)) for q in ("How much is it?", "payroll", "")])
    logits = rows.astype(np.float64) @ weights + bias
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert IntentGate(tmp_path / "gate.onnx").probabilities(rows) == pytest.approx(expected, abs=1e-4)


def test_a_file_that_is_no_gate_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gate.onnx").write_bytes(b"no model")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        IntentGate(tmp_path / "gate.onnx")
