"""Decides by learned weights whether a longer follow-up needs a name of the last turns, and which."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np

from ixchat.utils.local.antecedents import ANTECEDENT_FEATURES, Antecedents, describe_antecedents
from ixchat.utils.local.features import Floats
from ixchat.utils.local.rules import Ruling, Verdict, rule_on_reference
from ixchat.utils.resolution import Turn
from ixinfra.errors import ConfigError
from ixrag.names import NameIndex
from ixrag.profiles import NameProfiles

WEIGHTS_FILE = "reference.json"
MIN_PROBABILITY = 0.5  # of a name, from which it is appended to a message that points at something
MIN_UNPOINTED = (
    0.7  # where nothing points: most such messages stand alone, on a site far more than in the sets
)
SHOWN = 3  # features named as reasons


@dataclass(frozen=True, slots=True)
class ReferenceScorer:
    """A conditional logit: the names of the last turns compete with one another and with *none is needed*.

    Attributes:
        weights: float32 `[len(ANTECEDENT_FEATURES)]`, of features in standard deviations.
        bias: Of every name against none.
        mean: float32 `[len(ANTECEDENT_FEATURES)]`.
        scale: Likewise.
    """

    weights: Floats
    bias: float
    mean: Floats
    scale: Floats

    def probabilities(self, antecedents: Antecedents) -> Floats:
        """That each name is the one the message needs, float32 `[n]`; what is missing to 1 is for none."""
        logits = self.contributions(antecedents).sum(axis=1) + self.bias
        odds = np.exp(logits - max(0.0, logits.max(initial=0.0)))
        return np.asarray(odds / (odds.sum() + np.exp(-max(0.0, logits.max(initial=0.0)))), np.float32)

    def contributions(self, antecedents: Antecedents) -> Floats:
        """What each feature adds for each name, float32 `[n, len(ANTECEDENT_FEATURES)]`."""
        return np.asarray((antecedents.rows - self.mean) / self.scale * self.weights, np.float32)


def choose_reference(
    turn: Turn,
    index: NameIndex,
    profiles: NameProfiles | None = None,
    scorer: ReferenceScorer | None = None,
) -> Ruling:
    """What a longer follow-up refers to. No I/O.

    Without any name in the last turns, the rules say whether something was pointed at in vain.

    Args:
        turn: The message and its conversation.
        index: The tenant's names.
        profiles: What its passages say of each name: tells a question about the subject from one about
            something else where no word points at anything. None where the passages are not known.
        scorer: Default: the one that comes with the package.
    """
    found = describe_antecedents(turn, index, profiles)
    if found is None or not found.candidates:
        return rule_on_reference(turn, index)
    if found.is_farewell:
        return Ruling("keep", "farewell", language=found.language)
    scorer = scorer or shipped_reference_scorer()
    probabilities = scorer.probabilities(found)
    best, leaning = int(probabilities.argmax()), float(probabilities.sum())
    likeliest = float(probabilities[best])
    added = scorer.contributions(found)[best]
    least = MIN_PROBABILITY if found.points else MIN_UNPOINTED
    if likeliest >= least:
        because = _strongest(added)
        return Ruling(
            "resolve", "learned", found.candidates[best], found.marker, found.language, likeliest, because
        )
    verdict: Verdict = "ambiguous" if found.means_several or leaning >= least else "keep"
    return Ruling(verdict, "learned", None, found.marker, found.language, 1 - likeliest, _strongest(-added))


def _strongest(added: Floats) -> tuple[str, ...]:
    """The features that spoke most for the decision."""
    order = np.argsort(-added)[:SHOWN]
    return tuple(ANTECEDENT_FEATURES[place] for place in order)


def read_reference_scorer(document: Mapping[str, Any]) -> ReferenceScorer:
    """A scorer from the content of a weights file.

    Raises:
        ConfigError: The file was trained for other features than this code computes.
    """
    if tuple(document.get("features", ())) != ANTECEDENT_FEATURES:
        raise ConfigError(
            f"{WEIGHTS_FILE}: 'features' are not those of this version; train again with "
            "`python -m ixevaluation.reference_training`"
        )
    columns = {name: np.array(document[name], np.float32) for name in ("weights", "mean", "scale")}
    return ReferenceScorer(bias=float(document["bias"]), **columns)


@lru_cache(maxsize=1)
def shipped_reference_scorer() -> ReferenceScorer:
    """The scorer that comes with the package, read once."""
    text = files("ixchat.utils.local").joinpath(WEIGHTS_FILE).read_text(encoding="utf-8")
    return read_reference_scorer(json.loads(text))
