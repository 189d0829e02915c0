"""Compare words the way a reader does: case, accents, Unicode form, quotes and hyphens do not matter."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Span = tuple[int, int]
"""Start and end of a piece of text, in characters, end excluded."""

# Characters that show nothing: soft hyphen, joiners, bidi marks, byte order mark, blank fillers,
# variation selectors, tags. A test compares the list with the Unicode database.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U00013430-\U0001345f\U000e0000-\U000e0fff"
)
INVISIBLE = re.compile(f"[{_INVISIBLE}]+")

# Marks written on the letter before them, in the scripts where a reader may leave them out.
_ACCENTS = "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u064b-\u065f\u0670\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f"
# Marks that make another letter: voiced kana and the parts of a Korean syllable.
_LETTER_PARTS = "\u3099\u309a\uff9e\uff9f\u1161-\u11ff"
_CLUSTER = re.compile(rf"[\s\S][{_ACCENTS}{_LETTER_PARTS}{_INVISIBLE}]*")
_ACCENT = re.compile(f"[{_ACCENTS}]+")
_IRREGULAR_SPACE = re.compile(r"[^\S ]|  ")

_SAME = str.maketrans(
    dict.fromkeys("‘’‚‛′ʼ´ʹ＇", "'")
    | dict.fromkeys("“”„‟«»″＂", '"')
    | dict.fromkeys("‐‑‒–—―−﹘﹣－", "-")
    | dict.fromkeys("™®©℠", "")
    | {"ı": "i"}
)

URL = re.compile(r"\b(?:[a-z][a-z0-9+.-]{1,15}://|www\.)[^\s<>。、，）」』】]+", re.IGNORECASE)
EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")

_SCRIPTS = (
    ("unspaced", "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"),  # Thai, Lao, Burmese, Khmer
    ("unspaced", "\u3005-\u3007\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"),
    ("katakana", "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"),
    ("hangul", "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"),
)
_SCRIPT_OF = [(name, re.compile(f"[{ranges}]")) for name, ranges in _SCRIPTS]
_UNSPACED = re.compile("[" + "".join(ranges for name, ranges in _SCRIPTS if name != "hangul") + "]")
_LETTERS_PER_WORD = 3  # mean word length, rounded up, in scripts that write no spaces


@dataclass(frozen=True, slots=True)
class Folded:
    """Text made comparable, with the way back to the original.

    Attributes:
        text: Lower case, no accents, plain quotes and hyphens, single spaces, nothing invisible.
        starts: For each character of `text`, where its source begins in the original.
        ends: Likewise, where its source ends.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def source(self, start: int, end: int) -> Span | None:
        """The original characters behind `text[start:end]`; None where that cuts one in two."""
        cuts_head = start > 0 and self.starts[start] == self.starts[start - 1]
        cuts_tail = end < len(self.text) and self.starts[end] == self.starts[end - 1]
        return None if cuts_head or cuts_tail else (self.starts[start], self.ends[end - 1])


def fold(text: str) -> Folded:
    """Make `text` comparable: two spellings that a reader takes for the same word fold alike.

    Case, accents, Unicode form, width, typographic quotes and hyphens, trade marks, invisible
    characters and runs of blanks do not matter. Voiced kana stay different letters.
    """
    if text.isascii() and not _IRREGULAR_SPACE.search(text):
        return Folded(text.lower(), range(len(text)), range(1, len(text) + 1))
    folded: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for match in _CLUSTER.finditer(text):
        piece = _fold_cluster(match.group())
        if piece == " " and folded and folded[-1] == " ":
            continue
        folded.extend(piece)
        starts.extend([match.start()] * len(piece))
        ends.extend([match.end()] * len(piece))
    return Folded("".join(folded), starts, ends)


@lru_cache(maxsize=8192)
def _fold_cluster(cluster: str) -> str:
    if cluster.isspace():
        return " "
    plain = INVISIBLE.sub("", cluster).translate(_SAME).casefold()
    bare = _ACCENT.sub("", unicodedata.normalize("NFKD", plain))
    return unicodedata.normalize("NFC", bare.casefold().translate(_SAME))


def find_name(name: str | Folded, text: str | Folded) -> Span | None:
    """Where `name` first stands in `text` as a whole term, in characters of the original text.

    `Rose` is not found in `roseraie`, nor `C` in `C++`; a name written in Latin letters is found
    between ideographs, and `バッジオ` before a particle. Pass a `Folded` to fold only once.
    """
    return next(find_names(name, text), None)


def find_names(name: str | Folded, text: str | Folded) -> Iterator[Span]:
    """Every place where `name` stands in `text` as a whole term, from left to right."""
    needle = (fold(name) if isinstance(name, str) else name).text.strip()
    hay = fold(text) if isinstance(text, str) else text
    if not any(map(str.isalnum, needle)):
        return
    start = hay.text.find(needle)
    while start >= 0:
        end = start + len(needle)
        if not _continues_left(hay.text, start) and not _continues_right(hay.text, end):
            span = hay.source(start, end)
            if span:
                yield span
        start = hay.text.find(needle, start + 1)


def count_words(text: str) -> int:
    """Number of words; scripts without spaces count one word for three letters.

    Equals `len(text.split())` for text in scripts that write spaces.
    """
    unspaced = len(_UNSPACED.findall(text))
    if not unspaced:
        return len(text.split())
    spaced = sum(1 for token in text.split() if not _UNSPACED.search(token))
    return spaced + -(-unspaced // _LETTERS_PER_WORD)


def _continues_left(text: str, start: int) -> bool:
    return start > 0 and _same_word(text[start - 1], text[start], particles=False)


def _continues_right(text: str, end: int) -> bool:
    if end >= len(text):
        return False
    last, following = text[end - 1], text[end]
    if following in "+#":  # "Premium+" is another plan than "Premium"; "Premium+Start" names both
        rest = text[end:].lstrip("+#")
        return not rest[:1].isalnum()
    return _same_word(last, following, particles=True)


def _same_word(left: str, right: str, *, particles: bool) -> bool:
    """Whether two neighbours belong to one word. Korean hangs particles on the end of a name."""
    if unicodedata.category(right)[0] == "M":
        return True
    if not (left.isalnum() or left == "_") or not (right.isalnum() or right == "_"):
        return False
    scripts = _script(left), _script(right)
    if scripts == ("hangul", "hangul"):
        return not particles
    return scripts[0] == scripts[1] != "unspaced"


@lru_cache(maxsize=4096)
def _script(letter: str) -> Literal["unspaced", "katakana", "hangul", "spaced"] | str:
    return next((name for name, letters in _SCRIPT_OF if letters.match(letter)), "spaced")
