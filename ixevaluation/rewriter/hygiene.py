"""Defects of a searched text that need no judge: what a rewriter adds to, breaks in or invents for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

from ixchat.utils.resolution import Turn

Defect = Literal["truncated", "markdown", "quotes", "inflated", "language", "graft"]
DEFECTS: tuple[Defect, ...] = get_args(Defect)

MAX_INFLATION = 4.0  # longer than four times the message: the rewriter is writing, not resolving
MIN_LANGUAGE_WORDS = 2  # below two marker words a guess at the language is noise

_MARKDOWN = re.compile(r"\*\*|__|^#{1,6}\s|^\s*[-*]\s|\[[^\]]+\]\([^)]+\)|`", re.MULTILINE)
_QUOTES = re.compile(r"^\s*([\"'“«„‘]).*([\"'”»“’])\s*[.?!]?\s*$", re.DOTALL)
_OPEN_END = re.compile(
    r"[,;:\-–(\[/&]\s*$|\b(et|and|ou|or|y|und|e|de|the|la|le|les|der|die|das)\s*$", re.IGNORECASE
)
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_MARKER_WORDS = {
    "fr": "le la les des du une est sont avec pour dans vous nous quel quelle quels combien que qui sur aux",
    "en": "the is are of and for with your you how what which does do can have their this from to in",
    "es": "el los las una es son con para en usted qué cuál cuánto cómo que del por tienen y sus",
    "it": "il lo gli le una è sono con per nel voi quale quanto come che della dei di avete quali",
    "de": "der die das ein eine ist sind mit für und im sie welche wie viel was zu den haben ihr",
}
_MARKERS = {lang: frozenset(words.split()) for lang, words in _MARKER_WORDS.items()}


def find_defects(turn: Turn, query: str) -> tuple[Defect, ...]:
    """Defects of `query` as the text searched for `turn`, in a fixed order; none for the raw message."""
    if query == turn.query:
        return ()
    found: list[Defect] = []
    if is_truncated(turn, query):
        found.append("truncated")
    if _MARKDOWN.search(query) and not _MARKDOWN.search(turn.query):
        found.append("markdown")
    if _QUOTES.match(query) and not _QUOTES.match(turn.query):
        found.append("quotes")
    if len(query) > MAX_INFLATION * max(1, len(turn.query)):
        found.append("inflated")
    if changes_language(turn, query):
        found.append("language")
    if invented_names(turn, query):
        found.append("graft")
    return tuple(found)


def is_truncated(turn: Turn, query: str) -> bool:
    """Whether the text stops in the middle: an open end, an unclosed bracket, or half a known word."""
    if turn.query.rstrip() and query.rstrip().endswith(turn.query.rstrip()[-12:]):
        return False  # it ends as the visitor ended
    if _OPEN_END.search(query) or query.count("(") > query.count(")") or query.count("**") % 2:
        return True
    last = re.search(r"([^\W\d_]{2,})$", query)
    if last is None:
        return False
    known = {word.casefold() for word in _WORD.findall(_said(turn))}
    word = last[1].casefold()
    return word not in known and any(len(other) > len(word) + 1 and other.startswith(word) for other in known)


def changes_language(turn: Turn, query: str) -> bool:
    """Whether the text is in another language than the conversation, where both can be told."""
    before, after = guess_language(_said(turn)), guess_language(query)
    return before is not None and after is not None and before != after


def guess_language(text: str) -> str | None:
    """The language with most marker words; None when too few decide, or two languages tie."""
    words = [word.casefold() for word in _WORD.findall(text)]
    counts = sorted(
        ((sum(w in marks for w in words), lang) for lang, marks in _MARKERS.items()), reverse=True
    )
    (most, lang), (second, _) = counts[0], counts[1]
    return lang if most >= MIN_LANGUAGE_WORDS and most > second else None


def invented_names(turn: Turn, query: str) -> Sequence[str]:
    """Capitalised words inside the text that nobody said: neither visitor, agent nor company."""
    known = {_fold(word) for word in _WORD.findall(f"{_said(turn)} {turn.company_name}")}
    words = list(_WORD.finditer(query))
    return [
        word[0]
        for word in words
        if word[0][0].isupper()
        and len(word[0]) > 2
        and not _starts_sentence(query, word.start())
        and _fold(word[0]) not in known
    ]


def _starts_sentence(text: str, position: int) -> bool:
    before = text[:position].rstrip(" \"'“«¿¡*_")
    return not before or before[-1] in ".?!:\n"


def _said(turn: Turn) -> str:
    return " ".join([*(message.content for message in turn.messages), turn.query])


def _fold(word: str) -> str:
    return re.sub(r"['’]s$|s$", "", word.casefold())
