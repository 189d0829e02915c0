"""Ranking measures with binary labels, per item. Means, intervals and tests are in `stats`."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Collection, Sequence


def recall_at(ranking: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Share of the relevant ids found in the first `k`, 0 to 1.

    Args:
        ranking: Distinct passage ids, best first.
        relevant: Relevant ids, at least one; all of them count, so recall at 1 can be below 1.
        k: Cut, from 1.
    """
    wanted = _checked(relevant, k)
    return len(wanted.intersection(ranking[:k])) / len(wanted)


def hit_at(ranking: Sequence[str], relevant: Collection[str], k: int) -> bool:
    """Whether any relevant id is in the first `k`."""
    return bool(_checked(relevant, k).intersection(ranking[:k]))


def ndcg_at(ranking: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Discounted gain of the first `k` over the best possible one, 0 to 1.

    Source: Järvelin and Kekäläinen, TOIS 2002, binary gain, discount `log2(rank + 1)`, ideal cut at k.
    """
    wanted = _checked(relevant, k)
    gain = math.fsum(
        1 / math.log2(rank + 1) for rank, doc in enumerate(ranking[:k], start=1) if doc in wanted
    )
    ideal = math.fsum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(wanted)) + 1))
    return gain / ideal


def reciprocal_rank(ranking: Sequence[str], relevant: Collection[str], k: int | None = None) -> float:
    """1 / rank of the first relevant id within `k` (None: the whole list), 0 when there is none."""
    wanted = _checked(relevant, 1 if k is None else k)
    for rank, doc in enumerate(ranking[:k], start=1):
        if doc in wanted:
            return 1 / rank
    return 0.0


def contains_answer(texts: Sequence[str], answer: str) -> bool:
    """Whether one text holds `answer` as whole words; case, accents and punctuation do not count."""
    wanted = _words(answer)
    return bool(wanted) and any(f" {wanted} " in f" {_words(text)} " for text in texts)


def distinct(ids: Sequence[str]) -> list[str]:
    """The ids in order, each once: a passage cut into two chunks is found once."""
    return list(dict.fromkeys(ids))


def _words(text: str) -> str:
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    return " ".join("".join(c if c.isalnum() else " " for c in plain).split())


def _checked(relevant: Collection[str], k: int) -> set[str]:
    if k < 1:
        raise ValueError(f"`k` must be >= 1, got {k}")
    if not relevant:
        raise ValueError("an item without relevant passages has no ranking measure")
    return set(relevant)
