"""Collects headings, paragraphs and rows in reading order into the blocks of a document."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ixrag.ingest.document import Block, Document

_BLANKS = re.compile(r"[^\S\n]+")
_UNSEEN = re.compile("[\u00ad\u200b\u2060\ufeff]")  # where a browser may break a word


@dataclass(slots=True)
class Outline:
    """Feed it what a file holds, from top to bottom."""

    _headings: list[tuple[int, str]] = field(default_factory=list)
    _blocks: list[Block] = field(default_factory=list)
    _paragraphs: list[str] = field(default_factory=list)
    _terms: list[str] = field(default_factory=list)
    _links: list[str] = field(default_factory=list)
    _row: list[str] = field(default_factory=list)

    def heading(self, level: int, text: str) -> None:
        """A heading; what follows stands under it. Level 1 is the highest."""
        self._end_block()
        if text := one_line(text):
            self._headings = [(above, title) for above, title in self._headings if above < level]
            self._headings.append((level, text))

    def paragraph(
        self, text: str, terms: Iterable[str] = (), links: Iterable[str] = (), *, bullet: bool = False
    ) -> None:
        """A paragraph, or an entry of a list, which stays with the entries around it."""
        if not text.strip():
            return
        text = _BLANKS.sub(" ", visible(text)).strip()
        follows = bullet and self._paragraphs and self._paragraphs[-1].startswith("- ")
        if follows:
            self._paragraphs[-1] += f"\n- {text}"
        else:
            self._paragraphs.append(f"- {text}" if bullet else text)
        self._mark(terms, links)

    def cell(self, text: str, terms: Iterable[str] = (), links: Iterable[str] = ()) -> None:
        """A cell of a table; the row is a paragraph's line."""
        self._row.append(one_line(text))
        self._mark(terms, links)

    def end_row(self) -> None:
        """The row is complete."""
        row, self._row = " | ".join(cell for cell in self._row if cell), []
        if not row:
            return
        if self._paragraphs and " | " in self._paragraphs[-1].rpartition("\n")[2]:
            self._paragraphs[-1] += f"\n{row}"
        else:
            self._paragraphs.append(row)

    def document(self, title: str, fallback: str, lang: str = "") -> Document:
        """What was collected. Without a title, the first heading is it if it stands alone at the top."""
        self.end_row()
        self._end_block()
        blocks = tuple(self._blocks)
        first = {block.headings[:1] for block in blocks}
        if len(first) == 1 and (only := first.pop()) and title in ("", *only):
            title = only[0]
            blocks = tuple(block.model_copy(update={"headings": block.headings[1:]}) for block in blocks)
        return Document(title=one_line(title) or fallback, blocks=blocks, lang=lang.strip().lower()[:2])

    def _mark(self, terms: Iterable[str], links: Iterable[str]) -> None:
        self._terms += [term for term in map(one_line, terms) if term]
        self._links += [link for link in links if link]

    def _end_block(self) -> None:
        if self._paragraphs:
            self._blocks.append(
                Block(
                    headings=tuple(title for _, title in self._headings),
                    text="\n\n".join(self._paragraphs),
                    terms=tuple(dict.fromkeys(self._terms)),
                    links=tuple(dict.fromkeys(self._links)),
                )
            )
        self._paragraphs, self._terms, self._links = [], [], []


def one_line(text: str) -> str:
    """`text` with every run of blanks and line ends as one blank."""
    return " ".join(visible(text).split())


def visible(text: str) -> str:
    """`text` without soft hyphens and blanks of no width, which would part a word from itself."""
    return _UNSEEN.sub("", text)
