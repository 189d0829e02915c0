"""Text as folded words: one tokeniser for every comparison that ignores case, accents and typography."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

_INVISIBLE = "\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff"
# Combining marks of the scripts most often seen: `\w` leaves them out, a word must not break at them.
_MARK = (
    f"{_INVISIBLE}\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u0610-\u061a\u064b-\u065f"
    "\u0670\u06d6-\u06dc\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe20-\ufe2f"
)
_UNSPACED = "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u3041-\u3096\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # scripts written without spaces
_VOICING = "\u3099\u309a"  # makes another letter of a kana: not an accent
_KATAKANA = "\u30a0-\u30ff\u31f0-\u31ff"

_WORD = re.compile(
    rf"[{_UNSPACED}][{_MARK}]*"
    rf"|[{_KATAKANA}][{_KATAKANA}{_MARK}]*"
    rf"|[^\W_{_UNSPACED}{_KATAKANA}](?:[^\W_{_UNSPACED}{_KATAKANA}]|[{_MARK}])*[+#]{{0,2}}"
)
_ASCII_WORD = re.compile(r"[a-z0-9]+[+#]{0,2}")
_LETTERS = str.maketrans({"ı": "i", "ø": "o", "đ": "d", "ł": "l", "æ": "ae", "œ": "oe"})


class Word(NamedTuple):
    """A word of a text: its folded form and where it stands, `text[start:end]`."""

    folded: str
    start: int
    end: int


def words(text: str) -> list[Word]:
    """Every word of `text`, in order.

    Apostrophes, hyphens, markdown and punctuation separate words (`l'ERP` gives `l`, `erp`). A `+` or
    `#` right after a word belongs to it (`C++`). In scripts written without spaces every character
    is a word, so a name is found inside a running sentence.
    """
    if text.isascii():
        return [Word(match.group(), *match.span()) for match in _ASCII_WORD.finditer(text.lower())]
    found = [Word(fold_word(match.group()), *match.span()) for match in _WORD.finditer(text)]
    return [word for word in found if word.folded]


@lru_cache(maxsize=65_536)
def fold_word(word: str) -> str:
    """`word` without case, accents and invisible characters; equal for every Unicode form of it."""
    if word.isascii():
        return word.lower()
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", word).casefold())
    kept = "".join(c for c in decomposed if c in _VOICING or unicodedata.category(c) not in ("Mn", "Cf"))
    return kept.translate(_LETTERS)


def folded(text: str) -> str:
    """The folded words of `text` joined by single spaces; the form in which two texts are compared."""
    return " ".join(word.folded for word in words(text))
