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

# Features of a word that its message alone decides, so that they are read once and not on every turn.
IN_QUESTION = (
    "place_in_question", "last_in_question", "after_article", "after_preposition", "after_auxiliary", "first",
)  # fmt: skip
IN_ANSWER = ("place_in_answer", "sentence_of_answer")
IN_RUN = ("ends_run", "run_length", "run_has_capital", "digit", "letters", "frame")
NOT_IN_QUESTION = (0.5, 0.0, 0.0, 0.0, 0.0, 0.0)
NOT_IN_ANSWER = (1.0, LAST_SENTENCE + 1.0)

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
        in_question: Values of `IN_QUESTION`, which count where the message is the visitor's.
        in_answer: Values of `IN_ANSWER`, which count where it is the assistant's.
        in_run: Values of `IN_RUN`.
        count: How often it stands in the message.
        capitals: How often with a capital inside a sentence.
        beside: Keys of all runs it stands in.
    """

    folded: str
    start: int
    end: int
    position: int
    in_question: tuple[float, ...]
    in_answer: tuple[float, ...]
    in_run: tuple[float, ...]
    count: int
    capitals: int
    beside: frozenset[str]


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
    grammar, frame = lexicon.grammar, lexicon.frame
    article, preposition, auxiliary = grammar["article"], grammar["preposition"], grammar["auxiliary"]
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
        run_keys = frozenset(keys[place] for place in run)
        run_has_capital = any(capitals[place] for place in run)
        after = folded[run[0] - 1] if run[0] else "^"
        behind = (after in article, after in preposition, after in auxiliary, after == "^")
        for place in run:
            seen = occurrences.get(keys[place])
            if seen is not None:
                seen.count += 1
                seen.capitals += capitals[place]
                seen.beside |= run_keys
                continue
            word = kept[place]
            spelt = word.folded
            occurrences[keys[place]] = Occurrence(
                spelt, word.start, word.end,
                position=place,
                in_question=(place / last, place == last_content, *behind),
                in_answer=(place / last, min(LAST_SENTENCE, text.count(". ", 0, word.start))),
                in_run=(
                    place == run[-1], min(len(run), 4), run_has_capital,
                    not spelt.isalpha() and any(map(str.isdigit, spelt)),
                    min(len(spelt), 12), spelt in frame,
                ),
                count=1,
                capitals=capitals[place],
                beside=run_keys,
            )  # fmt: skip
    return Reading(folded, keys, frozenset(keys), occurrences)


def is_content(folded_word: str, lexicon: Lexicon) -> bool:
    """Whether a word says what a text is about."""
    return len(folded_word) > 1 and folded_word not in lexicon.common


def _starts_sentence(text: str, start: int) -> bool:
    if start > 1 and text[start - 1] == " " and text[start - 2].isalnum():
        return False  # most words; the pattern is slow
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
