"""What a message may refer to: names that stand in the last turns, with where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal

from ixchat.utils.history import HISTORY_TURNS, recent_turns
from ixchat.utils.resolution import Message, Role
from ixchat.utils.terms import composed
from ixrag.names import NameIndex
from ixrag.words import Word, folded, words

MAX_NAME_WORDS = 6  # longer spans are clauses

Kind = Literal["entity", "marked", "capitalised"]
"""How a candidate was recognised: by the tenant's graph, by markup or quotes, by its capitals alone."""

_MARKED = re.compile(r"\*\*([^*\n]{2,60})\*\*|«\s*([^»\n]{2,60}?)\s*»|“([^”\n]{2,60})”|\"([^\"\n]{2,60})\"")
_CAMEL = re.compile(r"\b[^\W\d_]+[a-z0-9]+[A-Z]\w*\b")
_CAPITALISED = re.compile(r"\b[A-ZÀ-ÖØ-Þ][\w&+#.-]*(?:[ \u00a0](?:&[ \u00a0])?[A-ZÀ-ÖØ-Þ][\w&+#-]*){0,4}")
_SENTENCE_START = re.compile(r"(?:^|[.!?:;¿¡\n•]|[-*•]\s)[\s\"«“(*_]*$")


@dataclass(frozen=True, slots=True)
class Spoken:
    """A message of the last turns, split into words. `index` is its position in `Turn.messages`."""

    index: int
    role: Role
    text: str
    words: Sequence[Word]


@dataclass(frozen=True, slots=True)
class Mention:
    """Where a candidate stands: `messages[message].content[start:end]`."""

    message: int
    role: Role
    start: int
    end: int

    def as_evidence(self) -> dict[str, Any]:
        """JSON facts for the decision record."""
        return {"message": self.message, "role": self.role, "start": self.start, "end": self.end}


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something the last turns name, in their own spelling (that of the latest mention)."""

    text: str
    name: str
    kind: Kind
    type: str
    mentions: tuple[Mention, ...]


def recent(messages: Sequence[Message], turns: int = HISTORY_TURNS) -> list[Spoken]:
    """The last `turns` exchanges, oldest first, in words."""
    last = recent_turns(messages, turns)
    return [
        Spoken(index, message.role, message.content, words(message.content))
        for index, message in enumerate(last, len(messages) - len(last))
    ]


def find_candidates(
    spoken: Iterable[Spoken], index: NameIndex, *, capitals: bool = True, ordinary: Set[str] = frozenset()
) -> list[Candidate]:
    """Names in the last turns, in order of their latest mention, most recent first.

    The tenant's entities where there are any; without them, what the text itself marks as a name:
    bold, quoted and CamelCase spans, and capitalised runs inside sentences.

    Args:
        spoken: Messages as `recent` gives them.
        index: The tenant's names; empty when the tenant has no graph.
        capitals: Whether a capital letter means a name (not so in German).
        ordinary: Folded words that are a name only when written with a capital.
    """
    mentions: dict[str, list[tuple[Mention, str, Kind, str, str]]] = {}
    for message in spoken:
        found = _entities(message, index, ordinary) if len(index) else _surface_spans(message, capitals)
        for start, end, kind, name, key, type_ in found:
            mention = Mention(message.index, message.role, start, end)
            mentions.setdefault(key, []).append((mention, message.text[start:end], kind, name, type_))
    candidates = [
        Candidate(rows[-1][1], rows[-1][3], rows[0][2], rows[0][4], tuple(row[0] for row in rows))
        for rows in mentions.values()
    ]
    return sorted(candidates, key=lambda candidate: _position(candidate.mentions[-1]), reverse=True)


def _position(mention: Mention) -> tuple[int, int]:
    return mention.message, mention.start


Found = tuple[int, int, Kind, str, str, str]


def _entities(message: Spoken, index: NameIndex, ordinary: Set[str]) -> Iterator[Found]:
    for hit in index.find_in(message.words):
        # A visitor may drop the capital; an assistant's "we scale" is not the plan Scale.
        is_lower = message.role == "assistant" and message.text[hit.start : hit.end].islower()
        if not (
            is_lower and hit.first_word == hit.last_word and message.words[hit.first_word].folded in ordinary
        ):
            yield hit.start, hit.end, "entity", hit.name, hit.key, hit.type


def _surface_spans(message: Spoken, capitals: bool) -> Iterator[Found]:
    taken: list[tuple[int, int]] = []
    text, places = composed(message.text)
    for first, last, kind in _marked_spans(text, capitals):
        start, end = places[first], places[last]
        span = message.text[start:end]
        overlaps = any(start < other_end and other_start < end for other_start, other_end in taken)
        if overlaps or not 1 <= len(words(span)) <= MAX_NAME_WORDS:
            continue
        taken.append((start, end))
        yield start, end, kind, span, folded(span), ""


def _marked_spans(text: str, capitals: bool) -> Iterator[tuple[int, int, Kind]]:
    for match in _MARKED.finditer(text):
        group = match.lastindex or 0
        yield match.start(group), match.end(group), "marked"
    for match in _CAMEL.finditer(text):
        yield match.start(), match.end(), "marked"
    if not capitals or text.isupper():
        return
    for match in _CAPITALISED.finditer(text):
        span = match.group().rstrip(".-")
        starts_sentence = _SENTENCE_START.search(text, max(0, match.start() - 8), match.start())
        if len(span) > 1 and (" " in span or not starts_sentence):
            yield match.start(), match.start() + len(span), "capitalised"
