"""What the learned scorer sees of a turn: numbers about the message, and about each word it may lack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ixchat.utils.candidates import Mention, Spoken
from ixchat.utils.local.lexicon import Lexicon
from ixchat.utils.local.reading import (
    IN_ANSWER,
    IN_QUESTION,
    IN_RUN,
    NOT_IN_ANSWER,
    NOT_IN_QUESTION,
    Occurrence,
    Reading,
    is_content,
    read_message,
)
from ixchat.utils.resolution import Role
from ixrag.rarity import word_key
from ixrag.words import Word

Floats = NDArray[np.float32]
RarityOf = Callable[[str], float]
"""A folded word's rarity in the tenant's passages, 0 to 1."""

MAX_CANDIDATES = 80  # rarest first; a long answer holds no more words worth asking back for
POINTING = ("it", "they", "person", "this", "these", "one", "place")
FAR = 7.0  # turns back, for a side that never says the word


@dataclass(frozen=True, slots=True)
class Sighting:
    """A word of the last turns that the message does not hold.

    Attributes:
        key: `ixrag.rarity.word_key` of it.
        message: Position in `Turn.messages` of the latest message that holds it.
        latest: How it stands there.
        asked: How it stands in the visitor's messages, by age in turns, newest first.
        answered: Likewise in the assistant's.
    """

    key: str
    message: int
    role: Role
    latest: Occurrence
    asked: Mapping[int, Occurrence]
    answered: Mapping[int, Occurrence]

    @property
    def folded(self) -> str:
        """The word."""
        return self.latest.folded

    @property
    def mention(self) -> Mention:
        """Where it stands in the conversation, last."""
        return Mention(self.message, self.role, self.latest.start, self.latest.end)


@dataclass(frozen=True, slots=True)
class TurnFeatures:
    """A turn in numbers.

    Attributes:
        sightings: The candidates, in the order of the rows of `words`.
        message: float32 `[len(MESSAGE_FEATURES)]`.
        words: float32 `[len(sightings), len(WORD_FEATURES)]`.
        message_keys: Keys of the message's words.
    """

    sightings: Sequence[Sighting]
    message: Floats
    words: Floats
    message_keys: frozenset[str]


MESSAGE_FEATURES = (
    "length", "content_words", "rarest", "rarity_sum", *POINTING, "this_noun", "the_known", "the_new", "opener",
    "impersonal", "several", "more", "order", "question_word", "yes_no", "company", "question_mark", "capitals",
    "new_capitals", "overlap", "overlap_question", "overlap_answer", "new_rarity", "rarest_new", "rarest_known",
    "turns", "question_length", "question_leans", "has_answer", "candidates", "answer_length",
)  # fmt: skip

WORD_FEATURES = (
    "rarity", "rarer_than_message", "in_question", "in_question_before", "user_turns", "user_share", "in_answer",
    "in_answer_before", "answers", "in_both", "count", "user_age", "answer_age", "capitals", "capital_share",
    "place_in_question", "last_in_question", "after_article", "after_preposition", "after_auxiliary", "first",
    "place_in_answer", "sentence_of_answer", "ends_run", "run_length", "run_has_capital", "beside_message_word",
    "digit", "rank", "rank_in_question", "letters", "frame", "in_first_question", "focus", "words_in_question",
    "person_capital", "it_in_question", "they_plural", "it_plural",
)  # fmt: skip

_COUNTED = (
    "rarity", "in_question", "in_question_before", "user_turns", "user_age", "in_answer", "in_answer_before",
    "answers", "answer_age", "count", "capitals", "rank_in_question", "beside_message_word", "in_first_question",
    "focus", "plural", *IN_QUESTION, *IN_ANSWER, *IN_RUN,
)  # fmt: skip


def describe(
    message: Sequence[Word], text: str, spoken: Sequence[Spoken], lexicon: Lexicon, rarity: RarityOf
) -> TurnFeatures:
    """Put a turn into numbers. Linear in the length of the conversation given; no I/O.

    Args:
        message: Words of the visitor's message.
        text: The message.
        spoken: The conversation to look at, oldest first, as `candidates.recent` gives it.
        lexicon: Word lists of the conversation's language.
        rarity: Of the tenant's passages.
    """
    view = _View(message, text, spoken, lexicon, rarity)
    sightings = _sightings(view)
    described = _message(view, len(sightings))
    rows = _rows(view, sightings, described)
    numbers = np.array([described[name] for name in MESSAGE_FEATURES], np.float32)
    return TurnFeatures(sightings, numbers, rows, view.keys)


@dataclass(frozen=True, slots=True)
class _Said:
    spoken: Spoken
    read: Reading
    age: int

    @property
    def is_user(self) -> bool:
        return self.spoken.role == "user"


class _View:
    """The turn from the newest message back, with how many turns ago each message is."""

    def __init__(
        self, message: Sequence[Word], text: str, spoken: Sequence[Spoken], lexicon: Lexicon, rarity: RarityOf
    ) -> None:
        self.message, self.text, self.lexicon = message, text, lexicon
        self.folded = [word.folded for word in message]
        self.keys = frozenset(word_key(word) for word in self.folded)
        self.content = [word for word in self.folded if is_content(word, lexicon)]
        self.content_keys = [word_key(word) for word in self.content]
        self.said: list[_Said] = []
        age = 0
        for item in reversed(spoken):
            self.said.append(_Said(item, read_message(item.text, lexicon.code), age))
            age += item.role == "user"
        self.questions = [item for item in self.said if item.is_user]
        self.known = frozenset[str]().union(*(item.read.known for item in self.said))
        self._rarity, self._seen = rarity, dict[str, float]()

    def rarity(self, word: str) -> float:
        if word not in self._seen:
            self._seen[word] = self._rarity(word)
        return self._seen[word]

    def leans(self, folded: Sequence[str]) -> bool:
        """Whether a message by its looks carries the previous subject on."""
        grammar = self.lexicon.grammar
        pointing = any(word in grammar[name] for name in POINTING for word in folded)
        return pointing or len(folded) <= 4 or bool(self.lexicon.lean["opener"].search(" ".join(folded)))


def _sightings(view: _View) -> list[Sighting]:
    said: dict[str, str] = {}
    for item in view.said:
        for key, seen in item.read.occurrences.items():
            said.setdefault(key, seen.folded)
    missing = [key for key in said if key not in view.keys]
    missing.sort(key=lambda key: -view.rarity(said[key]))
    return [_sighting(view, key) for key in missing[:MAX_CANDIDATES]]


def _sighting(view: _View, key: str) -> Sighting:
    latest: tuple[_Said, Occurrence] | None = None
    asked: dict[int, Occurrence] = {}
    answered: dict[int, Occurrence] = {}
    for item in view.said:
        if seen := item.read.occurrences.get(key):
            latest = latest or (item, seen)
            (asked if item.is_user else answered).setdefault(item.age, seen)
    assert latest is not None
    item, seen = latest
    return Sighting(key, item.spoken.index, item.spoken.role, seen, asked, answered)


def _message(view: _View, candidates: int) -> dict[str, float]:
    grammar, lexicon = view.lexicon.grammar, view.lexicon
    text, pairs = " ".join(view.folded), list(zip(view.folded, view.folded[1:], strict=False))
    rarities = sorted((view.rarity(word) for word in view.content), reverse=True)
    content = list(zip(view.content, view.content_keys, strict=True))
    new = [view.rarity(word) for word, key in content if key not in view.known]
    known = [view.rarity(word) for word, key in content if key in view.known]
    question = view.questions[0] if view.questions else None
    answer = next((item for item in view.said if not item.is_user and item.age == 0), None)
    capitals = [word for word in view.message[1:] if view.text[word.start].isupper()]
    nouns = [(first, word_key(second)) for first, second in pairs if is_content(second, lexicon)]
    described = {
        "length": min(len(view.folded), 20),
        "content_words": min(len(view.content), 10),
        "rarest": rarities[0] if rarities else 0.0,
        "rarity_sum": sum(rarities[:4]),
        "this_noun": any(first in grammar["this"] or first in grammar["these"] for first, _ in nouns),
        "the_known": any(first in grammar["article"] and noun in view.known for first, noun in nouns),
        "the_new": any(first in grammar["article"] and noun not in view.known for first, noun in nouns),
        "opener": bool(lexicon.lean["opener"].search(text)),
        "impersonal": bool(lexicon.lean["impersonal"].search(text)),
        "several": bool(lexicon.lean["several"].search(text)),
        "more": sum(word in grammar["more"] for word in view.folded),
        "order": sum(word in grammar["order"] for word in view.folded),
        "question_word": any(word in lexicon.question for word in view.folded[:3]),
        "yes_no": bool(view.folded) and view.folded[0] in grammar["auxiliary"],
        "company": bool(lexicon.lean["company"].search(text)),
        "question_mark": view.text.rstrip().endswith("?"),
        "capitals": min(len(capitals), 4),
        "new_capitals": min(sum(word_key(word.folded) not in view.known for word in capitals), 4),
        "overlap": len(known) / max(1, len(view.content)),
        "overlap_question": _share(view, question),
        "overlap_answer": _share(view, answer),
        "new_rarity": sum(new),
        "rarest_new": max(new, default=0.0),
        "rarest_known": max(known, default=0.0),
        "turns": min(len(view.questions), 8),
        "question_length": min(len(question.read.folded), 20) if question else 0,
        "question_leans": question is not None and view.leans(question.read.folded),
        "has_answer": answer is not None,
        "candidates": float(np.log1p(candidates)),
        "answer_length": float(np.log1p(len(answer.read.folded))) if answer else 0.0,
    }
    for name in POINTING:
        described[name] = sum(word in grammar[name] for word in view.folded)
    return {name: float(value) for name, value in described.items()}


def _share(view: _View, item: _Said | None) -> float:
    """Share of the message's content words that another message holds."""
    if item is None or not view.content:
        return 0.0
    return sum(key in item.read.known for key in view.content_keys) / len(view.content)


def _focus(view: _View) -> dict[str, float]:
    """How much each word is still the subject: a question that leans on the last one keeps its subject alive."""
    focus: dict[str, float] = {}
    for item in reversed(view.questions):
        kept = 0.9 if view.leans(item.read.folded) else 0.45
        focus = {key: value * kept for key, value in focus.items()}
        focus.update(dict.fromkeys(item.read.occurrences, 1.0))
    return focus


def _rows(view: _View, sightings: Sequence[Sighting], message: dict[str, float]) -> Floats:
    focus = _focus(view)
    first_question = view.questions[-1].read.known if view.questions else frozenset[str]()
    content_keys = set(view.content_keys)
    asked = 0
    counted: list[tuple[float, ...]] = []
    for seen in sightings:
        count = capitals = 0
        beside = False
        for side in (seen.asked, seen.answered):
            for place in side.values():
                count += place.count
                capitals += place.capitals
                beside = beside or not content_keys.isdisjoint(place.beside)
        question, answer = next(iter(seen.asked.values()), None), next(iter(seen.answered.values()), None)
        counted.append((
            view.rarity(seen.folded), 0 in seen.asked, 1 in seen.asked, len(seen.asked), min(seen.asked, default=FAR),
            0 in seen.answered, 1 in seen.answered, len(seen.answered), min(seen.answered, default=FAR),
            count, capitals, asked, beside, seen.key in first_question, focus.get(seen.key, 0.0),
            seen.folded != seen.key,
            *(question.in_question if question else NOT_IN_QUESTION),
            *(answer.in_answer if answer else NOT_IN_ANSWER),
            *seen.latest.in_run,
        ))  # fmt: skip
        asked += 0 in seen.asked
    if not counted:
        return np.zeros((0, len(WORD_FEATURES)), np.float32)
    read = dict(zip(_COUNTED, np.array(counted).T, strict=True))
    rarity, capitals, in_question = read["rarity"], read["capitals"], read["in_question"]
    columns = {
        **read,
        "rarer_than_message": rarity - message["rarest"],
        "user_share": read["user_turns"] / max(1, len(view.questions)),
        "in_both": in_question * read["in_answer"],
        "count": np.minimum(read["count"], 8),
        "capitals": np.minimum(capitals, 3),
        "capital_share": capitals / read["count"],
        "rank": np.minimum(np.arange(len(counted)), 20),
        "rank_in_question": np.where(in_question, np.minimum(read["rank_in_question"], 8), 8),
        "words_in_question": np.full(len(counted), min(asked, 8)),
        "person_capital": message["person"] * (capitals > 0),
        "it_in_question": message["it"] * in_question,
        "they_plural": message["they"] * read["plural"],
        "it_plural": message["it"] * read["plural"],
    }
    return np.array([columns[name] for name in WORD_FEATURES], np.float32).T
