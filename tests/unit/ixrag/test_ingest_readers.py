"""Readers: what a visitor could be told, under its headings; and why a file cannot be read."""

from __future__ import annotations

import pytest
from sample_files import locked_pdf, pdf, word

from ixinfra.errors import DatasetError
from ixrag.ingest.document import Document
from ixrag.ingest.readers import FORMATS, read_document

MARKDOWN = """\
---
title: "The guide"
lang: fr
---
# The guide

Intro with **Brodal**, *shifts* and [prices](prices.md#now "t").

## Plans

- one
- two

| plan | price |
|---|---|
| Basic | 3 |

### Small print

Line one
line two.

```
code stays
```
<p>HTML <b>inside</b></p>
"""

PAGE = """\
<!doctype html><html lang="de-AT"><head><title>Brodal | Orvelle</title><script>var x = "no";</script></head>
<body><header><h1>Brodal</h1></header><nav><a href="/">Start</a></nav>
<main><p>Plans <strong>shifts</strong>,<br>and <a href="price.html">more</a>.</p>
<h2>Pri&shy;ces</h2><ul><li>Basic: 3</li><li>Full: 5</li></ul>
<table><tr><th>plan</th><th>price</th></tr><tr><td>Basic</td><td>3</td></tr></table>
<form><button>Buy</button></form><p hidden>secret</p></main>
<footer>Imprint</footer></body></html>
"""


def read(name: str, text: str | bytes) -> Document:
    return read_document(text.encode() if isinstance(text, str) else text, name)


def sections(document: Document) -> list[tuple[tuple[str, ...], str]]:
    return [(block.headings, block.text) for block in document.blocks]


def test_markdown_keeps_headings_lists_tables_and_code() -> None:
    document = read("guide.md", MARKDOWN)
    assert (document.title, document.lang) == ("The guide", "fr")
    assert sections(document) == [
        ((), "Intro with Brodal, shifts and prices."),
        (("Plans",), "- one\n- two\n\nplan | price\nBasic | 3"),
        (("Plans", "Small print"), "Line one line two.\n\ncode stays\n\nHTML inside"),
    ]
    assert document.blocks[0].terms == ("Brodal", "shifts")
    assert document.blocks[0].links == ("prices.md#now",)
    assert document.blocks[2].terms == ("inside",)


def test_markdown_without_a_heading_is_called_by_its_file() -> None:
    assert read("opening-hours_2026.md", "We open at nine.").title == "opening hours 2026"


def test_two_top_headings_are_headings_and_no_title() -> None:
    document = read("faq.md", "# Who?\n\nUs.\n\n# Where?\n\nHere.")
    assert document.title == "faq"
    assert sections(document) == [(("Who?",), "Us."), (("Where?",), "Here.")]


def test_a_page_is_read_without_menu_script_and_form() -> None:
    document = read("brodal.html", PAGE)
    assert (document.title, document.lang) == ("Brodal", "de")
    assert sections(document) == [
        ((), "Plans shifts, and more."),
        (("Prices",), "- Basic: 3\n- Full: 5\n\nplan | price\nBasic | 3"),
    ]
    assert document.blocks[0].terms == ("shifts",)
    assert document.blocks[0].links == ("price.html",)


def test_a_page_may_declare_another_encoding() -> None:
    page = '<html><head><meta charset="iso-8859-1"></head><body><p>Prix réduit</p></body></html>'
    assert read("p.html", page.encode("latin-1")).blocks[0].text == "Prix réduit"


def test_inline_tags_do_not_cut_words_and_blocks_do() -> None:
    document = read("p.html", "<div>Bro<b>dal</b> plans<div>shifts</div></div>")
    assert document.blocks[0].text == "Brodal plans\n\nshifts"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_of_any_unicode_encoding(encoding: str) -> None:
    document = read("note.txt", "Été\r\n\r\n\r\nà midi  \n".encode(encoding))
    assert document.blocks[0].text == "Été\n\nà midi"


def test_a_row_is_a_question_and_its_answer() -> None:
    document = read("faq.csv", 'Question;Answer;Id\n"Who ""we"" are?";"Orvelle;\nof Turin";7\n')
    assert sections(document) == [(('Who "we" are?',), "Orvelle;\nof Turin")]


def test_other_columns_are_said_too() -> None:
    document = read("prices.csv", "product,price,stock\nBrodal,3,\nLumquat,5,yes\n")
    assert sections(document) == [(("Brodal",), "price: 3"), (("Lumquat",), "price: 5\nstock: yes")]


def test_json_lines_may_hold_line_separators_and_lists() -> None:
    line = '{"id": 1, "title": "Brodal", "text": "a\u2028b", "tags": ["x", "y"], "price": 3, "on": true, "lang": "fr"}'
    document = read("rows.jsonl", f"{line}\n\n")
    assert sections(document) == [(("Brodal",), "a\u2028b\n\ntags: x, y\nprice: 3")]
    assert document.lang == "fr"


def test_a_pdf_page_flows_and_words_cut_at_line_ends_are_joined() -> None:
    document = read(
        "manual.pdf", pdf("Brodal plans the shi-\nfts of a shop.", "Second page.", title="Manual")
    )
    assert document.title == "Manual"
    assert [block.text for block in document.blocks] == ["Brodal plans the shifts of a shop.", "Second page."]


def test_a_word_file_keeps_headings_lists_and_tables() -> None:
    parts = [("Normal", "Intro."), ("Heading 1", "Plans"), ("List Bullet", "one"), ("List Bullet", "two")]
    document = read("plans.docx", word("Our plans", parts, [("Basic", "3"), ("Full", "5")]))
    assert document.title == "Our plans"
    assert sections(document) == [
        ((), "Intro."),
        (("Plans",), "- one\n- two\n\nBasic | 3\nFull | 5"),
    ]


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        pytest.param(
            "a.txt", "é".encode("latin-1"), "line 1 is not utf-8; save the file as UTF-8", id="latin-1"
        ),
        pytest.param("a.txt", b"a\0b", "not a text file", id="binary"),
        pytest.param("a.txt", b" \n\n", "no text in it", id="blank"),
        pytest.param("a.md", b"", "no text in it", id="empty"),
        pytest.param("a.html", b"<nav>Home</nav>", "no text in it", id="menu alone"),
        pytest.param(
            "a.html", b'<meta charset="klingon"><p>x', "unknown encoding 'klingon'", id="unknown encoding"
        ),
        pytest.param("a.jsonl", b'{"a": "b"}\n{"a"', "line 2 is not JSON", id="cut JSON"),
        pytest.param("a.jsonl", b"[1]", "line 1: expected an object, got list", id="list"),
        pytest.param("a.csv", b"a,b\n", "no row below the header", id="header alone"),
        pytest.param("a.csv", b"a,b\n1,2,3\n", "line 2 has 3 fields, the header 2", id="too many fields"),
        pytest.param("a.csv", b"a,a\n1,2\n", "name every column once", id="same column twice"),
        pytest.param("a.csv", b'a,b\n1,"2\n', "unexpected end of data", id="open quote"),
        pytest.param("a.pdf", b"%PDF-1.4 oops", "not a PDF that can be read", id="broken PDF"),
        pytest.param("a.pdf", locked_pdf(), "locked by a password", id="locked PDF"),
        pytest.param("a.pdf", pdf(""), "a scan needs text recognition", id="scan"),
        pytest.param("a.docx", b"PK\x03\x04", "not a Word file that can be read", id="broken Word file"),
        pytest.param("a.html", b"<div>" * 5000 + b"x", "nested too deeply", id="deep"),
    ],
)
def test_a_bad_file_says_why(name: str, data: bytes, reason: str) -> None:
    with pytest.raises(DatasetError) as error:
        read(name, data)
    assert reason in str(error.value)


def test_every_known_suffix_has_a_reader() -> None:
    for suffix in FORMATS:
        with pytest.raises(DatasetError):
            read(f"empty{suffix.upper()}", b"")
