"""The words of each language that heuristics rely on, read once from `languages.toml`."""

from __future__ import annotations

import tomllib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType

from ixrag.words import Word, folded, words

Phrase = tuple[str, ...]
"""The words of a phrase, in the form in which they are compared."""


@dataclass(frozen=True, slots=True)
class Language:
    """One table of `languages.toml`; see its head for what each list is for."""

    code: str
    common: frozenset[str]
    joins: frozenset[Phrase]
    breaks: frozenset[Phrase]
    openers: frozenset[Phrase]
    holds: frozenset[str]
    abbreviations: frozenset[str]
    courtesies: frozenset[str]
    chatter: tuple[str, ...]
    labels: frozenset[str]
    plurals: tuple[tuple[str, str], ...]


@lru_cache(maxsize=1)
def languages() -> Mapping[str, Language]:
    """Every language of the data file, by ISO 639 code."""
    text = files("ixrag.query").joinpath("languages.toml").read_text(encoding="utf-8")
    return MappingProxyType({code: _language(code, table) for code, table in tomllib.loads(text).items()})


def language_of(text_words: Sequence[str], default: str = "") -> Language | None:
    """The language most of whose common words are in the text; `default` on a tie or without any.

    Args:
        text_words: Words as `exact` writes them.
        default: ISO 639 code; an unknown one counts as none.
    """
    scores = {code: sum(word in known.common for word in text_words) for code, known in languages().items()}
    best = max(scores.values())
    leaders = [code for code, score in scores.items() if score == best and score > 0]
    return languages().get(leaders[0] if len(leaders) == 1 else default)


def exact(text: str, word: Word) -> str:
    """`word` as written in `text`, without case alone: "è" stays apart from "e"."""
    return unicodedata.normalize("NFC", text[word.start : word.end]).casefold()


@lru_cache(maxsize=1)
def all_courtesies() -> frozenset[str]:
    """Greetings and thanks of every language, folded."""
    return frozenset().union(*(language.courtesies for language in languages().values()))


@lru_cache(maxsize=1)
def all_abbreviations() -> frozenset[str]:
    """Abbreviations of every language, folded: a missed sentence end costs less than a wrong one."""
    return frozenset().union(*(language.abbreviations for language in languages().values()))


@lru_cache(maxsize=1)
def all_openers() -> frozenset[Phrase]:
    """Openers of every language, folded."""
    return frozenset().union(*(language.openers for language in languages().values()))


@lru_cache(maxsize=1)
def all_chatter() -> tuple[str, ...]:
    """Starts of lines that are a model's talk, folded."""
    return tuple(start for language in languages().values() for start in language.chatter)


@lru_cache(maxsize=1)
def all_labels() -> frozenset[str]:
    """What models write before an item, folded."""
    return frozenset().union(*(language.labels for language in languages().values()))


def _language(code: str, table: Mapping[str, Sequence[str]]) -> Language:
    return Language(
        code=code,
        common=frozenset(_exact_phrase(word)[0] for word in table["common"]),
        joins=frozenset(_exact_phrase(phrase) for phrase in table["joins"]),
        breaks=frozenset(_phrases(table["breaks"])),
        openers=frozenset(_phrases(table["openers"])),
        holds=frozenset(folded(word) for word in table["holds"]),
        abbreviations=frozenset(folded(word) for word in table["abbreviations"]),
        courtesies=frozenset(folded(phrase) for phrase in table["courtesies"]),
        chatter=tuple(folded(phrase) for phrase in table["chatter"]),
        labels=frozenset(folded(phrase) for phrase in table["labels"]),
        plurals=tuple((rule[0], rule[1]) for rule in table["plurals"]),
    )


def _phrases(texts: Iterable[str]) -> Iterable[Phrase]:
    return (tuple(word.folded for word in words(text)) for text in texts)


def _exact_phrase(text: str) -> Phrase:
    return tuple(exact(text, word) for word in words(text))
