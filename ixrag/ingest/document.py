"""What a reader makes of a file: its text under its headings, and what the author marked in it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Block(BaseModel):
    """Text under one path of headings.

    Attributes:
        headings: Outermost first; the document's title is not among them.
        text: Paragraphs, an empty line between them.
        terms: What the author set in bold, in italics or as a term to be explained.
        links: Targets of links, as written.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    headings: tuple[str, ...] = ()
    text: str
    terms: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


class Document(BaseModel):
    """A file that has been read. `lang` is an ISO 639 code where the file says so, else ""."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    blocks: tuple[Block, ...]
    lang: str = ""
