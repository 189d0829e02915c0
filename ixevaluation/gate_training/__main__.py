"""Trains the intent gate, writes the ONNX file and its card. Seeded: the same data give the same file."""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ixchat.utils.intent_gate import DIM, MIN_CONFIDENCE, SHIPPED, STRATEGIES, Features, decide, features
from ixevaluation.gate_training.card import card
from ixevaluation.gate_training.examples import Example, bundled, compounds, public, written

SEED = 7
REGULARISATION = 1.0  # inverse strength
LEARNED_FROM = ("gate-trec", "gate-alexa-cqr", "retrieval-mtrag")  # permissive licences alone


def main() -> None:
    """Read, train, write, and print the card."""
    parser = argparse.ArgumentParser(prog="python -m ixevaluation.gate_training", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with dev/*.jsonl of the public sets")
    parser.add_argument("--to", type=Path, default=SHIPPED, help="where the model is written")
    arguments = parser.parse_args()

    examples = training_examples(arguments.data)
    weights, bias = train(examples)
    write_onnx(arguments.to, weights, bias)
    tests = {
        "written for the test": written("test"),
        "reference sets, holdout half": bundled("holdout"),
        "CANARD, development half": public(arguments.data, ["gate-canard"]),
    }
    text = card(examples, {name: verdicts(rows, weights, bias) for name, rows in tests.items()})
    arguments.to.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


def training_examples(folder: Path) -> list[Example]:
    """Everything that is learned from, compounds included."""
    own = [*written("train"), *bundled("dev"), *public(folder, LEARNED_FROM)]
    return own + compounds(own, random.Random(SEED))


def train(examples: Sequence[Example]) -> tuple[Features, Features]:
    """Weights float32 `[DIM, 5]` and bias float32 `[5]` of a multinomial logistic regression.

    Each language counts the same, and within it each class.
    """
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression

    rows = csr_matrix(np.stack([features(example.turn) for example in examples]))
    labels = np.array([STRATEGIES.index(example.label) for example in examples])
    cells = Counter((example.lang, example.label) for example in examples)
    share = np.array([1.0 / cells[example.lang, example.label] for example in examples])
    model: Any = LogisticRegression(C=REGULARISATION, max_iter=200, random_state=SEED)
    model.fit(rows, labels, sample_weight=share * len(examples) / share.sum())
    return model.coef_.T.astype(np.float32), model.intercept_.astype(np.float32)


def verdicts(examples: Sequence[Example], weights: Features, bias: Features) -> list[tuple[Example, str]]:
    """What the gate decides for each example, floor and first-turn rule included."""
    rows = np.stack([features(example.turn) for example in examples])
    logits = rows @ weights + bias
    scores = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores /= scores.sum(axis=1, keepdims=True)
    return [
        (
            example,
            decide(row, first_turn=not example.turn.messages, min_confidence=MIN_CONFIDENCE).strategy,
        )
        for example, row in zip(examples, scores, strict=True)
    ]


def write_onnx(path: Path, weights: Features, bias: Features) -> None:
    """One matrix product, a sum and a softmax."""
    from onnx import TensorProto, checker, helper, numpy_helper

    nodes = [
        helper.make_node("MatMul", ["features", "weights"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "intent_gate",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", DIM])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", len(STRATEGIES)])],
        [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(bias, "bias")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="ix")
    model.ir_version = 8
    checker.check_model(model)
    path.write_bytes(model.SerializeToString())


if __name__ == "__main__":
    main()
