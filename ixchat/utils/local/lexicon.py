"""What the words of a language do in a conversation, read once from `languages/*.toml`."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import chain
from types import MappingProxyType
from typing import Any, Literal

from ixrag.words import Word, folded, folded_words

Lean = Literal["impersonal", "thing", "party", "several", "inside", "opener", "company", "shift", "clitic"]
Reply = Literal["yes", "no", "thanks", "hello"]


@dataclass(frozen=True, slots=True)
class Lexicon:
    """One language file; `languages/README.md` says what each list is for.

    Attributes:
        code: ISO 639-1 code.
        common: Folded words without content.
        frame: Folded words of asking and offering.
        things: Folded nouns that can stand for something named before.
        ordinary: Folded ordinary words that products are named after.
        question: Folded question words.
        lean: One pattern for each kind of marker, to be searched in folded words.
        reply: One pattern for each kind of bare reply, to be matched against all words.
        offer: Pattern of an offer, to be searched in folded words.
        grammar: Folded words of each word class the learned scorer counts.
        kinds: Folded nouns that people call an entity of a type by, by type.
    """

    code: str
    common: frozenset[str]
    frame: frozenset[str]
    things: frozenset[str]
    ordinary: frozenset[str]
    question: frozenset[str]
    lean: Mapping[Lean, re.Pattern[str]]
    reply: Mapping[Reply, re.Pattern[str]]
    offer: re.Pattern[str]
    grammar: Mapping[str, frozenset[str]]
    kinds: Mapping[str, frozenset[str]]

    def has_content(self, word: str) -> bool:
        """Whether a folded word says what a text is about."""
        return word not in self.common and (len(word) > 1 or not word.isascii() or word.isdigit())


@lru_cache(maxsize=1)
def lexicons() -> Mapping[str, Lexicon]:
    """Every language file, by ISO 639-1 code."""
    folder = files("ixchat.utils.local").joinpath("languages")
    tables = (
        tomllib.loads(file.read_text(encoding="utf-8"))
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".toml")
    )
    return MappingProxyType({table["language"]: _lexicon(table) for table in tables})


def lexicon_of(*texts: Sequence[Word]) -> Lexicon | None:
    """The language most of whose common words occur in the texts, the first text counting double.

    None when no common word of any language occurs. On a tie the language of the first text wins,
    then the alphabet.
    """
    heard = chain(*map(folded_words, (*texts[:1], *texts)))
    votes = Counter(chain.from_iterable(filter(None, map(_languages_by_word().get, heard))))
    best = max(lexicons(), key=lambda code: votes[code])
    return lexicons()[best] if votes[best] else None


@lru_cache(maxsize=1)
def _languages_by_word() -> Mapping[str, tuple[str, ...]]:
    by_word: dict[str, tuple[str, ...]] = {}
    for code, lexicon in lexicons().items():
        for word in lexicon.common:
            by_word[word] = (*by_word.get(word, ()), code)
    return by_word


def _lexicon(table: Mapping[str, Any]) -> Lexicon:
    lists = _word_lists(table["words"])
    return Lexicon(
        code=table["language"],
        common=lists["common"],
        frame=lists["frame"],
        things=lists["things"],
        ordinary=lists["ordinary"],
        question=lists["question"],
        lean=MappingProxyType({kind: compile_phrases(table["lean"][kind], lists) for kind in table["lean"]}),
        reply=MappingProxyType(
            {kind: compile_phrases(table["reply"][kind], lists) for kind in table["reply"]}
        ),
        offer=compile_phrases(table["offer"]["phrases"], lists),
        grammar=_word_lists(table["grammar"]),
        kinds=_word_lists(table["kinds"]),
    )


def _word_lists(table: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
    return MappingProxyType({name: frozenset(folded(text).split()) for name, text in table.items()})


def compile_phrases(phrases: Iterable[str], lists: Mapping[str, frozenset[str]]) -> re.Pattern[str]:
    """One pattern for a list of phrases, to be searched in folded words joined by single spaces.

    Raises:
        KeyError: A phrase names a word list that is not there.
    """
    longest_first = sorted(phrases, key=lambda phrase: len(phrase.split()), reverse=True)
    alternatives = "|".join(_phrase(phrase, lists) for phrase in longest_first)
    return re.compile(rf"(?<!\S)(?:{alternatives})(?!\S)")


def _phrase(phrase: str, lists: Mapping[str, frozenset[str]]) -> str:
    slots = phrase.split()
    start = r"\A" if slots[0] == "^" else ""
    end = r"\Z" if slots[-1] == "$" else ""
    inner = slots[bool(start) : len(slots) - bool(end)]
    return start + " ".join(_slot(slot, lists) for slot in inner) + end


def _slot(slot: str, lists: Mapping[str, frozenset[str]]) -> str:
    choices: list[str] = []
    for choice in slot.split("|"):
        if choice.startswith("{"):
            choices += sorted(lists[choice.strip("{}")])
        elif choice == "*":
            choices.append(r"\w+")
        else:
            choices.append(r"\w*".join(folded(part) for part in choice.split("*")))
    return f"(?:{'|'.join(choices)})"
