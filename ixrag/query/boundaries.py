"""Where a sentence ends and where a clause starts, without a model. In doubt: nowhere."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ixrag.query.languages import (
    Language,
    Phrase,
    all_abbreviations,
    all_courtesies,
    all_openers,
    exact,
    language_of,
)
from ixrag.words import Word, folded, words

MIN_CLAUSE_WORDS = 2  # "pricing and what it costs" is one question with a doubled subject
MIN_BREAK_WORDS = 3  # "payroll but also planning" names two things; it does not ask two questions
MAX_PHRASE_WORDS = 5

_CLOSERS = "\"'”’»›)\\]}*_"
_STOP = re.compile(rf"[.!?…؟;։।]+[{_CLOSERS}]*(?=\s)|[。！？｡]+[」』）]*")
_LAST_TOKEN = re.compile(r"\S+\Z")
_DASHES = ("—", "–", "-")
_OPENING = "\"'“‘«‹„([¿¡*_#"


def sentences(text: str) -> list[str]:
    """`text` cut after its sentences, in order, stripped; each is a piece of `text`.

    Full stops in abbreviations, initials, decimals, ordinals and addresses end no sentence, and
    one that is followed by a small letter does so only before a question word.
    """
    pieces, start = [], 0
    for stop in _STOP.finditer(text):
        if _ends_sentence(text, start, stop):
            pieces.append(text[start : stop.end()])
            start = stop.end()
    return [stripped for piece in [*pieces, text[start:]] if (stripped := piece.strip())]


def clauses(sentence: str, default_language: str = "") -> list[str]:
    """`sentence` cut at the conjunctions that join two questions, in order, stripped.

    Args:
        sentence: One sentence, as `sentences` gives it.
        default_language: ISO 639 code, used where the sentence does not show its language.
    """
    found = list(words(sentence))
    language = language_of([exact(sentence, word) for word in found], default_language)
    if language is None or any(word.folded in language.holds for word in found):
        return [sentence]
    pieces, cut, start, position = [], 0, 0, 1
    while position < len(found):
        length = _joint(sentence, found, start, position, language)
        if length:
            pieces.append(sentence[cut : found[position - 1].end])
            start = position = position + length
            cut = found[start - 1].end
        position += 1
    return [piece.strip(" ,") for piece in [*pieces, sentence[cut:]]]


def is_courtesy(text: str) -> bool:
    """Whether `text` is a greeting, a thank-you or no words at all."""
    return not (plain := folded(text)) or plain in all_courtesies()


def _ends_sentence(text: str, start: int, stop: re.Match[str]) -> bool:
    mark = stop.group().rstrip(_CLOSERS)
    rest = text[stop.end() :].lstrip()
    if rest.startswith(_DASHES):  # "Who runs it? — Velmora": what follows belongs to the question
        return False
    if not rest or mark[0] in "?؟。！？｡।։" or "?" in mark:
        return True
    if mark[0] == ";":
        return _opens_question(rest)
    token = _LAST_TOKEN.search(text, start, stop.start())
    if mark == "." and token is not None and _keeps_its_stop(token.group()):
        return False
    first = rest.lstrip(_OPENING)[:1]
    if first.isalpha() and first.islower():
        return _opens_question(rest)
    return True


def _keeps_its_stop(token: str) -> bool:
    word = token.strip(_OPENING + _CLOSERS)
    if len(word) <= 1 or (len(word) == 2 and word.isdigit()):  # initials, "z. B.", "1. Mai"
        return True
    plain = folded(word)
    return plain in all_abbreviations() or plain.rpartition(" ")[2] in all_abbreviations()


def _opens_question(text: str) -> bool:
    return _starts_with(list(words(text[:80])), 0, all_openers())


def _joint(sentence: str, found: Sequence[Word], start: int, position: int, language: Language) -> int:
    """Number of words of the conjunction that starts at `position`, or 0 if it joins no clauses."""
    before = position - start
    for length in range(min(MAX_PHRASE_WORDS, len(found) - position - 1), 0, -1):
        phrase = found[position : position + length]
        after = len(found) - position - length
        if tuple(word.folded for word in phrase) in language.breaks:
            return length if min(before, after) >= MIN_BREAK_WORDS else 0
        if tuple(exact(sentence, word) for word in phrase) in language.joins:
            opens = _starts_with(found, position + length, language.openers)
            # "when and where": two question words of one question.
            doubled = (found[position - 1].folded,) in language.openers
            return length if opens and not doubled and min(before, after) >= MIN_CLAUSE_WORDS else 0
    return 0


def _starts_with(found: Sequence[Word], position: int, phrases: frozenset[Phrase]) -> bool:
    head = [word.folded for word in found[position : position + MAX_PHRASE_WORDS]]
    return any(tuple(head[:length]) in phrases for length in range(1, len(head) + 1))
