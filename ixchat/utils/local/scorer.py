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
from ixinfra.errors import ConfigError

WEIGHTS_FILE = "weights.json"
CLIP = 4.0  # standard deviations; one odd message must not swamp the rest
MIN_ODDS = 1e-3
LOG_WEIGHT_RANGE = (-8.0, 1.0)


@dataclass(frozen=True, slots=True)
class Scores:
    """What the scorer makes of a turn.

    Attributes:
        need: Probability that the message leans on the conversation, 0 to 1.
        share: float32 `[n]`, probability that this word is the one it lacks most; with `1 - need` they add up to 1.
        term: float32 `[n]`, probability that a person would write the word into the message.
        weight: float32 `[n]`, weight of the word beside the message's own words in a lexical search.
    """

    need: float
    share: Floats
    term: Floats
    weight: Floats


@dataclass(frozen=True, slots=True)
class Scorer:
    """Weights of the network, by name, as float32 arrays.

    Two layers read each word together with the message; two heads give `share` (against the choice
    "nothing", which reads the message alone) and `term`. `weight` is log-linear in both and in the word.
    """

    weights: Mapping[str, Floats]

    def score(self, features: TurnFeatures) -> Scores:
        """Score a turn; with no candidate nothing is needed."""
        w = self.weights
        message = standardised(features.message, w["message_mean"], w["message_scale"])
        rows = standardised(features.words, w["word_mean"], w["word_scale"])
        if not len(rows):
            none = np.zeros(0, np.float32)
            return Scores(0.0, none, none, none)
        # The message is the same for every word, so its part of the first layer is computed once.
        first = np.maximum(rows @ w["word_in"] + (message @ w["message_in"] + w["bias_in"]), 0)
        second = np.maximum(first @ w["hidden"] + w["hidden_bias"], 0)
        choice = second @ w["choice"] + w["choice_bias"][0]
        term = 1 / (1 + np.exp(-(second @ w["term"] + w["term_bias"][0])))
        nothing = np.maximum(message @ w["nothing_in"] + w["nothing_in_bias"], 0)
        logits = np.append(choice, nothing @ w["nothing"] + w["nothing_bias"][0])
        odds = np.exp(logits - logits.max())
        odds /= odds.sum()
        share = odds[:-1]
        weight = np.exp(np.clip(weight_features(term, share, rows) @ w["weight"], *LOG_WEIGHT_RANGE))
        return Scores(float(1 - odds[-1]), share, term, weight)


def standardised(values: Floats, mean: Floats, scale: Floats) -> Floats:
    """Features in standard deviations of the training data, clipped."""
    return np.asarray(np.clip((values - mean) / scale, -CLIP, CLIP), np.float32)


def weight_features(term: Floats, share: Floats, rows: Floats) -> Floats:
    """What the log of a word's weight is linear in: 1, the two log odds, the word's own features."""
    columns = [np.ones(len(rows), np.float32), _log_odds(term), _log_odds(share), rows]
    return np.asarray(np.column_stack(columns), np.float32)


def _log_odds(probability: Floats) -> Floats:
    return np.asarray(np.log((probability + MIN_ODDS) / (1 - probability + MIN_ODDS)) / 2, np.float32)


def read_scorer(document: Mapping[str, Any]) -> Scorer:
    """A scorer from the content of a weights file.

    Raises:
        ConfigError: The file was trained for other features than this code computes.
    """
    for name, expected in (("message_features", MESSAGE_FEATURES), ("word_features", WORD_FEATURES)):
        if tuple(document[name]) != expected:
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
