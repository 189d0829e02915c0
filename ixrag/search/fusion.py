"""One ranking out of several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from langchain_core.documents import Document

from ixrag.words import folded

# Small enough that a passage only another ranking holds can enter a page of twenty: at weight 0.5 its
# first place equals the best ranking's twelfth. With the usual 60 it would come after the sixtieth.
PAGE_K = 10


@dataclass(frozen=True, slots=True)
class Ranking:
    """Documents best first, and their say in a fused ranking."""

    documents: Sequence[Document]
    weight: float = 1.0


def rrf(
    rankings: Sequence[Sequence[str]], *, weights: Sequence[float] = (), k: float = 60
) -> list[tuple[str, float]]:
    """Fuse rankings by weighted reciprocal rank: an id scores the sum of weight / (k + rank).

    Args:
        rankings: Ids, best first, one list per index; rank counts from 1. Lists may differ in length.
        weights: One for each ranking; empty means 1 for all.
        k: Damping, in ranks; larger flattens the head. 60 is the value of the paper.

    Returns:
        `(id, score)`, highest score first; equal scores keep first-seen order.

    Raises:
        ValueError: `k` is negative, or there is not one weight for each ranking.

    Source: Cormack, Clarke, Büttcher, SIGIR 2009, with a weight for each ranking.
    """
    if k < 0:
        raise ValueError(f"`k` must be >= 0, got {k}")
    scores: dict[str, float] = {}
    for ranking, weight in zip(rankings, weights or [1.0] * len(rankings), strict=True):
        for rank, key in enumerate(ranking, start=1):
            scores[key] = scores.get(key, 0.0) + weight / (k + rank)
    return sorted(scores.items(), key=lambda item: -item[1])


def fuse_documents(rankings: Sequence[Ranking], *, k: float = PAGE_K) -> list[Document]:
    """Fuse rankings of documents by `rrf`, each kind of document by itself.

    Kinds keep the order in which they are first seen, and each is cut at the longest single ranking of
    it, so that more rankings do not mean more context. `metadata["rank"]` becomes the fused rank.
    """
    documents = {_key(document): document for ranking in reversed(rankings) for document in ranking.documents}
    kinds = dict.fromkeys(_kind(document) for ranking in rankings for document in ranking.documents)
    fused: list[Document] = []
    for kind in kinds:
        keys = [[_key(d) for d in ranking.documents if _kind(d) == kind] for ranking in rankings]
        best = rrf(keys, weights=[ranking.weight for ranking in rankings], k=k)[: max(map(len, keys))]
        fused += [_ranked(documents[key], rank) for rank, (key, _) in enumerate(best, start=1)]
    return fused


def _key(document: Document) -> str:
    return document.id or document.page_content


def _kind(document: Document) -> str:
    return str(document.metadata.get("kind", "chunk"))


def _ranked(document: Document, rank: int) -> Document:
    return document.model_copy(update={"metadata": {**document.metadata, "rank": rank}})


def without_near_duplicates(documents: Sequence[Document], *, at_least: float = 0.9) -> list[Document]:
    """The documents less those that nearly repeat an earlier one, in order.

    Two texts are near when they share this part of their runs of three words (Jaccard); case, accents
    and punctuation do not count.

    Args:
        documents: Best first.
        at_least: Share from which two texts are the same, above 0; 1 keeps all but equal ones.
    """
    kept: list[Document] = []
    sets: list[frozenset[int]] = []
    holders: dict[int, list[int]] = {}  # by run, the places in `kept` of the texts it is a first run of
    for document in documents:
        own = _runs(document.page_content)
        # Near sets share one of their first runs in any common order: few pairs are left to compare.
        first = sorted(own)[: len(own) - math.ceil(at_least * len(own) - 1e-9) + 1]
        rivals = {place for run in first for place in holders.get(run, ())}
        if any(_overlap(own, sets[place]) >= at_least for place in rivals):
            continue
        for run in first:
            holders.setdefault(run, []).append(len(kept))
        kept.append(document)
        sets.append(own)
    return kept


def diversified(
    scored: Sequence[tuple[Document, float]], *, relevance: float = 0.8, limit: int | None = None
) -> list[Document]:
    """Documents by maximal marginal relevance: each is as relevant, and as unlike those before it, as can be.

    Each step takes the greatest `relevance * score - (1 - relevance) * likeness`, where scores are
    divided by the best one and likeness is the greatest share of words (Jaccard) with a document taken.

    Args:
        scored: Documents with scores above 0, best first.
        relevance: From 0 (unlike alone) to 1 (the order stays).
        limit: Most documents; None for all.

    Source: Carbonell and Goldstein, SIGIR 1998.
    """
    if not 0 <= relevance <= 1:
        raise ValueError(f"`relevance` must be between 0 and 1, got {relevance}")
    best = max((score for _, score in scored), default=1.0) or 1.0
    left = [(document, score / best, _words_of(document)) for document, score in scored]
    likeness = [0.0] * len(left)
    taken: list[Document] = []
    while left and (limit is None or len(taken) < limit):
        values = [
            relevance * score - (1 - relevance) * like
            for (_, score, _), like in zip(left, likeness, strict=True)
        ]
        document, _, own = left.pop(place := values.index(max(values)))
        likeness.pop(place)
        taken.append(document)
        likeness = [
            max(like, _overlap(own, other)) for like, (_, _, other) in zip(likeness, left, strict=True)
        ]
    return taken


def _words_of(document: Document) -> frozenset[str]:
    return frozenset(folded(document.page_content).split())


def _runs(text: str) -> frozenset[int]:
    """Hashes of a text's runs of three words; of all its words where it has no three."""
    found = folded(text).split()
    return frozenset(map(hash, zip(found, found[1:], found[2:], strict=False))) or frozenset(
        {hash(tuple(found))}
    )


def _overlap(one: AbstractSet[object], other: AbstractSet[object]) -> float:
    shared = len(one & other)
    together = len(one) + len(other) - shared
    return shared / together if together else 1.0
