"""Fits the scorer's network, in numpy, seeded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ixchat.utils.local.features import MESSAGE_FEATURES, WORD_FEATURES, Floats
from ixchat.utils.local.scorer import Scorer, standardised
from ixevaluation.local_training.data import Example
from ixevaluation.local_training.lexical_weights import no_weights

Doubles = NDArray[np.float64]

HIDDEN, SECOND, NOTHING = 24, 12, 12
EPOCHS, BATCH, RATE, DECAY = 15, 64, 3e-3, 3e-3
DROPOUT = 0.1
TERM_SHARE = 0.075  # of the per-word loss beside the choice; more of it hurts the choice
STANDALONE_WEIGHT = 6.0  # turns that need nothing are one in eight
SPREAD_FLOOR = 0.02
SECOND_MOMENT = 0.999


class Adam:
    """Adam over named arrays, with a cosine schedule. Source: Kingma and Ba, ICLR 2015."""

    def __init__(self, arrays: dict[str, Floats], rate: float, steps: int) -> None:
        self.arrays, self.rate, self.steps = arrays, rate, steps
        self._mean = {name: np.zeros_like(array) for name, array in arrays.items()}
        self._square = {name: np.zeros_like(array) for name, array in arrays.items()}
        self._step = 0

    def step(self, gradients: Mapping[str, Floats]) -> None:
        """Move every array against its gradient."""
        rate = self.rate * (0.5 * (1 + np.cos(np.pi * self._step / self.steps)) + 0.02)
        self._step += 1
        for name, gradient in gradients.items():
            self._mean[name] = 0.9 * self._mean[name] + 0.1 * gradient
            self._square[name] = SECOND_MOMENT * self._square[name] + (1 - SECOND_MOMENT) * gradient**2
            mean = self._mean[name] / (1 - 0.9**self._step)
            square = self._square[name] / (1 - SECOND_MOMENT**self._step)
            self.arrays[name] -= np.asarray(rate * mean / (np.sqrt(square) + 1e-8), np.float32)


def learnable(example: Example) -> bool:
    """Whether a turn teaches: it has candidates, and a person's rewrite that is clear about them."""
    if example.written is None or not len(example.written):
        return False
    return example.gate == "none" or (example.gate == "resolve" and bool(example.written.any()))


def fit_network(examples: Sequence[Example], set_weights: Mapping[str, float], *, seed: int) -> Scorer:
    """Fit both heads and the choice "nothing" to the words people wrote into the messages.

    The choice is a softmax over the candidates and "nothing"; a turn's loss is the negative log of the
    probability of any word that was written, or of "nothing".
    """
    examples = [example for example in examples if learnable(example)]
    rng = np.random.default_rng(seed)
    statics = _statistics(examples)
    arrays = _initial(rng)
    message = np.stack([example.features.message for example in examples])
    message = standardised(message, statics["message_mean"], statics["message_scale"])
    rows = [
        standardised(example.features.words, statics["word_mean"], statics["word_scale"])
        for example in examples
    ]
    targets = [_target(example) for example in examples]
    weights = np.array([_weight(example, set_weights) for example in examples], np.float32)
    weights /= weights.mean()
    batches = -(-len(examples) // BATCH)
    adam = Adam(arrays, RATE, EPOCHS * batches)
    for _ in range(EPOCHS):
        for chosen in np.array_split(rng.permutation(len(examples)), batches):
            batch = _Batch(
                rows=np.concatenate([rows[item] for item in chosen]),
                owner=np.repeat(np.arange(len(chosen)), [len(rows[item]) for item in chosen]),
                message=message[chosen],
                target=np.concatenate([targets[item] for item in chosen]),
                weight=weights[chosen],
            )
            adam.step(_gradients(arrays, batch, rng))
    return Scorer({**statics, **arrays, **no_weights()})


def average(scorers: Sequence[Scorer]) -> Scorer:
    """One wider network that gives the mean logits of several (the heads' weights are divided)."""
    first = scorers[0].weights
    wide: dict[str, Floats] = {
        **no_weights(),
        **{name: first[name] for name in ("message_mean", "message_scale", "word_mean", "word_scale")},
    }
    for name in ("message_in", "word_in", "bias_in", "hidden_bias", "nothing_in", "nothing_in_bias"):
        wide[name] = np.concatenate([scorer.weights[name] for scorer in scorers], axis=-1)
    for name in ("choice", "term", "nothing"):
        mean = np.concatenate([scorer.weights[name] for scorer in scorers]) / len(scorers)
        wide[name] = np.asarray(mean, np.float32)
    for name in ("choice_bias", "term_bias", "nothing_bias"):
        wide[name] = np.asarray(np.mean([scorer.weights[name] for scorer in scorers], axis=0), np.float32)
    hidden = np.zeros((HIDDEN * len(scorers), SECOND * len(scorers)), np.float32)
    for block, scorer in enumerate(scorers):
        hidden[block * HIDDEN : (block + 1) * HIDDEN, block * SECOND : (block + 1) * SECOND] = scorer.weights[
            "hidden"
        ]
    return Scorer({**wide, "hidden": hidden})


@dataclass(frozen=True, slots=True)
class _Batch:
    rows: Floats
    owner: NDArray[np.intp]
    message: Floats
    target: Floats
    weight: Floats


def _gradients(arrays: dict[str, Floats], batch: _Batch, rng: np.random.Generator) -> dict[str, Floats]:
    w, owner = arrays, batch.owner
    rows = batch.rows * (rng.random(batch.rows.shape) > DROPOUT) / (1 - DROPOUT)
    first = np.maximum(rows @ w["word_in"] + (batch.message @ w["message_in"])[owner] + w["bias_in"], 0)
    second = np.maximum(first @ w["hidden"] + w["hidden_bias"], 0)
    choice = second @ w["choice"] + w["choice_bias"]
    term = 1 / (1 + np.exp(-(second @ w["term"] + w["term_bias"])))
    nothing_in = np.maximum(batch.message @ w["nothing_in"] + w["nothing_in_bias"], 0)
    nothing = nothing_in @ w["nothing"] + w["nothing_bias"]

    top = nothing.copy()
    np.maximum.at(top, owner, choice)
    odds, nothing_odds = np.exp(choice - top[owner]), np.exp(nothing - top)
    total = nothing_odds.copy()
    np.add.at(total, owner, odds)
    share, nothing_share = odds / total[owner], nothing_odds / total
    right, wanted = np.zeros_like(total), np.zeros_like(total)
    np.add.at(right, owner, share * batch.target)
    np.maximum.at(wanted, owner, batch.target)

    scale = batch.weight / len(batch.weight)
    of_right = np.where(wanted[owner] > 0, share * batch.target / np.maximum(right[owner], 1e-9), 0)
    d_choice = (share - of_right) * scale[owner]
    d_nothing = (nothing_share - (wanted == 0)) * scale
    d_term = TERM_SHARE * (term - batch.target) * scale[owner]
    d_second = (np.outer(d_choice, w["choice"]) + np.outer(d_term, w["term"])) * (second > 0)
    d_first = (d_second @ w["hidden"].T) * (first > 0)
    d_message = np.zeros((len(batch.message), d_first.shape[1]))
    np.add.at(d_message, owner, d_first)
    d_in = np.outer(d_nothing, w["nothing"]) * (nothing_in > 0)
    gradients = {
        "choice": second.T @ d_choice, "choice_bias": d_choice.sum(keepdims=True), "term": second.T @ d_term,
        "term_bias": d_term.sum(keepdims=True), "hidden": first.T @ d_second, "hidden_bias": d_second.sum(0),
        "word_in": rows.T @ d_first, "message_in": batch.message.T @ d_message, "bias_in": d_first.sum(0),
        "nothing": nothing_in.T @ d_nothing, "nothing_bias": d_nothing.sum(keepdims=True),
        "nothing_in": batch.message.T @ d_in, "nothing_in_bias": d_in.sum(0),
    }  # fmt: skip
    return {
        name: np.asarray(gradient + (0 if "bias" in name else DECAY * arrays[name]), np.float32)
        for name, gradient in gradients.items()
    }


def _initial(rng: np.random.Generator) -> dict[str, Floats]:
    def drawn(*shape: int, scale: float = 1.0) -> Floats:
        return np.asarray(rng.normal(0, scale * np.sqrt(2 / shape[0]), shape), np.float32)

    def zero(size: int) -> Floats:
        return np.zeros(size, np.float32)

    return {
        "word_in": drawn(len(WORD_FEATURES), HIDDEN), "message_in": drawn(len(MESSAGE_FEATURES), HIDDEN),
        "bias_in": zero(HIDDEN), "hidden": drawn(HIDDEN, SECOND), "hidden_bias": zero(SECOND),
        "choice": drawn(SECOND, scale=0.3), "choice_bias": zero(1), "term": drawn(SECOND, scale=0.3),
        "term_bias": zero(1), "nothing_in": drawn(len(MESSAGE_FEATURES), NOTHING),
        "nothing_in_bias": zero(NOTHING), "nothing": drawn(NOTHING, scale=0.3), "nothing_bias": zero(1),
    }  # fmt: skip


def _statistics(examples: Sequence[Example]) -> dict[str, Floats]:
    rows = np.concatenate([example.features.words for example in examples])
    message = np.stack([example.features.message for example in examples])
    return {
        "message_mean": message.mean(0), "message_scale": message.std(0) + np.float32(SPREAD_FLOOR),
        "word_mean": rows.mean(0), "word_scale": rows.std(0) + np.float32(SPREAD_FLOOR),
    }  # fmt: skip


def _target(example: Example) -> Floats:
    written = example.written
    assert written is not None
    return written if example.gate == "resolve" else np.zeros_like(written)


def _weight(example: Example, set_weights: Mapping[str, float]) -> float:
    return set_weights.get(example.source, 1.0) * (STANDALONE_WEIGHT if example.gate == "none" else 1.0)
