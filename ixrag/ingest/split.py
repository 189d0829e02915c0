"""A document into passages: one or more for each heading, cut between paragraphs, else between sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ixrag.ingest.document import Block, Document
from ixrag.lightrag.corpus import Passage
from ixrag.lightrag.engine import count_tokens

_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'»”’)\]]*\s+|(?<=[。！？])|\n")
_WORD_END = re.compile(r"(?<=\s)")
MAX_TITLE_CHARACTERS = 200
TITLE_SHARE = 3  # a title takes a third of a passage at most


class Cut(NamedTuple):
    """A passage, and the block of the document it was cut from."""

    passage: Passage
    block: Block


def split(document: Document, source: str, *, max_tokens: int, overlap_tokens: int) -> list[Cut]:
    """The passages of a document, in reading order.

    Each begins with the document's title and its headings, which often name what the text calls "it".

    Args:
        document: What a reader made of the file.
        source: Name of the file; passages are called `source#1`, `source#2`, …
        max_tokens: Of a passage with its title, as `count_tokens` counts.
        overlap_tokens: Most tokens of the sentences that a passage repeats of the one before it, under
            the same heading.
    """
    cuts: list[Cut] = []
    for block in document.blocks:
        title = title_of(document, block, max_tokens)
        room = max_tokens - count_tokens(f"{title}\n")
        for text in _portions(block.text, room, overlap_tokens):
            passage = Passage(
                id=f"{source}#{len(cuts) + 1}", title=title, text=text, source=source, lang=document.lang
            )
            cuts.append(Cut(passage, block))
    return cuts


def title_of(document: Document, block: Block, max_tokens: int) -> str:
    """Title and headings in one line: `Guide › Prices › Discounts`."""
    title = " › ".join([document.title, *block.headings])[:MAX_TITLE_CHARACTERS]
    while count_tokens(title) > max_tokens // TITLE_SHARE:
        title = title[: len(title) * 3 // 4].rstrip()
    return title


def _portions(text: str, room: int, overlap_tokens: int) -> Iterator[str]:
    """Pieces joined up to `room` tokens; each portion repeats the last sentences of the one before."""
    portion = ""
    for piece in _pieces(text, room):
        if portion and count_tokens(f"{portion}\n\n{piece}") > room:
            yield portion
            overlap = min(overlap_tokens, room - count_tokens(f"{piece}\n\n"))
            portion = _last_sentences(portion, overlap)
        portion = f"{portion}\n\n{piece}" if portion else piece
    if portion:
        yield portion


def _pieces(text: str, room: int) -> Iterator[str]:
    """Paragraphs; where one is too long its sentences, and where one is too long its words."""
    for paragraph in text.split("\n\n"):
        if count_tokens(paragraph) <= room:
            if paragraph.strip():
                yield paragraph.strip()
            continue
        yield from _joined(_parts(paragraph, room), room)


def _parts(paragraph: str, room: int) -> Iterator[str]:
    for sentence in sentences(paragraph):
        if count_tokens(sentence) <= room:
            yield sentence
            continue
        for word in _joined(_WORD_END.split(sentence), room, between=""):
            while count_tokens(word) > room:  # no blank in it: a script without spaces, or one giant word
                yield word[:room]
                word = word[room:]
            yield word


def _joined(parts: Iterator[str] | Sequence[str], room: int, between: str = " ") -> Iterator[str]:
    whole = ""
    for part in parts:
        longer = f"{whole}{between}{part}" if whole else part
        if whole and count_tokens(longer) > room:
            yield whole.strip()
            longer = part
        whole = longer
    if whole.strip():
        yield whole.strip()


def sentences(text: str) -> list[str]:
    """The sentences and lines of `text`."""
    ends = [0, *(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]
    return [sentence for start, end in pairwise(ends) if (sentence := text[start:end].strip())]


def _last_sentences(text: str, max_tokens: int) -> str:
    kept: list[str] = []
    for sentence in reversed(sentences(text)):
        if count_tokens(" ".join([sentence, *kept])) > max_tokens:
            break
        kept.insert(0, sentence)
    return " ".join(kept)
