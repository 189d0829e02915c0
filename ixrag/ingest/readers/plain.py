"""Text without markup."""

from __future__ import annotations

import re
from pathlib import PurePath

from ixinfra.errors import DatasetError
from ixrag.ingest.document import Block, Document
from ixrag.ingest.outline import visible

_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
_PARAGRAPH = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")


def read(data: bytes, name: str) -> Document:
    """One block; the title is the file's name."""
    return Document(title=title_of(name), blocks=(Block(text=tidy(decoded(data))),))


def decoded(data: bytes, declared: str = "") -> str:
    """The text of a file: UTF-8, UTF-16 with a byte order mark, or what the file declares.

    Raises:
        DatasetError: It is none of these. Guessing would index broken words.
    """
    marked = next((encoding for mark, encoding in _MARKS.items() if data.startswith(mark)), "")
    try:
        text = data.decode(marked or declared or "utf-8")
    except LookupError:
        raise DatasetError(f"unknown encoding {declared!r}") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DatasetError(f"line {line} is not {error.encoding}; save the file as UTF-8") from None
    if "\0" in text:
        raise DatasetError("not a text file")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def tidy(text: str) -> str:
    """Lines without blanks at their ends, paragraphs one empty line apart."""
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return _PARAGRAPH.sub("\n\n", visible(lines)).strip()


def title_of(name: str) -> str:
    """A title from a file's name: `opening-hours_2026.txt` gives `opening hours 2026`."""
    stem = PurePath(name).stem
    return re.sub(r"[-_\s]+", " ", stem).strip() or stem
