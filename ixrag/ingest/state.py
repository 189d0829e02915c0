"""What ingest remembers of a knowledge base: every file it read, every vector it paid for.

One SQLite file beside the index. It is written as the work goes on, so a killed run is taken up where it
stopped; it is locked while it is open, so that two runs do not build against each other.
"""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ixinfra.embeddings import Vectors
from ixinfra.errors import KnowledgeBaseError
from ixrag.ingest.document import Document

_TABLES = """
CREATE TABLE IF NOT EXISTS facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY, source TEXT NOT NULL, digest TEXT NOT NULL, document TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS vectors (
    model TEXT, key BLOB, vector BLOB NOT NULL, PRIMARY KEY (model, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS answers (
    model TEXT, key BLOB, answer TEXT NOT NULL, PRIMARY KEY (model, key)
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file as it was read last; `digest` changes with its content and with the reader."""

    path: Path
    source: str
    digest: str
    document: Document


class IngestState:
    """The record of one knowledge base. Close it; one at a time.

    Args:
        path: The SQLite file; made where it is missing.

    Raises:
        KnowledgeBaseError: Another run has it open, or it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=0.2, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")  # a power cut may cost the last writes, no more
            self._db.executescript(_TABLES)
            self._db.execute("INSERT OR IGNORE INTO facts VALUES ('id', ?)", [secrets.token_hex(8)])
        except (sqlite3.Error, OSError) as error:
            if "locked" in str(error):
                raise KnowledgeBaseError(f"another `ix ingest` is at work on {path.parent.name!r}") from None
            raise KnowledgeBaseError(f"{path} cannot be used ({error}); move it away to begin anew") from None

    def close(self) -> None:
        """Give the file free for another run."""
        self._db.close()

    @property
    def id(self) -> str:
        """Told in the manifest of what is built from this record."""
        return self.fact("id")

    def fact(self, key: str) -> str:
        """A remembered text, "" where there is none."""
        row = self._all("SELECT value FROM facts WHERE key = ?", [key])
        return str(row[0][0]) if row else ""

    def set_fact(self, key: str, value: str) -> None:
        """Remember a text."""
        self._run("INSERT OR REPLACE INTO facts VALUES (?, ?)", [(key, value)])

    def files(self) -> list[KnownFile]:
        """Every known file, by source."""
        rows = self._all("SELECT path, source, digest, document FROM files ORDER BY source, path")
        return [
            KnownFile(Path(path), source, digest, Document.model_validate_json(document))
            for path, source, digest, document in rows
        ]

    def digests(self) -> dict[Path, tuple[str, str]]:
        """Source and digest of every known file, without its text."""
        rows = self._all("SELECT path, source, digest FROM files ORDER BY source, path")
        return {Path(path): (source, digest) for path, source, digest in rows}

    def put_file(self, file: KnownFile) -> None:
        """Remember a file, in place of an earlier reading of it."""
        row = (str(file.path), file.source, file.digest, file.document.model_dump_json())
        self._run("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", [row])

    def forget_files(self, paths: Iterable[Path]) -> None:
        """Forget files, not their vectors."""
        self._run("DELETE FROM files WHERE path = ?", [(str(path),) for path in paths])

    def vectors(self, model: str, texts: Sequence[str], dim: int) -> dict[str, Vectors]:
        """The known vectors of some texts."""
        return {
            text: np.frombuffer(vector, np.float32)
            for text in dict.fromkeys(texts)
            for (vector,) in self._all(
                "SELECT vector FROM vectors WHERE model = ? AND key = ?", [model, text_digest(text)]
            )
            if len(vector) == 4 * dim
        }

    def put_vectors(self, model: str, vectors: Mapping[str, Vectors]) -> None:
        """Remember vectors, in one step."""
        rows = [(model, text_digest(text), row.astype(np.float32).tobytes()) for text, row in vectors.items()]
        self._run("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def keep_vectors(self, model: str, keys: set[bytes]) -> None:
        """Forget every vector of a text that is not among those of the newest build, and other models'."""
        known = self._all("SELECT model, key FROM vectors")
        old = [row for row in known if row[0] != model or bytes(row[1]) not in keys]
        self._run("DELETE FROM vectors WHERE model = ? AND key = ?", old)

    def answer(self, model: str, prompt: str) -> str | None:
        """What a model answered to this prompt before."""
        rows = self._all(
            "SELECT answer FROM answers WHERE model = ? AND key = ?", [model, text_digest(prompt)]
        )
        return str(rows[0][0]) if rows else None

    def put_answer(self, model: str, prompt: str, answer: str) -> None:
        """Remember an answer."""
        self._run("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", [(model, text_digest(prompt), answer)])

    def _all(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._lock:
            return self._db.execute(sql, values).fetchall()

    def _run(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        with self._lock:
            self._db.execute("BEGIN")
            self._db.executemany(sql, rows)
            self._db.execute("COMMIT")


async def open_state(path: Path) -> IngestState:
    """Open the record in a thread."""
    return await asyncio.to_thread(IngestState, path)


def text_digest(text: str) -> bytes:
    """Sixteen bytes that stand for a text."""
    return sha256(text.encode("utf-8", "replace")).digest()[:16]
