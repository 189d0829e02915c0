"""What a scorer is worth on turns it has not seen: need, choice, and the search with its words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ixchat.utils.local.features import Floats
from ixchat.utils.local.scorer import Scorer, Scores
from ixchat.utils.local.weighing import WEIGHT_FEATURES, Weighable, weighable
from ixevaluation.lexical import LexicalIndex
from ixevaluation.local_training.data import Example
from ixevaluation.local_training.lexical_weights import Doubles, Ranking
from ixevaluation.ranking import ndcg_at
from ixevaluation.stats import bootstrap_ci, tally

CUT = 10
POOL = (40, 50)  # best for the message, best for message and words
GROUNDED_WORD, GROUNDED_FROM = 0.05, 0.3
DRAWS = 2_000
TIE_WIDTH = 1e-9

_GROUND_SHARE = WEIGHT_FEATURES.index("ground_share")


@dataclass(slots=True)
class Scored:
    """A turn with what a scorer makes of it, and the weight of each of `words.words`."""

    example: Example
    scores: Scores
    words: Weighable
    weights: Floats


Added = Callable[[Scored], Mapping[str, float]]
"""The words to add to a turn's search, with their weights; 1 is as good as typed."""


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


def scored(example: Example, scorer: Scorer) -> Scored:
    """A turn as a scorer sees it; its words weigh nothing yet."""
    scores = scorer.score(example.features)
    words = weighable(
        example.features, scores.need, scores.share, scores.term, example.ground, example.rarity
    )
    return Scored(example, scores, words, np.zeros(len(words.words), np.float32))


def ranking_of(item: Scored, searcher: Searcher) -> Ranking | None:
    """The ranking problem of a turn; None where there is nothing to add or to find."""
    example, words = item.example, item.words
    if not len(words.words) or not example.relevant:
        return None
    own = searcher.index.scores(example.query)
    added = np.stack([searcher.word(word) for word in words.words], axis=1)
    relevant = np.array([passage_id in example.relevant for passage_id in searcher.ids])
    # Passages to tell apart: the best for the message, and those that likely or well grounded words bring up.
    likely = np.zeros(len(words.words))
    likely[: len(item.scores.term)] = item.scores.term
    likely += GROUNDED_WORD * (words.rows[:, _GROUND_SHARE] > GROUNDED_FROM)
    mixed = own + added @ likely
    pool = np.unique(
        np.concatenate([np.argsort(-own)[: POOL[0]], np.argsort(-mixed)[: POOL[1]], np.flatnonzero(relevant)])
    )
    return Ranking(
        own[pool], added[pool] * item.scores.need, relevant[pool].astype(float), words.rows, example.source
    )


def measure_search(
    items: Sequence[Scored],
    added: Added,
    searchers: Mapping[str, Searcher],
    *,
    seed: int = 0,
) -> dict[str, Any]:
    """nDCG@10 with the weighted words beside the message, against the message alone, over all turns of a set."""
    raw, deltas, changed = list[float](), list[float](), 0
    for item in items:
        example = item.example
        searcher = searchers[example.domain]
        own = searcher.index.scores(example.query)
        raw.append(searcher.ndcg(own, example.relevant))
        mixed = own
        for word, weight in added(item).items():
            mixed = mixed + weight * searcher.word(word)
        changed += mixed is not own
        deltas.append(searcher.ndcg(mixed, example.relevant) - raw[-1])
    interval = bootstrap_ci(deltas, [item.example.conversation for item in items], draws=DRAWS, seed=seed)
    counts = tally(deltas, TIE_WIDTH)
    return {
        "turns": len(items), "raw": float(np.mean(raw)), "delta": float(np.mean(deltas)),
        "low": interval.low, "high": interval.high, "better": counts.better, "worse": counts.worse,
        "changed": changed / len(items),
    }  # fmt: skip


def measure_need(items: Sequence[Scored], threshold: float) -> dict[str, Any]:
    """Recall and specificity at a threshold, on turns with a history whose label is clear."""
    labelled = [item for item in items if item.example.gate in ("resolve", "none")]
    need = np.array([item.scores.need for item in labelled])
    leans = np.array([item.example.gate == "resolve" for item in labelled])
    recall = float(np.mean(need[leans] >= threshold))
    specificity = float(np.mean(need[~leans] < threshold)) if (~leans).any() else float("nan")
    return {
        "turns": len(labelled), "standalone": int((~leans).sum()), "recall": recall,
        "specificity": specificity, "balanced": (recall + specificity) / 2,
    }  # fmt: skip


def measure_choice(items: Sequence[Scored], most: int) -> float:
    """Share of turns that lean on the conversation where one of the best `most` words is in a labelled antecedent."""
    leaning = [item for item in items if item.example.gate == "resolve"]
    hits = 0
    for item in leaning:
        best = np.argsort(-item.scores.share)[:most]
        sightings = item.example.features.sightings
        hits += any(sightings[place].key in item.example.antecedents for place in best)
    return hits / len(leaning)
