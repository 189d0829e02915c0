"""Whole terms in real text: finding a name, counting words, knowing what nobody can see."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence

from ixrag.words import Word, folded_words, words

Span = tuple[int, int]
"""Start and end of a piece of text, in characters, end excluded."""

# Controls, joiners, bidi marks, byte order mark, soft hyphen, fillers, variation selectors, tags. A test
# compares the list with the Unicode database.
INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U00013430-\U0001345f\U000e0000-\U000e0fff]+"
)

URL = re.compile(
    r"(?:(?<![a-z0-9+.-])[a-z0-9+.-]*://|\bwww\.)[^\s<>。、，）」』】]+", re.IGNORECASE
)  # a scheme glued to a word takes the word along
EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")

# A character with what follows it without being seen on its own.
_CLUSTER = re.compile(rf"[\s\S](?:[\u0300-\u036f]|{INVISIBLE.pattern})*")

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"  # ideographs
)
_LETTERS_PER_WORD = 3  # mean word length, rounded up, in scripts that write no spaces
_BREAKS = frozenset(".!?;:,()[]|•…\n。！？；：，、（）")


def count_words(text: str) -> int:
    """Number of words; scripts without spaces count one word for three letters.

    Equals `len(text.split())` for text in scripts that write spaces.
    """
    tokens = text.split()
    unspaced = sum(map(len, _UNSPACED.findall(text)))
    if not unspaced:
        return len(tokens)
    return sum(not _UNSPACED.search(token) for token in tokens) + -(-unspaced // _LETTERS_PER_WORD)


def encodable(text: str) -> str:
    """`text` with surrogate pairs joined and lone surrogates replaced: no encoder accepts them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def composed(text: str) -> tuple[str, Sequence[int]]:
    """`text` with composed letters, plain blanks and nothing invisible, and where each character and the end stand.

    A pattern that looks for capitals or blanks reads every encoding of a text alike in it.
    """
    if text.isascii():
        return text, range(len(text) + 1)
    shown: list[str] = []
    places: list[int] = []
    for cluster in _CLUSTER.finditer(text):
        plain = unicodedata.normalize("NFC", INVISIBLE.sub("", cluster.group())).replace("\u00a0", " ")
        shown.append(plain)
        places += [cluster.start()] * len(plain)
    return "".join(shown), [*places, len(text)]


def find_name(name: str, text: str) -> Span | None:
    """Where `name` first stands in `text` as a whole term; None where it does not.

    Case, accents, Unicode form, quotes, hyphens, markdown and invisible characters do not matter.
    `Rose` is not found in `roseraie`, nor `C` in `C++`; a name is found inside a sentence of a script
    without spaces. A name does not reach over the end of a clause, unless it holds the same mark.
    """
    return next(find_names(name, text), None)


def find_names(name: str, text: str, *, within: Sequence[Word] | None = None) -> Iterator[Span]:
    """Every place where `name` stands in `text`, from left to right; `within` is `words(text)`, if at hand."""
    needle = words(name).folded
    hay = words(text) if within is None else within
    folded = folded_words(hay)
    if not needle or needle[0] not in folded:
        return
    allowed = _BREAKS - set(name)
    for first in range(len(folded) - len(needle) + 1):
        if folded[first] != needle[0] or folded[first : first + len(needle)] != needle:
            continue
        run = [hay[place] for place in range(first, first + len(needle))]
        if not _is_broken(run, text, allowed):
            yield run[0].start, run[-1].end


def _is_broken(run: Sequence[Word], text: str, breaks: frozenset[str]) -> bool:
    return any(not breaks.isdisjoint(text[left.end : right.start]) for left, right in itertools.pairwise(run))
