"""Measures the learned scorer by conversation folds, then fits it on everything and writes its weights and card.

Seeded: the same data give the same file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ixchat.utils.local.features import MESSAGE_FEATURES, WORD_FEATURES, Floats
from ixchat.utils.local.scorer import WEIGHTS_FILE, Scorer, Scores, standardised, weight_features
from ixevaluation.local_training.card import Report, card
from ixevaluation.local_training.data import FOLDS, Example, indexes, read_examples, read_passages
from ixevaluation.local_training.measure import (
    AddedWeights,
    Searcher,
    measure_choice,
    measure_need,
    measure_search,
    ranking_of,
)
from ixevaluation.local_training.network import average, fit_network, fit_weights

TRAINED_ON = {"gate-trec": 1.0, "gate-canard": 0.6}
PERMISSIVE = {"gate-trec": 1.0, "gate-alexa-cqr": 0.3, "retrieval-mtrag": 0.5}
SEARCHED = ("retrieval-mtrag", "retrieval-mtragun", "retrieval-canard")
SHARE_ALIKE = ("gate-canard", "retrieval-canard")  # CC BY-SA; nothing of it is learned with --permissive
LABELLED = ("gate-trec", "gate-canard", "gate-alexa-cqr", "retrieval-mtrag")
SEEDS = (0, 1)
DIGITS = 4
SHIPPED = Path(__file__).parents[2] / "ixchat" / "utils" / "local"


def main() -> None:
    """Read, measure out of fold, fit on everything, write, print the card."""
    parser = argparse.ArgumentParser(prog="python -m ixevaluation.local_training", description=__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with dev/*.jsonl and passages/*.jsonl"
    )
    parser.add_argument("--to", type=Path, default=SHIPPED, help="folder for the weights and the card")
    parser.add_argument("--permissive", action="store_true", help="learn from MIT and Apache data alone")
    arguments = parser.parse_args()

    passages = read_passages(arguments.data)
    examples = read_examples(arguments.data, dict.fromkeys((*LABELLED, *SEARCHED)), passages)
    searchers = {domain: Searcher.of(index) for domain, index in indexes(passages).items()}
    sets = PERMISSIVE if arguments.permissive else TRAINED_ON
    report = measure(examples, searchers, sets)
    scorer = fit_all(examples, searchers, sets)
    arguments.to.mkdir(parents=True, exist_ok=True)
    write_weights(arguments.to / WEIGHTS_FILE, scorer)
    text = card(report, sets)
    (arguments.to / "weights.md").write_text(text, encoding="utf-8")
    print(text)


def measure(
    examples: Sequence[Example], searchers: Mapping[str, Searcher], sets: Mapping[str, float]
) -> Report:
    """Score every turn with a scorer that saw none of its conversation."""
    networks = [_network(_outside(examples, fold), sets) for fold in range(FOLDS)]
    first = {id(example): networks[example.fold].score(example.features) for example in examples}
    searched = [example for example in examples if example.source in SEARCHED]
    rows = {
        id(example): _weight_rows(example, first[id(example)], networks[example.fold]) for example in searched
    }
    problems = [
        (example.fold, ranking)
        for example in searched
        if example.source in _ranked(sets)
        and (ranking := ranking_of(example, first[id(example)], rows[id(example)], searchers[example.domain]))
    ]
    theta = [fit_weights([row for held, row in problems if held != fold], seed=0) for fold in range(FOLDS)]
    scores = dict(first)
    for example in searched:
        network = Scorer({**networks[example.fold].weights, "weight": theta[example.fold]})
        scores[id(example)] = network.score(example.features)
    return _report(examples, scores, searchers)


def fit_all(
    examples: Sequence[Example], searchers: Mapping[str, Searcher], sets: Mapping[str, float]
) -> Scorer:
    """The shipped scorer: the network on every turn, the lexical weights on out-of-fold scores."""
    networks = [_network(_outside(examples, fold), sets) for fold in range(FOLDS)]
    problems = []
    for example in examples:
        if example.source in _ranked(sets):
            network = networks[example.fold]
            found = network.score(example.features)
            features = _weight_rows(example, found, network)
            problems.append(ranking_of(example, found, features, searchers[example.domain]))
    theta = fit_weights([problem for problem in problems if problem is not None], seed=0)
    return Scorer({**_network(examples, sets).weights, "weight": theta})


def write_weights(path: Path, scorer: Scorer) -> None:
    """Write the weights with a fixed number of digits, so that the file is the same on every machine."""
    document = {
        "message_features": MESSAGE_FEATURES,
        "word_features": WORD_FEATURES,
        "weights": {
            name: np.round(array.astype(float), DIGITS).tolist() for name, array in scorer.weights.items()
        },
    }
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")


def all_words(_: Example, scores: Scores) -> Floats:
    """Every candidate, at its learned weight."""
    return scores.weight


def typed(most: int, need: float) -> AddedWeights:
    """The best few words as if they were typed, where the message needs any."""

    def weights(_: Example, scores: Scores) -> Floats:
        chosen = np.zeros_like(scores.share)
        if scores.need >= need and len(chosen):
            chosen[np.argsort(-scores.share)[:most]] = 1
        return chosen

    return weights


def in_proportion(factor: float) -> AddedWeights:
    """Every candidate at a share of the probability that a person would write it."""
    return lambda _, scores: scores.term * np.float32(factor)


ARMS: Mapping[str, AddedWeights] = {
    "half the term's probability": in_proportion(0.5),
    "the term's probability": in_proportion(1.0),
    "weighted words": all_words,
    "eight weighted words": lambda _, scores: np.where(
        np.argsort(np.argsort(-scores.weight)) < 8, scores.weight, 0
    ).astype(np.float32),
    "one word, need ≥ 0.5": typed(1, 0.5),
    "one word, need ≥ 0.8": typed(1, 0.8),
    "two words, need ≥ 0.5": typed(2, 0.5),
    "two words, need ≥ 0.8": typed(2, 0.8),
    "three words, need ≥ 0.5": typed(3, 0.5),
}
THRESHOLDS = (0.5, 0.6, 0.7, 0.8)


def _report(
    examples: Sequence[Example], scores: Mapping[int, Scores], searchers: Mapping[str, Searcher]
) -> Report:
    by_source = {
        source: [item for item in examples if item.source == source]
        for source in dict.fromkeys((*LABELLED, *SEARCHED))
    }
    gates = [item for source in LABELLED[:3] for item in by_source[source]]
    return Report(
        need={
            **{
                f"{source}": {at: measure_need(by_source[source], scores, at) for at in THRESHOLDS}
                for source in LABELLED
            },
            "the three gate sets": {at: measure_need(gates, scores, at) for at in THRESHOLDS},
        },
        choice={
            **{
                source: {most: measure_choice(by_source[source], scores, most) for most in (1, 2, 3)}
                for source in LABELLED
            },
            "the three gate sets": {most: measure_choice(gates, scores, most) for most in (1, 2, 3)},
        },
        search={
            arm: {
                source: measure_search(by_source[source], scores, searchers, weights) for source in SEARCHED
            }
            for arm, weights in ARMS.items()
        },
    )


def _ranked(sets: Mapping[str, float]) -> list[str]:
    """The sets whose relevance labels fit the lexical weights: none under share-alike unless the network saw it."""
    return [name for name in SEARCHED if name not in SHARE_ALIKE or "gate-canard" in sets]


def _network(examples: Sequence[Example], sets: Mapping[str, float]) -> Scorer:
    taught = [example for example in examples if example.source in sets]
    return average([fit_network(taught, sets, seed=seed) for seed in SEEDS])


def _outside(examples: Sequence[Example], fold: int) -> list[Example]:
    return [example for example in examples if example.fold != fold]


def _weight_rows(example: Example, scores: Scores, scorer: Scorer) -> Floats:
    rows = standardised(example.features.words, scorer.weights["word_mean"], scorer.weights["word_scale"])
    return weight_features(scores.term, scores.share, rows)


if __name__ == "__main__":
    main()
