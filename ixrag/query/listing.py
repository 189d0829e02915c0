"""What models write around the lines they were asked for, and how it is taken off again."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable

from ixrag.query.languages import all_chatter, all_labels
from ixrag.words import folded

MAX_LINE_CHARS = 300  # longer is an answer to the question, not another way to ask it

_FENCE = re.compile(r"^\s*```.*$", re.MULTILINE)
_MARKER = re.compile(
    r"^(?:>\s*|#{1,6}\s+|[-*+–—]\s+|[•▪‣·◦]\s*|\(?\d{1,2}[.):\]]\s*(?!\d)|\(?[a-hA-H]\)\s+)+"
)
_LINK = re.compile(r"\[([^\]]+)\]\([^)\s]*\)")
_EMPHASIS = re.compile(r"(\*\*|\*|`)(?=\S)(.+?)(?<=\S)\1")
_LABEL = re.compile(r"^([^\W\d][\w\s-]{2,30}?)\s*\d{0,2}\s*[:：]\s*(?=\S)")
_QUOTES = {
    '"': '"',
    "'": "'",
    "“": "”",
    "‘": "’",
    "«": "»",
    "‹": "›",
    "„": "“”",
    "‚": "‘’",
    "「": "」",
    "『": "』",
    "”": "”",
}
_JSON_LIST = re.compile(r'(?m)^\s*(?:\{\s*"\w+"\s*:\s*)?\[(?=\s*["\]])')
_STRING = re.compile(r'\s*,?\s*("(?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*")')
_DECODER = json.JSONDecoder(strict=False)
_SURROGATES = re.compile("[\ud800-\udfff]")


def list_items(answer: str) -> list[str]:
    """The items of a model's list (thinking taken off already), one per line or as JSON, as plain text.

    JSON is an array of strings, or an object that holds one; it may be fenced, stand after an opening
    sentence, or be cut off, whose last string is then left out.

    Fences, numbering, bullets, labels, quotes, markdown, an opening ("Here are ...:") and a
    closing remark are taken off; blank and over-long lines are left out. Order and repeats are kept.
    """
    lines = _json_items(answer)
    if lines is None:
        lines = [line for line in _FENCE.sub("", answer).splitlines() if not _is_chatter(line)]
    cleaned = (clean_line(line) for line in lines if len(line) <= 2 * MAX_LINE_CHARS)
    return [line for line in cleaned if line and len(line) <= MAX_LINE_CHARS]


def clean_line(line: str) -> str:
    """One line without list marker, label, markdown and surrounding quotes, blanks collapsed."""
    text = _MARKER.sub("", " ".join(line.split()))
    text = _EMPHASIS.sub(r"\2", _LINK.sub(r"\1", text))
    label = _LABEL.match(text)
    if label and folded(label.group(1)) in all_labels():
        text = text[label.end() :]
    return unquoted(text)


def unquoted(text: str) -> str:
    """`text` without the quotation marks around the whole of it, stripped."""
    text = text.strip()
    while len(text) > 1 and text[-1] in _QUOTES.get(text[0], "") and text[0] not in text[1:-1]:
        text = text[1:-1].strip()
    return text


def distinct(
    texts: Iterable[object], *, other_than: Iterable[str] = (), limit: int | None = None
) -> list[str]:
    """The first `limit` texts that are new, stripped.

    Blank ones, whatever is no string, and repeats are left out; case, blanks, the Unicode form and
    closing punctuation make no difference.
    Lone surrogates become U+FFFD, since no encoder takes them.

    Args:
        texts: Candidates, best first.
        other_than: Texts that must not come back.
    """
    seen = {comparable(text) for text in other_than}
    kept: list[str] = []
    for text in texts:
        if limit is not None and len(kept) >= limit:
            break
        if not isinstance(text, str):
            continue
        key = comparable(text)
        if key and key not in seen:
            seen.add(key)
            kept.append(encodable(text.strip()))
    return kept


def encodable(text: str) -> str:
    """`text` with U+FFFD in the place of lone surrogates."""
    return _SURROGATES.sub("\ufffd", text)


def comparable(text: str) -> str:
    """The form in which two queries are one: without case, repeated blanks and closing punctuation, in NFC."""
    plain = unicodedata.normalize("NFC", " ".join(text.split()).casefold())
    return plain.rstrip(" .?!…。？！؟") or plain


def _is_chatter(line: str) -> bool:
    text = line.strip().strip("*_# ")
    if text.endswith((":", "：")):
        return True
    start = folded(text)
    return any(start == opening or start.startswith(f"{opening} ") for opening in all_chatter())


def _json_items(text: str) -> list[str] | None:
    body = _FENCE.sub("", text).strip()
    start = _JSON_LIST.search(body)
    if start is None:
        return None
    try:
        value, _ = _DECODER.raw_decode(body, start.start())
    except (ValueError, RecursionError):
        return _before_the_cut(body[start.end() :])
    lists = value.values() if isinstance(value, dict) else [value]
    for items in lists:
        if isinstance(items, list) and all(isinstance(item, str) for item in items):
            return items
    return None


def _before_the_cut(rest: str) -> list[str] | None:
    """The complete strings at the head of an array that was not closed."""
    items: list[str] = []
    while (string := _STRING.match(rest)) is not None:
        items.append(json.loads(string[1], strict=False))
        rest = rest[string.end() :]
    return items or None
