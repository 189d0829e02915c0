"""Word files (.docx): paragraphs, headings by their style, tables, bold and italic words, links."""

from __future__ import annotations

import io
import re
import zipfile

import docx
from docx.opc.exceptions import PackageNotFoundError
from docx.table import Table
from docx.text.paragraph import Paragraph

from ixinfra.errors import DatasetError
from ixrag.ingest.document import Document
from ixrag.ingest.outline import Outline
from ixrag.ingest.readers.plain import title_of

_HEADING = re.compile(r"(?:heading|titre|überschrift|título|titolo) ?(\d)", re.IGNORECASE)
MAX_UNPACKED_MB = 500


def read(data: bytes, name: str) -> Document:
    """A paragraph of style Title, or else the file's own title, is the title."""
    outline = Outline()
    title = ""
    try:
        _expect_small(data)
        file = docx.Document(io.BytesIO(data))
        for part in file.iter_inner_content():
            if isinstance(part, Table):
                _table(part, outline)
            elif _style(part) == "Title" and not title:
                title = part.text
            else:
                _paragraph(part, outline)
    except (PackageNotFoundError, zipfile.BadZipFile, KeyError, ValueError) as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(f"not a Word file that can be read ({type(error).__name__})") from None
    return outline.document(title or file.core_properties.title, title_of(name))


def _expect_small(data: bytes) -> None:
    unpacked = sum(item.file_size for item in zipfile.ZipFile(io.BytesIO(data)).infolist())
    if unpacked > MAX_UNPACKED_MB * 1_000_000:
        raise DatasetError(f"{unpacked / 1e6:.0f} MB unpacked, more than {MAX_UNPACKED_MB}")


def _paragraph(paragraph: Paragraph, outline: Outline) -> None:
    style = _style(paragraph)
    if match := _HEADING.match(style):
        outline.heading(int(match.group(1)), paragraph.text)
        return
    terms = [run.text for run in paragraph.runs if run.bold or run.italic]
    links = [link.url for link in paragraph.hyperlinks]
    if terms == [paragraph.text]:
        terms = []  # a whole line in bold stresses; it names nothing
    outline.paragraph(paragraph.text, terms, links, bullet=style.startswith("List"))


def _table(table: Table, outline: Outline) -> None:
    for row in table.rows:
        for cell in dict.fromkeys(row.cells):  # a merged cell comes once for each column it spans
            outline.cell(cell.text)
        outline.end_row()


def _style(paragraph: Paragraph) -> str:
    return (paragraph.style.name or "") if paragraph.style else ""
