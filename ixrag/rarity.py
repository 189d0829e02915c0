"""How rare a word is among a tenant's passages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

from ixrag.words import words

MIN_WORD_LETTERS = 3  # shorter words keep an ending that looks like a plural


@lru_cache(maxsize=65_536)
def word_key(folded_word: str) -> str:
    """A folded word without an English, French or Spanish plural ending; equal for both numbers of most nouns."""
    if len(folded_word) > MIN_WORD_LETTERS + 1 and folded_word.endswith("ies"):
        return f"{folded_word[:-3]}y"
    if (
        len(folded_word) > MIN_WORD_LETTERS
        and folded_word.endswith("s")
        and not folded_word.endswith(("ss", "us", "is"))
    ):
        return folded_word[:-1]
    return folded_word


class Rarity:
    """Inverse document frequency by word, scaled from 0 (in every passage) to about 1 (in none).

    About 100 bytes a distinct word. Safe to share between threads.
    """

    __slots__ = ("_counts", "_passages", "_scale")

    def __init__(self, counts: Mapping[str, int], passages: int) -> None:
        """Use counts taken elsewhere: passages that hold a word, by `word_key`."""
        self._counts = dict(counts)
        self._passages = max(passages, 1)
        self._scale = math.log(1 + (self._passages + 0.5) / 0.5)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Rarity:
        """Count the words of a tenant's passages."""
        counts: Counter[str] = Counter()
        passages = 0
        for text in texts:
            counts.update({word_key(word.folded) for word in words(text)})
            passages += 1
        return cls(counts, passages)

    def __call__(self, folded_word: str) -> float:
        """The rarity of a folded word, 0 to 1; 1 for a word no passage holds."""
        count = self._counts.get(word_key(folded_word), 0)
        return math.log(1 + (self._passages - count + 0.5) / (count + 0.5)) / self._scale
