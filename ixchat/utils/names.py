"""Which name may be appended to a message: established in the conversation, and new to the message."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ixchat.utils.history import Excerpt, excerpts
from ixchat.utils.resolution import Rejected, Resolution, Turn
from ixchat.utils.terms import EMAIL, URL, count_words, find_name, fold

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
# A message that spells out the answer it wants is an instruction, and establishes nothing.
_PLANTED = re.compile(r"\bresolve\s*[:=]")
_ARTICLE = re.compile(r"[ld]'(?=\w)|(?:the|le|la|les|el|los|las|il|lo|gli|der|die|das) (?=\S)")
_WEB_ENDING = re.compile(r"\.(?:com|fr|io|eu|net|org|de|es|it|ai|app|co\.uk)$")


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
    for piece in reversed(excerpts(turn.messages)):
        text = fold(piece.text)
        if _PLANTED.search(text.text):
            continue
        for wanted in _without_article(name):
            span = find_name(wanted, text)
            if span:
                return _established(piece, *span)
    return None


def is_company(name: str, company_name: str) -> bool:
    """Whether `name` is the company itself: legal form, articles, case and web ending do not count."""
    company = _company_core(company_name)
    return bool(company) and _company_core(name) == company


def _reject(turn: Turn, name: str, found: Established | None) -> Rejected | None:
    if URL.search(name) or EMAIL.search(name):
        return "not_in_history"
    if is_company(name, turn.company_name):
        return "company"
    query = fold(turn.query)
    if any(find_name(wanted, query) for wanted in (*_without_article(name), found.name if found else "")):
        return "already_named"
    if found is None:
        return "not_in_history"
    if count_words(found.name) > MAX_NAME_WORDS or len(found.name) > MAX_NAME_CHARS:
        return "too_long"
    return None


def _without_article(name: str) -> Iterator[str]:
    yield name
    folded = fold(name).text.strip()
    article = _ARTICLE.match(folded)
    if article:
        yield folded[article.end() :]


def _established(piece: Excerpt, start: int, end: int) -> Established:
    """An article in lower case is grammar (`l'ERP Wave`); with a capital it is the name's (`L'Atelier`)."""
    article = _ARTICLE.match(fold(piece.text[start:end]).text)
    if article and piece.text[start].islower():
        start += article.end()
    return Established(piece.text[start:end], piece.index, piece.offsets[start], piece.offsets[end - 1] + 1)


def _company_core(name: str) -> str:
    text = fold(name).text.strip().removesuffix("'s")
    text = _WEB_ENDING.sub("", text).replace(".", "")
    words = re.findall(r"[^\W_]+", text)
    while len(words) > 1 and (words[-1] in _LEGAL_FORMS or words[-1] in _COMPANY_WORDS):
        words.pop()
    while len(words) > 1 and (words[0] in _COMPANY_WORDS or words[0] in _LEGAL_FORMS):
        words.pop(0)
    return " ".join(words)
