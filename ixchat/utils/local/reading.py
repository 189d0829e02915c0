"""One message of a conversation, read on its own: its words, and how each content word stands in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ixchat.utils.local.lexicon import Lexicon, lexicons
from ixrag.rarity import word_key
from ixrag.words import words

MAX_WORDS = 400  # of one message: its beginning
MAX_RUN_WORDS = 6
REMEMBERED = 1_000  # messages; a conversation's are read again on each of its turns
LAST_SENTENCE = 6  # counted from 0; later ones count as this one

_SENTENCE_START = re.compile(r"(?:^|[.!?:\n]|[-*•]\s)[\s\"'«“(*_]*$")


@dataclass(slots=True)
class Occurrence:
    """A content word of a message; where it stands several times, its first place is described.

    A run is an unbroken row of content words, such as a name.

    Attributes:
        folded: The word, folded.
        start: Offset of its first character.
        end: Offset behind its last character.
        position: Words before it.
        place: From 0 for the first word of the message to 1 for its last.
        sentence: Which sentence it stands in, from 0 to `LAST_SENTENCE`.
        after: The folded word before its run, `^` at the beginning.
        ends_run: Whether nothing of its run follows it.
        run_length: Words of its run.
        run_has_capital: Whether any word of its run is a capital inside a sentence.
        is_last: Whether no other content word follows in the message.
        count: How often it stands in the message.
        capitals: How often with a capital inside a sentence.
        beside: Keys of all runs it stands in.
    """

    folded: str
    start: int
    end: int
    position: int
    place: float
    sentence: int
    after: str
    ends_run: bool
    run_length: int
    run_has_capital: bool
    is_last: bool
    count: int
    capitals: int
    beside: set[str]


@dataclass(frozen=True, slots=True)
class Reading:
    """The first `MAX_WORDS` words of a message. Shared between turns: not to be changed.

    Attributes:
        folded: Its words.
        keys: Their keys (`ixrag.rarity.word_key`), in the same order.
        known: The keys.
        occurrences: Its content words, by key, in order of their first place.
    """

    folded: Sequence[str]
    keys: Sequence[str]
    known: frozenset[str]
    occurrences: Mapping[str, Occurrence]


@lru_cache(maxsize=REMEMBERED)
def read_message(text: str, language: str) -> Reading:
    """Read a message with the word lists of a language (ISO 639-1, one of `lexicons()`)."""
    lexicon = lexicons()[language]
    kept = words(text)[:MAX_WORDS]
    folded = [word.folded for word in kept]
    keys = [word_key(word) for word in folded]
    content = [is_content(word, lexicon) for word in folded]
    capitals = [
        is_content_word and text[word.start].isupper() and not _starts_sentence(text, word.start)
        for word, is_content_word in zip(kept, content, strict=True)
    ]
    last = max(1, len(kept) - 1)
    last_content = max((place for place, is_content_word in enumerate(content) if is_content_word), default=0)
    occurrences: dict[str, Occurrence] = {}
    for run in _runs(text, [(word.start, word.end) for word in kept], content):
        run_keys = {keys[place] for place in run}
        run_has_capital = any(capitals[place] for place in run)
        for place in run:
            seen = occurrences.get(keys[place])
            if seen is not None:
                seen.count += 1
                seen.capitals += capitals[place]
                seen.beside |= run_keys
                continue
            word = kept[place]
            occurrences[keys[place]] = Occurrence(
                word.folded, word.start, word.end,
                position=place,
                place=place / last,
                sentence=min(LAST_SENTENCE, text.count(". ", 0, word.start)),
                after=folded[run[0] - 1] if run[0] else "^",
                ends_run=place == run[-1],
                run_length=len(run),
                run_has_capital=run_has_capital,
                is_last=place == last_content,
                count=1,
                capitals=capitals[place],
                beside=set(run_keys),
            )  # fmt: skip
    return Reading(folded, keys, frozenset(keys), occurrences)


def is_content(folded_word: str, lexicon: Lexicon) -> bool:
    """Whether a word says what a text is about."""
    return len(folded_word) > 1 and folded_word not in lexicon.common


def _starts_sentence(text: str, start: int) -> bool:
    return _SENTENCE_START.search(text, max(0, start - 6), start) is not None


def _runs(text: str, spans: Sequence[tuple[int, int]], content: Sequence[bool]) -> list[range]:
    """The unbroken rows of content words, in order."""
    runs: list[range] = []
    for place, is_content_word in enumerate(content):
        if not is_content_word:
            continue
        run = runs[-1] if runs else range(0)
        joined = (
            len(run) in range(1, MAX_RUN_WORDS)
            and run.stop == place
            and text[spans[place - 1][1] : spans[place][0]] in (" ", "-")
        )
        if joined:
            runs[-1] = range(run.start, place + 1)
        else:
            runs.append(range(place, place + 1))
    return runs
