"""The learned scorer: a small network, its weights as JSON, evaluated with numpy alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np

from ixchat.utils.local.features import MESSAGE_FEATURES, WORD_FEATURES, Floats, TurnFeatures
from ixchat.utils.local.weighing import LOG_WEIGHT_RANGE, WEIGHT_FEATURES
from ixinfra.errors import ConfigError

WEIGHTS_FILE = "weights.json"
FEATURES = {
    "message_features": MESSAGE_FEATURES,
    "word_features": WORD_FEATURES,
    "weight_features": WEIGHT_FEATURES,
}
CLIP = 4.0  # standard deviations; one odd message must not swamp the rest


@dataclass(frozen=True, slots=True)
class Scores:
    """What the scorer makes of a turn.

    Attributes:
        need: Probability that the message leans on the conversation, 0 to 1.
        share: float32 `[n]`, probability that this word is the one it lacks most; with `1 - need` they add up to 1.
        term: float32 `[n]`, probability that a person would write the word into the message.
    """

    need: float
    share: Floats
    term: Floats


@dataclass(frozen=True, slots=True)
class Scorer:
    """Weights of the network, by name, as float32 arrays.

    Two layers read each word together with the message; two heads give `share` (against the choice
    "nothing", which reads the message alone) and `term`. The weight of a word in a search is log-linear in
    both, in the word, the message and the passages behind the earlier answers.
    """

    weights: Mapping[str, Floats]

    def score(self, features: TurnFeatures) -> Scores:
        """Score a turn; with no candidate nothing is needed."""
        w = self.weights
        message = standardised(features.message, w["message_mean"], w["message_scale"])
        rows = standardised(features.words, w["word_mean"], w["word_scale"])
        if not len(rows):
            none = np.zeros(0, np.float32)
            return Scores(0.0, none, none)
        # The message is the same for every word, so its part of the first layer is computed once.
        first = np.maximum(rows @ w["word_in"] + (message @ w["message_in"] + w["bias_in"]), 0)
        second = np.maximum(first @ w["hidden"] + w["hidden_bias"], 0)
        choice = second @ w["choice"] + w["choice_bias"][0]
        term = 1 / (1 + np.exp(-(second @ w["term"] + w["term_bias"][0])))
        nothing = np.maximum(message @ w["nothing_in"] + w["nothing_in_bias"], 0)
        logits = np.append(choice, nothing @ w["nothing"] + w["nothing_bias"][0])
        odds = np.exp(logits - logits.max())
        odds /= odds.sum()
        return Scores(float(1 - odds[-1]), odds[:-1], term)

    def weigh(self, rows: Floats, need: float) -> Floats:
        """Weights of words beside the message's own in a lexical search, float32 `[n]`; 1 is as good as typed.

        Args:
            rows: float32 `[n, len(WEIGHT_FEATURES)]`, as `weighing.weighable` gives them.
            need: Probability that the message lacks anything: a word is worth that share of what it would be
                worth if it were certain.
        """
        w = self.weights
        columns = standardised(rows, w["weight_mean"], w["weight_scale"])
        logs = columns @ w["weight"] + w["weight_bias"][0]
        return np.asarray(need * np.exp(np.clip(logs, *LOG_WEIGHT_RANGE)), np.float32)


def standardised(values: Floats, mean: Floats, scale: Floats) -> Floats:
    """Features in standard deviations of the training data, clipped."""
    return np.asarray(np.clip((values - mean) / scale, -CLIP, CLIP), np.float32)


def read_scorer(document: Mapping[str, Any]) -> Scorer:
    """A scorer from the content of a weights file.

    Raises:
        ConfigError: The file was trained for other features than this code computes.
    """
    for name, expected in FEATURES.items():
        if tuple(document.get(name, ())) != expected:
            raise ConfigError(
                f"{WEIGHTS_FILE}: {name!r} are not those of this version; train again with "
                "`python -m ixevaluation.local_training`"
            )
    return Scorer({name: np.array(values, np.float32) for name, values in document["weights"].items()})


@lru_cache(maxsize=1)
def shipped_scorer() -> Scorer:
    """The scorer that comes with the package, read once."""
    text = files("ixchat.utils.local").joinpath(WEIGHTS_FILE).read_text(encoding="utf-8")
    return read_scorer(json.loads(text))
