"""Scores of searches by arm and class, as tables, and paired differences with intervals."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from langchain_core.documents import Document

from ixevaluation.ranking import ndcg_at, recall_at
from ixevaluation.stats import bootstrap_ci


@dataclass(frozen=True, slots=True)
class Score:
    """What one search found: recall@8 and nDCG@10, the classes it counts in, and its conversation."""

    kinds: tuple[str, ...]
    cluster: str
    recall: float
    ndcg: float


Scores = Mapping[str, Sequence[Score]]
"""By arm; the same searches in the same order in each."""


def scored(
    documents: Sequence[Document], relevant: Collection[str], kinds: tuple[str, ...], cluster: str
) -> Score:
    """The score of one search."""
    ids = [str(document.id) for document in documents]
    return Score(kinds, cluster, recall_at(ids, relevant, 8), ndcg_at(ids, relevant, 10))


def print_table(title: str, scores: Scores) -> None:
    """A line an arm, a column a class; the first column holds every search."""
    first = next(iter(scores.values()))
    kinds = sorted({kind for score in first for kind in score.kinds})
    width = max(map(len, scores))
    print(f"\n{title}, recall@8 / nDCG@10\n{'':{width}}" + "".join(f"{kind:>15}" for kind in ["all", *kinds]))
    for arm, found in scores.items():
        cells = [found, *([score for score in found if kind in score.kinds] for kind in kinds)]
        print(f"{arm:{width}}" + "".join(f"{_recall(cell):>8.3f} /{_ndcg(cell):.3f}" for cell in cells))
    counts = [len(first), *(sum(kind in score.kinds for score in first) for kind in kinds)]
    print(f"{'searches':{width}}" + "".join(f"{count:>15}" for count in counts))


def print_difference(scores: Scores, treated: str, control: str) -> None:
    """nDCG@10 of one arm less that of another, overall with its interval and by class."""
    pairs = list(zip(scores[treated], scores[control], strict=True))
    deltas = [one.ndcg - other.ndcg for one, other in pairs]
    interval = bootstrap_ci(deltas, clusters=[score.cluster for score, _ in pairs])
    kinds = sorted({kind for score, _ in pairs for kind in score.kinds})
    by_kind = (
        f"{kind} {np.mean([d for d, (score, _) in zip(deltas, pairs, strict=True) if kind in score.kinds]):+.3f}"
        for kind in kinds
    )
    print(
        f"nDCG@10, {treated} against {control}: {np.mean(deltas):+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"
        f"; {', '.join(by_kind)}"
    )


def _recall(scores: Sequence[Score]) -> float:
    return float(np.mean([score.recall for score in scores]))


def _ndcg(scores: Sequence[Score]) -> float:
    return float(np.mean([score.ndcg for score in scores]))
