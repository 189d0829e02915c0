"""One reader a format: bytes in, a `Document` out, or a `DatasetError` that says what is wrong."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import PurePath

from ixinfra.errors import DatasetError, MissingExtraError
from ixrag.ingest.document import Document

READER_VERSION = 1  # raise it when a reader reads differently: every file is then read again
MAX_FILE_MB = 50
PACKAGES = {"selectolax": "ingest", "markdown_it": "ingest", "pypdf": "documents", "docx": "documents"}

FORMATS = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "plain",
    ".text": "plain",
    ".html": "html",
    ".htm": "html",
    ".jsonl": "rows",
    ".ndjson": "rows",
    ".csv": "rows",
    ".tsv": "rows",
    ".pdf": "pdf",
    ".docx": "word",
}
"""The module that reads files of each suffix."""


def read_document(data: bytes, name: str) -> Document:
    """Read one file.

    Args:
        data: Its content.
        name: Its name; the suffix says the format, the stem is the title of last resort.

    Raises:
        DatasetError: It cannot be read; the message is the reason alone, without the name.
        MissingExtraError: The package for its format is not installed.
    """
    if len(data) > MAX_FILE_MB * 1_000_000:
        raise DatasetError(f"{len(data) / 1e6:.0f} MB, more than {MAX_FILE_MB}: split it")
    try:
        document = _reader(PurePath(name).suffix.lower())(data, name)
    except RecursionError:
        raise DatasetError("nested too deeply") from None
    if not any(block.text.strip() for block in document.blocks):
        raise DatasetError("no text in it")
    return document


def _reader(suffix: str) -> Callable[[bytes, str], Document]:
    try:
        module = importlib.import_module(f"{__name__}.{FORMATS[suffix]}")
    except ModuleNotFoundError as error:
        extra = PACKAGES.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise MissingExtraError(
            f"{suffix} files need the package {error.name!r}: pip install 'ixchat[{extra}]'"
        ) from None
    read: Callable[[bytes, str], Document] = module.read
    return read
