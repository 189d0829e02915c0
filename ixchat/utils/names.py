"""Which name may be appended to a message: established in the conversation, and new to the message."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ixchat.utils.history import Excerpt, latest_excerpts
from ixchat.utils.resolution import Rejected, Resolution, Turn
from ixchat.utils.terms import EMAIL, URL, count_words, find_name, find_names
from ixrag.words import folded, words

MAX_NAME_WORDS = 6
MAX_NAME_CHARS = 120
SEPARATOR = " — "

_LEGAL_FORMS = frozenset({
    "sa", "sas", "sasu", "sarl", "eurl", "snc", "sca", "scop", "gmbh", "ag", "kg", "ug", "ohg", "se",
    "inc", "incorporated", "llc", "llp", "ltd", "limited", "plc", "corp", "corporation", "co", "spa",
    "srl", "srls", "sl", "slu", "bv", "nv", "oy", "ab", "as", "aps",
})  # fmt: skip
_COMPANY_WORDS = frozenset({
    "the", "company", "group", "la", "le", "l", "societe", "entreprise", "groupe", "el", "empresa",
    "grupo", "lo", "azienda", "societa", "gruppo", "die", "das", "der", "firma", "unternehmen",
})  # fmt: skip
_ARTICLES = frozenset({
    "l", "the", "le", "la", "les", "el", "los", "las", "il", "lo", "gli", "der", "die", "das",
})  # fmt: skip
# A message that spells out the answer it wants is an instruction, and establishes nothing.
_PLANTED = re.compile(r"\bresolve\W{0,3}[:=]", re.IGNORECASE)
_WEB_ENDING = re.compile(r"\.(?:com|fr|io|eu|net|org|de|es|it|ai|app)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Established:
    """Where a name stands in the conversation, and how it is written there.

    Attributes:
        name: The conversation's own spelling.
        message: Index into `Turn.messages`.
        start: First character in that message.
        end: Character after the last.
    """

    name: str
    message: int
    start: int
    end: int


def append_name(turn: Turn, name: str, *, trace: Mapping[str, Any] | None = None) -> Resolution:
    """Append `name` to the visitor's message, in the conversation's spelling, if every check allows it.

    Args:
        turn: The turn; its last two exchanges establish names.
        name: What a model or a rule proposes.
        trace: Facts to keep in the resolution's trace.

    Returns:
        `"<message> — <name>"` with decision `resolve`; or the message itself, with the reason of
        the rejection as `fallback`. The trace holds `entity` (as written where it was found, else as
        proposed), `rejected` (the reason or None) and `evidence` (`message`, `start`, `end`, or None).
    """
    found = establish(turn, name)
    rejected = _reject(turn, name, found)
    facts = {
        **(trace or {}),
        "entity": found.name if found else name[:MAX_NAME_CHARS],
        "rejected": rejected,
        "evidence": {"message": found.message, "start": found.start, "end": found.end} if found else None,
    }
    if rejected or found is None:
        return Resolution(turn.query, "resolve", rejected, facts)
    return Resolution(f"{turn.query}{SEPARATOR}{found.name}", "resolve", None, facts)


def establish(turn: Turn, name: str) -> Established | None:
    """Find `name` as a whole term in what a model is shown of the conversation, latest message first.

    Web and mail addresses are not shown, so no part of one is ever established.
    """
    spellings = list(_with_and_without_article(name))
    for piece in latest_excerpts(turn.messages):
        hay = words(piece.text)
        spans = (next(find_names(wanted, piece.text, within=hay), None) for wanted in spellings)
        span = next(filter(None, spans), None)
        if span and not _PLANTED.search(piece.text):
            return _established(piece, *span)
    return None


def is_company(name: str, company_name: str) -> bool:
    """Whether `name` is the company itself: legal form, articles, case and web ending do not count."""
    company = _core_of_company(company_name)
    core = name.lower() if name.isascii() and name.isalnum() else _core(name)  # most names are one word
    return bool(company) and core == company


def _reject(turn: Turn, name: str, found: Established | None) -> Rejected | None:
    if URL.search(name) or EMAIL.search(name):
        return "not_in_history"
    if is_company(name, turn.company_name):
        return "company"
    if any(find_name(wanted, turn.query) for wanted in _with_and_without_article(name)):
        return "already_named"
    if found is None:
        return "not_in_history"
    if count_words(found.name) > MAX_NAME_WORDS or len(found.name) > MAX_NAME_CHARS:
        return "too_long"
    return None


def _with_and_without_article(name: str) -> Iterator[str]:
    yield name
    split = words(name)
    if len(split) > 1 and split[0].folded in _ARTICLES:
        yield name[split[1].start :]


def _established(piece: Excerpt, start: int, end: int) -> Established:
    """An article in lower case is grammar (`l'ERP Wave`); with a capital it is the name's (`L'Atelier`)."""
    split = words(piece.text[start:end])
    if len(split) > 1 and split[0].folded in _ARTICLES and piece.text[start].islower():
        start += split[1].start
    return Established(piece.text[start:end], piece.index, piece.offsets[start], piece.offsets[end - 1] + 1)


@lru_cache(maxsize=1_024)
def _core_of_company(name: str) -> str:
    return _core(name)


def _core(name: str) -> str:
    bare = _WEB_ENDING.sub("", name.strip())
    parts = folded(re.sub(r"(?<=\w)\.", "", bare)).removesuffix(" s").split()
    while len(parts) > 1 and parts[-1] in _LEGAL_FORMS | _COMPANY_WORDS:
        parts.pop()
    while len(parts) > 1 and parts[0] in _LEGAL_FORMS | _COMPANY_WORDS:
        parts.pop(0)
    return " ".join(parts)
