"""What the learned scorer sees of a turn: numbers about the message, and about each word it may lack."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ixchat.utils.candidates import Mention, Spoken
from ixchat.utils.local.lexicon import Lexicon
from ixrag.rarity import word_key
from ixrag.words import Word

Floats = NDArray[np.float32]
RarityOf = Callable[[str], float]
"""A folded word's rarity in the tenant's passages, 0 to 1."""

MAX_CANDIDATES = 80  # rarest first; a long answer holds no more words worth asking back for
MAX_WORDS = 400  # of one message: its beginning
MAX_RUN_WORDS = 6
POINTING = ("it", "they", "person", "this", "these", "one", "place")
FAR = 7.0  # turns back, for a side that never says the word

_SENTENCE_START = re.compile(r"(?:^|[.!?:\n]|[-*•]\s)[\s\"'«“(*_]*$")


@dataclass(slots=True)
class Sighting:
    """A word of the last turns that the message does not hold, with what was seen of it."""

    folded: str
    key: str
    mention: Mention
    user_turns: set[int] = field(default_factory=set)
    assistant_turns: set[int] = field(default_factory=set)
    count: int = 0
    capitals: int = 0
    run_length: int = 1
    run_has_capital: bool = False
    ends_run: bool = False
    beside_message_word: bool = False
    place_in_question: float = 0.5
    last_in_question: bool = False
    after: str = ""
    place_in_answer: float = 1.0
    sentence_of_answer: int = 7


@dataclass(frozen=True, slots=True)
class TurnFeatures:
    """A turn in numbers.

    Attributes:
        sightings: The candidates, in the order of the rows of `words`.
        message: float32 `[len(MESSAGE_FEATURES)]`.
        words: float32 `[len(sightings), len(WORD_FEATURES)]`.
    """

    sightings: Sequence[Sighting]
    message: Floats
    words: Floats


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
    return TurnFeatures(sightings, np.array([described[name] for name in MESSAGE_FEATURES], np.float32), rows)


@dataclass(frozen=True, slots=True)
class _Said:
    spoken: Spoken
    words: Sequence[Word]
    keys: Sequence[str]
    content: Sequence[bool]
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
        self.keys = {word_key(word) for word in self.folded}
        self.content = [word for word in self.folded if self.is_content(word)]
        self.said: list[_Said] = []
        age = 0
        for item in reversed(spoken):
            kept = item.words[:MAX_WORDS]
            keys = [word_key(word.folded) for word in kept]
            self.said.append(_Said(item, kept, keys, [self.is_content(word.folded) for word in kept], age))
            age += item.role == "user"
        self.questions = [item for item in self.said if item.is_user]
        self.known = {key for item in self.said for key in item.keys}
        self._rarity, self._seen = rarity, dict[str, float]()

    def is_content(self, word: str) -> bool:
        return len(word) > 1 and word not in self.lexicon.common

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
    found: dict[str, Sighting] = {}
    content_keys = {word_key(word) for word in view.content}
    for item in view.said:
        runs = _runs(item)
        for position, content in enumerate(item.content):
            key = item.keys[position]
            if not content or key in view.keys:
                continue
            sighting = found.get(key)
            if sighting is None:
                word = item.words[position]
                mention = Mention(item.spoken.index, item.spoken.role, word.start, word.end)
                sighting = found[key] = Sighting(word.folded, key, mention)
            run = runs[position]
            _note(sighting, item, position, run)
            if content_keys and not sighting.beside_message_word:
                sighting.beside_message_word = any(item.keys[other] in content_keys for other in run)
    rarest = sorted(found.values(), key=lambda sighting: -view.rarity(sighting.folded))
    return rarest[:MAX_CANDIDATES]


def _runs(item: _Said) -> list[range]:
    """For each word, the unbroken run of content words it stands in."""
    runs: list[range] = []
    start = 0
    text = item.spoken.text
    for position, content in enumerate(item.content):
        joined = (
            position > start
            and item.content[position - 1]
            and position - start < MAX_RUN_WORDS
            and text[item.words[position - 1].end : item.words[position].start] in (" ", "-")
        )
        if not (content and joined):
            runs.extend(range(start, position) for _ in range(position - start))
            start = position
    runs.extend(range(start, len(item.content)) for _ in range(len(item.content) - start))
    return runs


def _note(sighting: Sighting, item: _Said, position: int, run: range) -> None:
    """Add one occurrence; messages come newest first, so the first of each side is the latest."""
    text, last = item.spoken.text, max(1, len(item.words) - 1)
    sighting.count += 1
    sighting.capitals += _is_capital(item, position)
    if sighting.count == 1:
        sighting.run_length, sighting.ends_run = len(run), position == run[-1]
        sighting.run_has_capital = any(_is_capital(item, other) for other in run)
    if item.is_user:
        if not sighting.user_turns:
            sighting.place_in_question = position / last
            sighting.last_in_question = not any(item.content[position + 1 :])
            sighting.after = item.words[run[0] - 1].folded if run[0] else "^"
        sighting.user_turns.add(item.age)
        return
    if not sighting.assistant_turns:
        sighting.place_in_answer = position / last
        sighting.sentence_of_answer = min(6, text.count(". ", 0, item.words[position].start))
    sighting.assistant_turns.add(item.age)


def _is_capital(item: _Said, position: int) -> bool:
    text, start = item.spoken.text, item.words[position].start
    return text[start].isupper() and not _SENTENCE_START.search(text, max(0, start - 6), start)


def _message(view: _View, candidates: int) -> dict[str, float]:
    grammar, lexicon = view.lexicon.grammar, view.lexicon
    text, pairs = " ".join(view.folded), list(zip(view.folded, view.folded[1:], strict=False))
    rarities = sorted((view.rarity(word) for word in view.content), reverse=True)
    new = [view.rarity(word) for word in view.content if word_key(word) not in view.known]
    known = [view.rarity(word) for word in view.content if word_key(word) in view.known]
    question = view.questions[0] if view.questions else None
    answer = next((item for item in view.said if not item.is_user and item.age == 0), None)
    capitals = [word for word in view.message[1:] if view.text[word.start].isupper()]
    nouns = [(first, word_key(second)) for first, second in pairs if view.is_content(second)]
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
        "question_length": min(len(question.words), 20) if question else 0,
        "question_leans": question is not None and view.leans([word.folded for word in question.words]),
        "has_answer": answer is not None,
        "candidates": float(np.log1p(candidates)),
        "answer_length": float(np.log1p(len(answer.words))) if answer else 0.0,
    }
    for name in POINTING:
        described[name] = sum(word in grammar[name] for word in view.folded)
    return {name: float(value) for name, value in described.items()}


def _share(view: _View, item: _Said | None) -> float:
    """Share of the message's content words that another message holds."""
    if item is None or not view.content:
        return 0.0
    keys = set(item.keys)
    return sum(word_key(word) in keys for word in view.content) / len(view.content)


def _focus(view: _View) -> dict[str, float]:
    """How much each word is still the subject: a question that leans on the last one keeps its subject alive."""
    focus: dict[str, float] = {}
    for item in reversed(view.questions):
        kept = 0.9 if view.leans([word.folded for word in item.words]) else 0.45
        focus = {key: value * kept for key, value in focus.items()}
        focus.update((key, 1.0) for key, content in zip(item.keys, item.content, strict=True) if content)
    return focus


def _rows(view: _View, sightings: Sequence[Sighting], message: dict[str, float]) -> Floats:
    focus, grammar = _focus(view), view.lexicon.grammar
    first_question = set(view.questions[-1].keys) if view.questions else set[str]()
    asked = [sighting.key for sighting in sightings if 0 in sighting.user_turns]
    asked_rank = {key: rank for rank, key in enumerate(asked)}
    rows = np.zeros((len(sightings), len(WORD_FEATURES)), np.float32)
    for rank, seen in enumerate(sightings):
        rarity = view.rarity(seen.folded)
        in_question, in_answer = 0 in seen.user_turns, 0 in seen.assistant_turns
        plural = seen.folded != seen.key
        rows[rank] = (
            rarity, rarity - message["rarest"], in_question, 1 in seen.user_turns, len(seen.user_turns),
            len(seen.user_turns) / max(1, len(view.questions)), in_answer, 1 in seen.assistant_turns,
            len(seen.assistant_turns), in_question and in_answer, min(seen.count, 8), min(seen.user_turns, default=FAR),
            min(seen.assistant_turns, default=FAR), min(seen.capitals, 3), seen.capitals / seen.count,
            seen.place_in_question, seen.last_in_question, seen.after in grammar["article"],
            seen.after in grammar["preposition"], seen.after in grammar["auxiliary"], seen.after == "^",
            seen.place_in_answer, seen.sentence_of_answer, seen.ends_run, min(seen.run_length, 4), seen.run_has_capital,
            seen.beside_message_word, any(char.isdigit() for char in seen.folded), min(rank, 20),
            min(asked_rank.get(seen.key, 8), 8), min(len(seen.folded), 12), seen.folded in view.lexicon.frame,
            seen.key in first_question, focus.get(seen.key, 0.0), min(len(asked), 8),
            message["person"] * (seen.capitals > 0), message["it"] * in_question, message["they"] * plural,
            message["it"] * plural,
        )  # fmt: skip
    return rows
