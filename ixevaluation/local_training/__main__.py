"""Measures the learned scorer by conversation folds, then fits it on everything and writes its weights and card.

Seeded: the same data give the same file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ixchat.utils.local.learned import MIN_NEED, MIN_WEIGHT
from ixchat.utils.local.scorer import FEATURES, WEIGHTS_FILE, Scorer
from ixevaluation.local_training.card import Report, card
from ixevaluation.local_training.data import FOLDS, Example, indexes, read_examples, read_passages
from ixevaluation.local_training.lexical_weights import Ranking, fit_weights
from ixevaluation.local_training.measure import (
    Added,
    Scored,
    Searcher,
    measure_choice,
    measure_need,
    measure_search,
    ranking_of,
    scored,
)
from ixevaluation.local_training.network import average, fit_network

TRAINED_ON = {"gate-trec": 1.0, "gate-canard": 0.6}
PERMISSIVE = {"gate-trec": 1.0, "gate-alexa-cqr": 0.3, "retrieval-mtrag": 0.5}
SEARCHED = ("retrieval-mtrag", "retrieval-mtragun", "retrieval-canard")
SHARE_ALIKE = ("gate-canard", "retrieval-canard")  # CC BY-SA; nothing of it is learned with --permissive
LABELLED = ("gate-trec", "gate-canard", "gate-alexa-cqr", "retrieval-mtrag")
SEEDS = (0, 1, 2, 3)
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
    searched = indexes(passages)
    examples = read_examples(arguments.data, dict.fromkeys((*LABELLED, *SEARCHED)), passages, searched)
    searchers = {domain: Searcher.of(index) for domain, index in searched.items()}
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
    scored = _out_of_fold(examples, sets)
    problems = _rankings(scored, searchers, sets)
    fitted = [fit_weights([row for held, row in problems if held != fold]) for fold in range(FOLDS)]
    for item in scored:
        item.weights = Scorer(fitted[item.example.fold]).weigh(item.words.rows, item.scores.need)
    return _report(scored, searchers)


def fit_all(
    examples: Sequence[Example], searchers: Mapping[str, Searcher], sets: Mapping[str, float]
) -> Scorer:
    """The shipped scorer: the network on every turn, the lexical weights on out-of-fold scores."""
    problems = _rankings(_out_of_fold(examples, sets), searchers, sets)
    fitted = fit_weights([problem for _, problem in problems])
    return Scorer({**_network(examples, sets).weights, **fitted})


def _out_of_fold(examples: Sequence[Example], sets: Mapping[str, float]) -> list[Scored]:
    networks = [_network(_outside(examples, fold), sets) for fold in range(FOLDS)]
    return [scored(example, networks[example.fold]) for example in examples]


def _rankings(
    scored: Sequence[Scored], searchers: Mapping[str, Searcher], sets: Mapping[str, float]
) -> list[tuple[int, Ranking]]:
    """The ranking problems of the sets that teach weights, with their folds."""
    found = [
        (item.example.fold, ranking_of(item, searchers[item.example.domain]))
        for item in scored
        if item.example.source in _ranked(sets)
    ]
    return [(fold, ranking) for fold, ranking in found if ranking is not None]


def write_weights(path: Path, scorer: Scorer) -> None:
    """Write the weights with a fixed number of digits, so that the file is the same on every machine."""
    document = {
        **FEATURES,
        "weights": {
            name: np.round(array.astype(float), DIGITS).tolist() for name, array in scorer.weights.items()
        },
    }
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")


def weighted(need: float, lightest: float, *, unsaid: bool = True) -> Added:
    """The words at their learned weights, where the message leans enough on the conversation."""

    def words(item: Scored) -> Mapping[str, float]:
        said = len(item.scores.term)
        kept = item.words.words if unsaid else item.words.words[:said]
        weights = dict(zip(kept, item.weights.tolist(), strict=False)) if item.scores.need >= need else {}
        return {word: weight for word, weight in weights.items() if weight >= lightest}

    return words


def typed(most: int, need: float) -> Added:
    """The best few words as if they were typed, where the message needs any."""

    def words(item: Scored) -> Mapping[str, float]:
        best = np.argsort(-item.scores.share)[:most] if item.scores.need >= need else ()
        return {item.words.words[place]: 1.0 for place in best}

    return words


ARMS: Mapping[str, Added] = {
    "as shipped": weighted(0.0, MIN_WEIGHT),
    "every word": weighted(0.0, 0.0),
    "need ≥ 0.2": weighted(0.2, MIN_WEIGHT),
    "need ≥ 0.5": weighted(0.5, MIN_WEIGHT),
    "need ≥ 0.82": weighted(MIN_NEED, MIN_WEIGHT),
    "words of the conversation alone": weighted(0.0, MIN_WEIGHT, unsaid=False),
    "one word typed, need ≥ 0.82": typed(1, MIN_NEED),
    "two words typed, need ≥ 0.82": typed(2, MIN_NEED),
    "two words typed, need ≥ 0.5": typed(2, 0.5),
    "three words typed, need ≥ 0.82": typed(3, MIN_NEED),
}
THRESHOLDS = (0.2, 0.5, 0.7, 0.8, MIN_NEED)


def _report(scored: Sequence[Scored], searchers: Mapping[str, Searcher]) -> Report:
    by_source = {
        source: [item for item in scored if item.example.source == source]
        for source in dict.fromkeys((*LABELLED, *SEARCHED))
    }
    labelled = {source: by_source[source] for source in LABELLED}
    labelled["the three gate sets"] = [item for source in LABELLED[:3] for item in by_source[source]]
    return Report(
        need={name: {at: measure_need(items, at) for at in THRESHOLDS} for name, items in labelled.items()},
        choice={
            name: {most: measure_choice(items, most) for most in (1, 2, 3)}
            for name, items in labelled.items()
        },
        search={
            arm: {source: measure_search(by_source[source], added, searchers) for source in SEARCHED}
            for arm, added in ARMS.items()
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


if __name__ == "__main__":
    main()
