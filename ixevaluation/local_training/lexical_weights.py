"""Fits how much each missing word weighs in a lexical search, from which passages are relevant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ixchat.utils.local.features import Floats
from ixchat.utils.local.scorer import standardised
from ixchat.utils.local.weighing import LOG_WEIGHT_RANGE, WEIGHT_FEATURES

Doubles = NDArray[np.float64]

SET_WEIGHT = {"retrieval-mtrag": 1.0, "retrieval-mtragun": 1.5, "retrieval-canard": 0.03}
"""Of a turn. CANARD has most of the turns, and one topic a conversation: more of it makes words too heavy elsewhere."""

PRIOR = {"bias": -1.0, "term": 0.6}  # a word weighs as it is probable, until the labels say otherwise
RIDGE = 0.02
PRICE = 0.05  # of a word as good as typed: what does not help is not added
TEMPERATURE = 1.3  # BM25 points by which a passage must be better to count as clearly better
ITERATIONS = 60
SPREAD_FLOOR = 0.02


@dataclass(frozen=True, slots=True)
class Ranking:
    """A turn's ranking problem: passages worth telling apart, and what each word adds to each.

    Attributes:
        own: float64 `[d]`, BM25 score of the message.
        added: float64 `[d, n]`, BM25 score of each word, times the probability that the message lacks any.
        relevant: float64 `[d]`, 1 for relevant passages.
        rows: float32 `[n, len(WEIGHT_FEATURES)]`, as `weighing.weighable` gives them.
        source: Name of the set; see `SET_WEIGHT`.
    """

    own: Doubles
    added: Doubles
    relevant: Doubles
    rows: Floats
    source: str


def fit_weights(rankings: Sequence[Ranking]) -> dict[str, Floats]:
    """The part of a `Scorer` that weighs words: those weights that put relevant passages above the others.

    Loss of a turn: negative log of the softmax mass of its relevant passages, and a price on the weights. Convex
    solvers do well on it although it is not convex; the prior is the start, so the result is reproducible.
    """
    rows = np.concatenate([ranking.rows for ranking in rankings])
    mean, scale = rows.mean(0), rows.std(0) + np.float32(SPREAD_FLOOR)
    designs = [
        np.column_stack([np.ones(len(ranking.rows)), standardised(ranking.rows, mean, scale)])
        for ranking in rankings
    ]
    prior = np.array([PRIOR.get(name, 0.0) for name in ("bias", *WEIGHT_FEATURES)])
    total = sum(SET_WEIGHT[ranking.source] for ranking in rankings)

    def objective(theta: Doubles) -> tuple[float, Doubles]:
        loss, slope = 0.0, np.zeros_like(theta)
        for ranking, design in zip(rankings, designs, strict=True):
            of_turn, towards = _loss(ranking, design, theta)
            loss += SET_WEIGHT[ranking.source] * of_turn
            slope += SET_WEIGHT[ranking.source] * towards
        away = theta - prior
        return loss / total + RIDGE * float(away @ away) / 2, slope / total + RIDGE * away

    found = minimize(objective, prior, jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS})
    theta = np.asarray(found.x, np.float32)
    return {"weight": theta[1:], "weight_bias": theta[:1], "weight_mean": mean, "weight_scale": scale}


def no_weights() -> Mapping[str, Floats]:
    """The same part before anything is fitted: every word as good as typed."""
    zeros = np.zeros(len(WEIGHT_FEATURES), np.float32)
    return {
        "weight": zeros,
        "weight_bias": np.zeros(1, np.float32),
        "weight_mean": zeros,
        "weight_scale": zeros + 1,
    }


def _loss(ranking: Ranking, design: Doubles, theta: Doubles) -> tuple[float, Doubles]:
    logs = design @ theta
    weights = np.exp(np.clip(logs, *LOG_WEIGHT_RANGE))
    scores = (ranking.own + ranking.added @ weights) / TEMPERATURE
    odds = np.exp(scores - scores.max())
    share = odds / odds.sum()
    right = float(share @ ranking.relevant) + 1e-9
    toward = (share - share * ranking.relevant / right) / TEMPERATURE
    is_free = (logs > LOG_WEIGHT_RANGE[0]) & (logs < LOG_WEIGHT_RANGE[1])
    of_logs = (ranking.added.T @ toward + PRICE) * weights * is_free
    return -np.log(right) + PRICE * float(weights.sum()), np.asarray(design.T @ of_logs, np.float64)
