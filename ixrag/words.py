"""Text as folded words: one tokeniser for every comparison that ignores case, accents and typography."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, overload

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

_APOSTROPHES = "\u02bb-\u02bd"  # letters to Unicode, apostrophes to those who type them
_LETTER = rf"[^\W_{_APOSTROPHES}{_UNSPACED}{_KATAKANA}]"
_WORD = re.compile(
    rf"{_LETTER}+(?:[{_MARK}]+{_LETTER}*)*[+#]{{0,2}}"
    rf"|[{_UNSPACED}][{_MARK}]*"
    rf"|[{_KATAKANA}][{_KATAKANA}{_MARK}]*"
)
_LETTERS = str.maketrans({"ı": "i", "ø": "o", "đ": "d", "ł": "l", "æ": "ae", "œ": "oe"})


class Word(NamedTuple):
    """A word of a text: its folded form and where it stands, `text[start:end]`."""

    folded: str
    start: int
    end: int


class Words(Sequence[Word]):
    """The words of a text, in order.

    Most readers look at the folded words alone, so where they stand is worked out as far as it is asked.

    Attributes:
        folded: The folded words.
    """

    __slots__ = ("_starts", "_text", "_written", "folded")

    folded: Sequence[str]

    def __init__(self, text: str) -> None:
        """Split `text`; `words` says how."""
        self._starts: list[int] = []
        plain = _fold_letter_by_letter(text)
        if plain is not None:
            self._text = plain
            self.folded = self._written = plain.split()
            return
        self._text = text
        self._written = _WORD.findall(text)
        self.folded = list(map(fold_word, self._written))
        if not all(self.folded):  # nothing but marks
            starts = self._places(len(self._written))
            kept = [place for place, word in enumerate(self.folded) if word]
            self._starts = [starts[place] for place in kept]
            self._written = [self._written[place] for place in kept]
            self.folded = [self.folded[place] for place in kept]

    def __len__(self) -> int:
        return len(self._written)

    def __iter__(self) -> Iterator[Word]:
        starts = self._places(len(self))
        for folded_word, start, written in zip(self.folded, starts, self._written, strict=True):
            yield Word(folded_word, start, start + len(written))

    @overload
    def __getitem__(self, place: int) -> Word: ...
    @overload
    def __getitem__(self, place: slice) -> list[Word]: ...
    def __getitem__(self, place: int | slice) -> Word | list[Word]:
        if isinstance(place, slice):
            return list(self)[place]
        place = range(len(self))[place]
        return Word(self.folded[place], *self.span(place, place))

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Where the words `first` to `last`, both included and counted from 0, stand in the text."""
        starts = self._places(last + 1)
        return starts[first], starts[last] + len(self._written[last])

    def _places(self, count: int) -> list[int]:
        """Where the first `count` words begin, and maybe more of them."""
        starts = self._starts
        if len(starts) < count:
            find, end = self._text.find, 0
            if starts:
                end = starts[-1] + len(self._written[len(starts) - 1])
            for written in self._written[len(starts) : count]:
                start = find(written, end)  # no word can begin between two words
                starts.append(start)
                end = start + len(written)
        return starts


def words(text: str) -> Words:
    """Every word of `text`, in order.

    Apostrophes, hyphens, markdown and punctuation separate words (`l'ERP` gives `l`, `erp`). A `+` or
    `#` right after a word belongs to it (`C++`). In scripts written without spaces every character
    is a word, so a name is found inside a running sentence.
    """
    return Words(text)


@lru_cache(maxsize=65_536)
def fold_word(word: str) -> str:
    """`word` without case, accents and invisible characters; equal for every Unicode form of it."""
    if word.isascii():
        return word.lower()
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", word).casefold())
    kept = "".join(c for c in decomposed if c in _VOICING or unicodedata.category(c) not in ("Mn", "Cf"))
    return kept.translate(_LETTERS)


def _fold_letter_by_letter(text: str) -> str | None:
    """`text` folded, all but letters and digits blanked, each letter in its place.

    None where a letter folds to several or to none, or a sign may belong to a word: then word by word.
    It is what nearly all western text can be read by, ten times faster than by the pattern.
    """
    try:
        found = text.encode("ascii" if text.isascii() else "cp1252").translate(_letter_table())
    except UnicodeEncodeError:
        return None
    return None if b"\0" in found else found.decode("ascii")


@lru_cache(maxsize=1)
def _letter_table() -> bytes:
    """For each byte of cp1252 its folded letter, a blank, or 0 for what has to be read in its word."""
    table = bytearray()
    for byte in range(256):
        letter = bytes([byte]).decode("cp1252", "replace")
        plain = fold_word(letter) if _WORD.match(letter) else " "
        in_its_word = len(plain) != 1 or not plain.isascii() or letter in "+#\u00ad"
        table.append(0 if in_its_word else ord(plain))
    return bytes(table)


def folded(text: str) -> str:
    """The folded words of `text` joined by single spaces; the form in which two texts are compared."""
    return " ".join(words(text).folded)


def span_of(text_words: Sequence[Word], first: int, last: int) -> tuple[int, int]:
    """Where the words `first` to `last`, both included, stand in their text."""
    if isinstance(text_words, Words):
        return text_words.span(first, last)
    return text_words[first].start, text_words[last].end


def folded_words(text_words: Sequence[Word]) -> Sequence[str]:
    """The folded words of words that were split before."""
    return text_words.folded if isinstance(text_words, Words) else [word.folded for word in text_words]
