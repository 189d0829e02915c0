"""Measures the reference scorer company by company, then fits it on all of them and writes its weights and card.

Seeded: the same sets give the same file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ixchat.utils.local.antecedents import ANTECEDENT_FEATURES
from ixchat.utils.local.reference import WEIGHTS_FILE, ReferenceScorer
from ixevaluation.follow_ups import companies, stress_company
from ixevaluation.reference_training.card import card
from ixevaluation.reference_training.examples import Example, examples

SEED = 7
RIDGE = 0.002
SPREAD_FLOOR = 0.05  # a feature that hardly ever varies must not count for much
DIGITS = 4
SHIPPED = Path(__file__).parents[2] / "ixchat" / "utils" / "local"

Doubles = NDArray[np.float64]


def main() -> None:
    """Fit, measure, write, and print the card."""
    parser = argparse.ArgumentParser(prog="python -m ixevaluation.reference_training", description=__doc__)
    parser.add_argument("--to", type=Path, default=SHIPPED, help="folder for the weights and the card")
    arguments = parser.parse_args()

    dev = companies("dev")
    learned_from = examples(dev, SEED)
    unseen = {
        company.key: fit([example for example in learned_from if company.key not in example.groups])
        for company in (*dev, stress_company())
    }
    shipped = fit(learned_from)
    arguments.to.mkdir(parents=True, exist_ok=True)
    (arguments.to / WEIGHTS_FILE).write_text(
        json.dumps(_document(shipped), indent=1) + "\n", encoding="utf-8"
    )
    text = card(dev, companies("holdout"), unseen, shipped)
    (arguments.to / "reference.md").write_text(text, encoding="utf-8")
    print(text)


def fit(rows: Sequence[Example]) -> ReferenceScorer:
    """A conditional logit with a ridge: of each example, the right name or none must win over the others."""
    stacked = np.concatenate([row.antecedents.rows for row in rows])
    mean, scale = stacked.mean(0), stacked.std(0) + np.float32(SPREAD_FLOOR)
    designs = [
        np.column_stack([np.ones(len(row.antecedents.rows)), (row.antecedents.rows - mean) / scale])
        for row in rows
    ]
    total = sum(row.weight for row in rows)

    def objective(theta: Doubles) -> tuple[float, Doubles]:
        loss, slope = 0.0, np.zeros_like(theta)
        for row, design in zip(rows, designs, strict=True):
            logits = np.append(design @ theta, 0.0)  # the last is none
            logits -= logits.max()
            odds = np.exp(logits)
            share = odds / odds.sum()
            right = len(design) if row.answer is None else row.answer
            loss -= row.weight * float(np.log(share[right] + 1e-12))
            share[right] -= 1
            slope += row.weight * (design.T @ share[:-1])
        pulled = theta.copy()
        pulled[0] = 0.0
        return loss / total + RIDGE * float(pulled @ pulled) / 2, slope / total + RIDGE * pulled

    start = np.zeros(len(ANTECEDENT_FEATURES) + 1)
    theta = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 300}).x
    return ReferenceScorer(theta[1:].astype(np.float32), float(theta[0]), mean, scale)


def _document(scorer: ReferenceScorer) -> dict[str, Any]:
    columns = {"weights": scorer.weights, "mean": scorer.mean, "scale": scorer.scale}
    return {
        "features": list(ANTECEDENT_FEATURES),
        "bias": round(scorer.bias, DIGITS),
        **{name: [round(float(value), DIGITS) for value in values] for name, values in columns.items()},
    }


if __name__ == "__main__":
    main()
