"""Markdown, as CommonMark with tables: headings, emphasised words and links are kept apart from the text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ixrag.ingest.document import Document
from ixrag.ingest.outline import Outline
from ixrag.ingest.readers.html import read_into
from ixrag.ingest.readers.plain import decoded, title_of

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_KEY = re.compile(r"^(title|lang|language):[ \t]*(.+?)[ \t]*$", re.MULTILINE)

_PARSER = MarkdownIt("commonmark").enable("table")


def read(data: bytes, name: str) -> Document:
    """The first heading is the title, unless the front matter has one."""
    text = decoded(data)
    front: dict[str, str] = {}
    if match := _FRONT_MATTER.match(text):
        front = {key: value.strip("\"'") for key, value in _FRONT_KEY.findall(match.group(1))}
        text = text[match.end() :]
    outline = Outline()
    _walk(_PARSER.parse(text), outline)
    lang = front.get("lang") or front.get("language") or ""
    return outline.document(front.get("title", ""), title_of(name), lang)


def _walk(tokens: Sequence[Token], outline: Outline) -> None:
    lists: list[str] = []
    for position, token in enumerate(tokens):
        match token.type:
            case "inline":
                text, terms, links = _inline(token)
                if tokens[position - 1].type == "heading_open":
                    outline.heading(int(tokens[position - 1].tag[1]), text)
                elif tokens[position - 1].type in ("th_open", "td_open"):
                    outline.cell(text, terms, links)
                else:
                    outline.paragraph(text, terms, links, bullet=bool(lists))
            case "bullet_list_open" | "ordered_list_open":
                lists.append(token.type)
            case "bullet_list_close" | "ordered_list_close":
                lists.pop()
            case "tr_close":
                outline.end_row()
            case "fence" | "code_block":
                outline.paragraph(token.content.rstrip())
            case "html_block":
                read_into(outline, token.content)


def _inline(token: Token) -> tuple[str, list[str], list[str]]:
    """Text, emphasised words and link targets of one run of inline markup."""
    parts: list[str] = []
    terms: list[str] = []
    links: list[str] = []
    starts: list[int] = []
    for child in token.children or ():
        match child.type:
            case "text" | "code_inline":
                parts.append(child.content)
            case "softbreak" | "hardbreak":
                parts.append("\n" if child.type == "hardbreak" else " ")
            case "strong_open" | "em_open":
                starts.append(len(parts))
            case "strong_close" | "em_close":
                terms.append("".join(parts[starts.pop() :]))
            case "link_open":
                links.append(str(child.attrGet("href") or ""))
            case "image":
                parts.append(child.content)
    return "".join(parts), terms, links
