"""Where a tenant's names occur in a text: one pass over the words, whatever the number of names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from ixrag.words import Word, folded_words, span_of, words

MAX_NAME_WORDS = 12  # longer labels are sentences; nobody types one


class Named(Protocol):
    """What the index reads of an entity."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def aliases(self) -> Sequence[str]: ...


class NameHit(NamedTuple):
    """One occurrence of an entity's name or alias: `text[start:end]`, and word positions of the same.

    `key` is the folded name of the entity, however the text calls it.
    """

    name: str
    key: str
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
        self._entities: list[tuple[str, str, str]] = []
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
        hay = folded_words(text_words)
        lengths = self._lengths
        free_from = 0
        for position in [place for place, word in enumerate(hay) if word in lengths]:
            if position < free_from:
                continue
            for length in lengths[hay[position]]:
                entity = self._names.get(" ".join(hay[position : position + length]))
                if entity is not None:
                    free_from = min(position + length, len(hay))
                    span = span_of(text_words, position, free_from - 1)
                    hits.append(NameHit(*self._entities[entity], *span, position, free_from - 1))
                    break
        return hits

    def _add(self, entity: Named) -> None:
        labels = [words(label).folded for label in (entity.name, *entity.aliases)]
        keys = [" ".join(parts) for parts in labels]
        self._entities.append((entity.name, keys[0], entity.type))
        for key, parts in zip(keys, labels, strict=True):
            if not 0 < len(parts) <= MAX_NAME_WORDS or parts == [parts[0][:1]]:
                continue  # no letters, a sentence, or a single character
            self._names.setdefault(key, len(self._entities) - 1)
            lengths = self._lengths.get(parts[0], ())
            if len(parts) not in lengths:
                self._lengths[parts[0]] = tuple(sorted({*lengths, len(parts)}, reverse=True))
