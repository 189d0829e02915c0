"""What a tenant's passages say about each name: the words that stand beside it, by language."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice

from ixrag.names import NameIndex
from ixrag.query.languages import exact, language_of
from ixrag.rarity import Rarity, word_key
from ixrag.words import words

MAX_PASSAGES = 5_000  # read; about 0.4 ms each
MAX_NAME_PASSAGES = 20  # of one name and language; the company's own would be the whole site


class NameProfiles:
    """The words of the passages that hold a name, and how rare each word is.

    About 60 bytes for each word of each name, in each language it is written about. Safe to share between threads.
    """

    __slots__ = ("_rarity", "_words")

    def __init__(self, words_by_name: Mapping[tuple[str, str], frozenset[str]], rarity: Rarity) -> None:
        """Use words gathered elsewhere: `ixrag.rarity.word_key` of them, by name and language."""
        self._words, self._rarity = words_by_name, rarity

    @classmethod
    def of(cls, passages: Iterable[str], names: NameIndex) -> NameProfiles:
        """Read at most `MAX_PASSAGES` passages."""
        texts = list(islice(passages, MAX_PASSAGES))
        gathered: dict[tuple[str, str], list[frozenset[str]]] = {}
        for text in texts:
            split = words(text)
            language = language_of([exact(text, word) for word in split])
            keys = frozenset(map(word_key, split.folded))
            for name in {hit.name for hit in names.find_in(split)}:
                rows = gathered.setdefault((name, language.code if language else ""), [])
                if len(rows) < MAX_NAME_PASSAGES:
                    rows.append(keys)
        by_name = {key: frozenset[str]().union(*rows) for key, rows in gathered.items()}
        return cls(by_name, Rarity.of(texts))

    def coverage(self, folded_words: Collection[str], name: str, language: str) -> float | None:
        """Share of some words, by rarity, that stand in passages which hold the name: 0 to 1.

        Args:
            folded_words: What a message says.
            name: An entity's, as the index spells it.
            language: ISO 639-1 code of the message. None is returned where no passage in it holds the name:
                words of one language say nothing about those of another.
        """
        known = self._words.get((name, language))
        if known is None:
            return None
        total = sum(map(self._rarity, folded_words))
        found = sum(self._rarity(word) for word in folded_words if word_key(word) in known)
        return found / total if total else 0.0
