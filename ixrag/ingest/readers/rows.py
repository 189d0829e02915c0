"""JSON lines and CSV: a row is a passage of its own, such as a question and its answer."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from ixinfra.errors import DatasetError
from ixrag.ingest.document import Block, Document
from ixrag.ingest.outline import one_line
from ixrag.ingest.readers.plain import decoded, tidy, title_of

TITLES = ("title", "question", "name", "heading", "subject")
TEXTS = ("text", "answer", "content", "body", "description", "passage")
ASIDE = frozenset({"id", "lang", "language", "source", "url"})  # not said to a visitor
MAX_ROWS = 100_000


def read(data: bytes, name: str) -> Document:
    """A row's title is its column `title`, `question` or the like; its text the column `text`, `answer` or
    the like, and any other column as `column: value`."""
    suffix = PurePath(name).suffix.lower()
    text = decoded(data)
    rows = list(_lines(text) if suffix in (".jsonl", ".ndjson") else _table(text, suffix))
    languages = {str(row.get("lang") or row.get("language") or "").lower()[:2] for row in rows}
    blocks = tuple(block for row in rows if (block := _block(row)))
    lang = languages.pop() if len(languages) == 1 else ""
    return Document(title=title_of(name), blocks=blocks, lang=lang)


def _lines(text: str) -> Iterator[dict[str, Any]]:
    # Not `splitlines`: JSON text may hold U+2028.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DatasetError(f"line {number} is not JSON ({error})") from None
        if not isinstance(row, dict):
            raise DatasetError(f"line {number}: expected an object, got {type(row).__name__}")
        _expect_few(number)
        yield {str(key).strip().lower(): value for key, value in row.items()}


def _table(text: str, suffix: str) -> Iterator[dict[str, Any]]:
    header, _, rest = text.partition("\n")
    if not rest.strip():
        raise DatasetError("no row below the header")
    delimiter = "\t" if suffix == ".tsv" else max(",;\t|", key=header.count)
    rows = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    try:
        columns = [name.strip().lower() for name in next(rows)]
        if len(set(columns)) < len(columns) or not all(columns):
            raise DatasetError(f"the first line must name every column once, got {columns}")
        for row in rows:
            _expect_few(rows.line_num)
            if len(row) > len(columns):
                raise DatasetError(f"line {rows.line_num} has {len(row)} fields, the header {len(columns)}")
            yield dict(zip(columns, row, strict=False))
    except csv.Error as error:
        raise DatasetError(f"line {rows.line_num}: {error}") from None


def _expect_few(number: int) -> None:
    if number > MAX_ROWS:
        raise DatasetError(f"more than {MAX_ROWS} rows: split it")


def _block(row: Mapping[str, Any]) -> Block | None:
    title_key = next((key for key in TITLES if _said(row.get(key))), "")
    text_key = next((key for key in TEXTS if _said(row.get(key))), "")
    if not title_key and not text_key:
        title_key = next((key for key, value in row.items() if _said(value) and key not in ASIDE), "")
    others = _others(row, {title_key, text_key} | ASIDE)
    text = "\n\n".join(filter(None, [tidy(_said(row.get(text_key))), "\n".join(others)]))
    title = one_line(_said(row.get(title_key)))
    if not text:
        title, text = "", title
    return Block(headings=(title,) if title else (), text=text) if text else None


def _others(row: Mapping[str, Any], left_out: Iterable[str]) -> list[str]:
    return [
        f"{key}: {one_line(said)}"
        for key, value in row.items()
        if key not in left_out and (said := _said(value))
    ]


def _said(value: Any) -> str:
    """A value as text; nothing for what is empty or has parts of its own."""
    if isinstance(value, list):
        return ", ".join(filter(None, map(_said, value)))
    if value is None or isinstance(value, dict | bool):
        return ""
    return str(value).strip()
