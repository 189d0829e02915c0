"""One ranking out of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.documents import Document

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
