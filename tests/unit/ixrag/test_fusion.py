"""Fusing rankings, against sums worked by hand."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document

from ixrag.search.fusion import Ranking, fuse_documents, rrf


def test_scores_are_the_papers_sums() -> None:
    assert rrf([["a", "b"], ["b", "c"]], k=60) == [
        ("b", pytest.approx(1 / 62 + 1 / 61)),
        ("a", pytest.approx(1 / 61)),
        ("c", pytest.approx(1 / 62)),
    ]


def test_weights_count_and_ties_keep_first_seen_order() -> None:
    assert [key for key, _ in rrf([["a"], ["b"]], weights=[0.5, 1.0])] == ["b", "a"]
    assert [key for key, _ in rrf([["a"], ["b"]])] == ["a", "b"]


@pytest.mark.parametrize(
    ("rankings", "weights", "k"),
    [([["a"]], (), -1), ([["a"], ["b"]], (1.0,), 60)],
    ids=["negative damping", "a weight is missing"],
)
def test_what_cannot_be_fused_is_refused(
    rankings: list[list[str]], weights: tuple[float, ...], k: float
) -> None:
    with pytest.raises(ValueError, match=r"must be >= 0|zip"):
        rrf(rankings, weights=weights, k=k)


def passage(text: str, kind: str = "chunk") -> Document:
    return Document(text, metadata={"kind": kind, "rank": 0})


def test_kinds_are_fused_apart_and_cut_at_the_longest() -> None:
    own = Ranking([passage("a"), passage("b"), passage("E", "entity")], 0.5)
    resolved = Ranking([passage("b"), passage("c"), passage("F", "entity"), passage("G", "entity")])
    fused = fuse_documents([resolved, own])
    assert [(d.page_content, d.metadata["rank"]) for d in fused] == [
        ("b", 1),
        ("c", 2),
        ("F", 1),
        ("G", 2),
    ]


def test_nothing_found_is_nothing() -> None:
    assert fuse_documents([Ranking([]), Ranking([])]) == []
