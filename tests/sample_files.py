"""Small files of every kind that ingest reads, about an invented company."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import docx
from pypdf import PdfWriter


def pdf(*pages: str, title: str = "") -> bytes:
    """A PDF with one line of text a page, written by hand: pypdf reads text but draws none."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    kids = []
    for text in pages:
        lines = " T* ".join(f"({line}) Tj" for line in text.split("\n"))
        stream = f"BT /F1 12 Tf 14 TL 72 700 Td {lines} ET".encode("latin-1")
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects)
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    objects.append(b"<< /Title (%s) >>" % title.encode())
    file, places = io.BytesIO(), []
    file.write(b"%PDF-1.4\n")
    for number, body in enumerate(objects, start=1):
        places.append(file.tell())
        file.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = file.tell()
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    file.write(b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, rows))
    file.write(
        b"trailer\n<< /Size %d /Root 1 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF\n"
        % (len(objects) + 1, len(objects), start)
    )
    return file.getvalue()


def locked_pdf() -> bytes:
    """A PDF that wants a password."""
    writer, file = PdfWriter(), io.BytesIO()
    writer.add_blank_page(100, 100)
    writer.encrypt("sesame")
    writer.write(file)
    return file.getvalue()


def word(title: str, parts: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]] = ()) -> bytes:
    """A Word file: `(style, text)` for each paragraph, then a table."""
    document, file = docx.Document(), io.BytesIO()
    document.add_paragraph(title, style="Title")
    for style, text in parts:
        document.add_paragraph(text, style=style)
    if rows:
        table = document.add_table(len(rows), len(rows[0]))
        for row, cells in zip(table.rows, rows, strict=True):
            for cell, text in zip(row.cells, cells, strict=True):
                cell.text = text
    document.save(file)
    return file.getvalue()


def mixed_folder(folder: Path, files: int) -> None:
    """A public-style folder: pages, notes, tables, manuals, with links between them, and three bad files.

    File number `n` is about the product `Kelvara<n>`, which costs `n` euros and needs the one before it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        part = folder / f"part{number % 5}"
        part.mkdir(exist_ok=True)
        name, before = f"Kelvara{number}", f"Kelvara{max(number - 1, 0)}"
        says = f"{name} is a module of Orvelle. It costs {number} euros a month. In every shop {name} needs {before}."
        kind = _kind(number)
        (part / f"page{number}.{kind}").write_bytes(_content(kind, name, says, number))
    (folder / "broken.jsonl").write_text('{"text": "no end', encoding="utf-8")
    (folder / "old.txt").write_bytes("Prix réduit".encode("latin-1"))
    (folder / "cut.docx").write_bytes(b"PK\x03\x04 not a zip any more")
    (folder / "logo.png").write_bytes(b"\x89PNG\r\n")
    (folder / ".hidden.md").write_text("# Secret", encoding="utf-8")


def _kind(number: int) -> str:
    return ("md", "html", "txt", "csv", "jsonl", "md", "html", "docx", "pdf", "txt")[number % 10]


def _content(kind: str, name: str, says: str, number: int) -> bytes:
    match kind:
        case "md":
            link = f"[the one before](../part{(number - 1) % 5}/page{number - 1}.{_kind(number - 1)})"
            return f"# {name}\n\n{says} See {link}.\n\n## Support\n\nCall us about **{name}**.\n".encode()
        case "html":
            return (
                f"<html lang=en><head><title>{name} – Orvelle</title><style>p {{}}</style></head><body><nav>Home</nav>"
                f"<main><h1>{name}</h1><p>{says}</p><table><tr><td>price<td>{number}</table></main></body></html>"
            ).encode()
        case "csv":
            return f"question,answer\nWhat is {name}?,{says}\nWho sells {name}?,Orvelle does.\n".encode()
        case "jsonl":
            return f'{{"title": "{name}", "text": "{says}", "price": {number}}}\n'.encode()
        case "pdf":
            return pdf(says.replace(". ", ".\n"), title=name)
        case "docx":
            return word(name, [("Heading 1", "About"), ("Normal", says)], [("price", str(number))])
    return f"{name}\n\n{says}\n".encode()
