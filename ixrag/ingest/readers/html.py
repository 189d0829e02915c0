"""Web pages: the main part of the page, without scripts, menus and forms."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from selectolax.lexbor import LexborHTMLParser, LexborNode

from ixrag.ingest.document import Document
from ixrag.ingest.outline import Outline
from ixrag.ingest.readers.plain import decoded, title_of

# A heading in <header> is often the page's title; a <header> without one is a menu.
LEFT_OUT = (
    "script, style, template, noscript, svg, iframe, object, nav, footer, aside, form, button, select, dialog, "
    "[hidden], [aria-hidden=true], [role=navigation]"
)
BLOCKS = frozenset(
    {"address", "article", "blockquote", "body", "caption", "center", "dd", "details", "div", "dl", "dt"}
    | {"fieldset", "figcaption", "figure", "header", "hr", "li", "main", "ol", "p", "pre", "section"}
    | {"summary", "table", "tbody", "tfoot", "thead", "tr", "td", "th", "ul", "br"}
)
TERMS = frozenset({"b", "strong", "em", "i", "dfn", "dt"})
_HEADING = re.compile(r"h[1-6]")
_CHARSET = re.compile(rb"<meta[^>]{0,200}charset=[\"']?([\w-]{2,40})", re.IGNORECASE)


def read(data: bytes, name: str) -> Document:
    """`<main>` or else `<body>`; the title is the first heading or the page's `<title>`."""
    declared = _CHARSET.search(data[:4096])
    page = LexborHTMLParser(decoded(data, declared.group(1).decode() if declared else ""))
    title = page.css_first("title")
    root = page.css_first("html")
    lang = (root.attributes.get("lang") or "") if root else ""
    outline = Outline()
    _read_page(page, outline)
    first = page.css_first("h1")
    titles = [node.text(strip=True) for node in (first, title) if node]
    return outline.document(next(filter(None, titles), ""), title_of(name), lang)


def read_into(outline: Outline, html: str) -> None:
    """A piece of a page, such as HTML inside Markdown."""
    _read_page(LexborHTMLParser(html), outline)


def _read_page(page: LexborHTMLParser, outline: Outline) -> None:
    for node in page.css(LEFT_OUT):
        node.decompose()
    mains = page.css("main, [role=main]")
    start = mains[0] if len(mains) == 1 else page.body
    if start:
        walk = _Walk(outline)
        walk.node(start)
        walk.end_paragraph()


@dataclass(slots=True)
class _Walk:
    """One pass through a page; inline text is gathered until a block begins or ends."""

    outline: Outline
    parts: list[str] = field(default_factory=list)
    terms: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    lists: int = 0

    def node(self, node: LexborNode) -> None:
        tag = node.tag or ""
        if tag == "-text":
            self.parts.append(node.text_content or "")
            return
        if tag == "a" and (href := node.attributes.get("href")):
            self.links.append(href)
        if tag == "img" and (alt := node.attributes.get("alt")):
            self.parts.append(alt)
        if _HEADING.fullmatch(tag):
            self.end_paragraph()
            self.outline.heading(int(tag[1]), node.text())
            return
        if tag in TERMS:
            self.terms.append(node.text())
        if tag not in BLOCKS:
            self.children(node)
            return
        self.block(tag, node)

    def block(self, tag: str, node: LexborNode) -> None:
        if tag == "br":
            self.parts.append(" ")
            return
        if tag in ("td", "th"):
            self.children(node)
            self.outline.cell(*self.taken())
            return
        self.end_paragraph()
        self.lists += tag in ("ul", "ol")
        self.children(node)
        self.end_paragraph(bullet=self.lists > 0)
        self.lists -= tag in ("ul", "ol")
        if tag == "tr":
            self.outline.end_row()

    def children(self, node: LexborNode) -> None:
        child = node.child
        while child is not None:
            self.node(child)
            child = child.next

    def end_paragraph(self, *, bullet: bool = False) -> None:
        text, terms, links = self.taken()
        self.outline.paragraph(text, terms, links, bullet=bullet)

    def taken(self) -> tuple[str, list[str], list[str]]:
        text, terms, links = " ".join("".join(self.parts).split()), self.terms, self.links
        self.parts, self.terms, self.links = [], [], []
        return text, terms, links
