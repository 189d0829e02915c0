"""What a scorer is worth on turns it has not seen: need, choice, and the search with its words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ixchat.utils.local.features import Floats
from ixchat.utils.local.scorer import Scores
from ixevaluation.lexical import LexicalIndex
from ixevaluation.local_training.data import Example
from ixevaluation.local_training.network import SET_WEIGHT, Doubles, Ranking
from ixevaluation.ranking import ndcg_at
from ixevaluation.stats import bootstrap_ci, tally

CUT = 10
MOST_CANDIDATES = 40
POOL = (30, 40)  # passages to tell apart: best for the message, best for message and candidates
DRAWS = 2_000
TIE_WIDTH = 1e-9

AddedWeights = Callable[[Example, Scores], Floats]
"""Weights of all candidates of a turn; 0 leaves a word out, 1 is as good as typed."""


@dataclass(slots=True)
class Searcher:
    """An index with its words' scores remembered."""

    index: LexicalIndex
    ids: list[str]
    words: dict[str, Doubles]

    @classmethod
    def of(cls, index: LexicalIndex) -> Searcher:
        """A searcher over one domain."""
        return cls(index, list(index.passages), {})

    def word(self, word: str) -> Doubles:
        """Scores of a single word, float64 `[n]`."""
        if word not in self.words:
            self.words[word] = self.index.scores(word)
        return self.words[word]

    def ndcg(self, scores: Doubles, relevant: frozenset[str]) -> float:
        """nDCG of the ranking by score; passages that score 0 are not found."""
        best = [place for place in np.argsort(-scores, kind="stable")[:CUT] if scores[place] > 0]
        return ndcg_at([self.ids[place] for place in best], relevant, CUT)


def ranking_of(example: Example, scores: Scores, features: Floats, searcher: Searcher) -> Ranking | None:
    """The ranking problem of a turn; None where there is nothing to add or to find."""
    chosen = np.argsort(-scores.term)[:MOST_CANDIDATES]
    if not len(chosen) or not example.relevant:
        return None
    own = searcher.index.scores(example.query)
    added = np.stack([searcher.word(example.features.sightings[place].folded) for place in chosen], axis=1)
    relevant = np.array([passage_id in example.relevant for passage_id in searcher.ids])
    mixed = own + added @ scores.term[chosen]
    pool = np.unique(
        np.concatenate([np.argsort(-own)[: POOL[0]], np.argsort(-mixed)[: POOL[1]], np.flatnonzero(relevant)])
    )
    return Ranking(
        own[pool],
        added[pool],
        relevant[pool].astype(float),
        features[chosen].astype(float),
        SET_WEIGHT[example.source],
    )


def measure_search(
    examples: Sequence[Example],
    scores: Mapping[int, Scores],
    searchers: Mapping[str, Searcher],
    weights: AddedWeights,
    *,
    seed: int = 0,
) -> dict[str, Any]:
    """nDCG@10 with the weighted words beside the message, against the message alone, over all turns of a set."""
    raw, deltas, changed = list[float](), list[float](), 0
    for example in examples:
        searcher = searchers[example.domain]
        own = searcher.index.scores(example.query)
        raw.append(searcher.ndcg(own, example.relevant))
        mixed, found = own, scores[id(example)]
        for place, weight in enumerate(weights(example, found)):
            if weight > 0:
                mixed = mixed + float(weight) * searcher.word(example.features.sightings[place].folded)
        changed += mixed is not own
        deltas.append(searcher.ndcg(mixed, example.relevant) - raw[-1])
    interval = bootstrap_ci(deltas, [example.conversation for example in examples], draws=DRAWS, seed=seed)
    counts = tally(deltas, TIE_WIDTH)
    return {
        "turns": len(examples), "raw": float(np.mean(raw)), "delta": float(np.mean(deltas)),
        "low": interval.low, "high": interval.high, "better": counts.better, "worse": counts.worse,
        "changed": changed / len(examples),
    }  # fmt: skip


def measure_need(
    examples: Sequence[Example], scores: Mapping[int, Scores], threshold: float
) -> dict[str, Any]:
    """Recall and specificity at a threshold, on turns with a history whose label is clear."""
    labelled = [example for example in examples if example.gate in ("resolve", "none")]
    need = np.array([scores[id(example)].need for example in labelled])
    leans = np.array([example.gate == "resolve" for example in labelled])
    recall = float(np.mean(need[leans] >= threshold))
    specificity = float(np.mean(need[~leans] < threshold)) if (~leans).any() else float("nan")
    return {
        "turns": len(labelled), "standalone": int((~leans).sum()), "recall": recall,
        "specificity": specificity, "balanced": (recall + specificity) / 2,
    }  # fmt: skip


def measure_choice(examples: Sequence[Example], scores: Mapping[int, Scores], most: int) -> float:
    """Share of turns that lean on the conversation where one of the best `most` words is in a labelled antecedent."""
    leaning = [example for example in examples if example.gate == "resolve"]
    hits = 0
    for example in leaning:
        best = np.argsort(-scores[id(example)].share)[:most]
        hits += any(example.features.sightings[place].key in example.antecedents for place in best)
    return hits / len(leaning)
