"""Where a tenant's names occur in a text: one pass over the words, whatever the number of names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ixrag.words import Word, words

MAX_NAME_WORDS = 12  # longer labels are sentences; nobody types one


class Named(Protocol):
    """What the index reads of an entity."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def aliases(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class NameHit:
    """One occurrence of an entity's name or alias: `text[start:end]`, and word positions of the same."""

    name: str
    type: str
    start: int
    end: int
    first_word: int
    last_word: int


class NameIndex:
    """Entity names and aliases by their folded words.

    A look-up tries, at each word, only the lengths (in words) that some name with this first word
    has, longest first. Build time and memory grow with the number of names, match time with the
    text alone. Safe to share between threads once built.
    """

    __slots__ = ("_entities", "_lengths", "_names")

    def __init__(self, entities: Iterable[Named] = ()) -> None:
        self._entities: list[tuple[str, str]] = []
        self._names: dict[str, int] = {}
        self._lengths: dict[str, tuple[int, ...]] = {}
        for entity in entities:
            self._add(entity)

    def __len__(self) -> int:
        return len(self._entities)

    def find(self, text: str) -> list[NameHit]:
        """Names in `text`, left to right, longest match first, none overlapping."""
        return self.find_in(words(text))

    def find_in(self, text_words: Sequence[Word]) -> list[NameHit]:
        """`find` for a text that is split into words already."""
        hits: list[NameHit] = []
        folded = [word.folded for word in text_words]
        free_from = 0
        for position, first in enumerate(folded):
            if position < free_from or first not in self._lengths:
                continue
            for length in self._lengths[first]:
                entity = self._names.get(" ".join(folded[position : position + length]))
                if entity is not None:
                    free_from = min(position + length, len(folded))
                    span = text_words[position].start, text_words[free_from - 1].end
                    hits.append(NameHit(*self._entities[entity], *span, position, free_from - 1))
                    break
        return hits

    def _add(self, entity: Named) -> None:
        self._entities.append((entity.name, entity.type))
        for label in (entity.name, *entity.aliases):
            parts = [word.folded for word in words(label)]
            if not 0 < len(parts) <= MAX_NAME_WORDS or parts == [parts[0][:1]]:
                continue  # no letters, a sentence, or a single character
            self._names.setdefault(" ".join(parts), len(self._entities) - 1)
            lengths = self._lengths.get(parts[0], ())
            if len(parts) not in lengths:
                self._lengths[parts[0]] = tuple(sorted({*lengths, len(parts)}, reverse=True))
