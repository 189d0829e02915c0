"""PDF files with text in them; a scan has none."""

from __future__ import annotations

import io
import logging
import re

from pypdf import PdfReader
from pypdf.errors import PdfReadError, PyPdfError

from ixinfra.errors import DatasetError
from ixrag.ingest.document import Block, Document
from ixrag.ingest.outline import one_line
from ixrag.ingest.readers.plain import tidy, title_of

_HYPHEN = re.compile(r"(?<=[^\W\d_])[-\u00ad]\n(?=[^\W\d_])")
_LINE_END = re.compile(r"(?<!\n)\n(?!\n)")
_INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f]")

logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of every small fault of a file


def read(data: bytes, name: str) -> Document:
    """One block a page; words cut at line ends are joined."""
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise DatasetError("locked by a password")
        pages = [page.extract_text() for page in reader.pages]
        title = one_line(str((reader.metadata and reader.metadata.title) or ""))
    except DatasetError:
        raise
    except (PdfReadError, PyPdfError) as error:
        raise DatasetError(f"not a PDF that can be read ({error})") from None
    except Exception as error:  # a damaged file breaks pypdf in many ways
        raise DatasetError(f"not a PDF that can be read ({type(error).__name__})") from None
    blocks = [Block(text=text) for page in pages if (text := _flowing(page))]
    if pages and not blocks:
        raise DatasetError("no text in it: a scan needs text recognition (OCR) first")
    return Document(title=title or title_of(name), blocks=tuple(blocks))


def _flowing(page: str) -> str:
    text = tidy(_INVISIBLE.sub(" ", page))
    return _LINE_END.sub(" ", _HYPHEN.sub("", text))
