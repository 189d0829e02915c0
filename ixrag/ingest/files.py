"""Which files are meant by the paths that were given."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ixinfra.errors import DatasetError
from ixrag.ingest.readers import FORMATS


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to read.

    Attributes:
        path: Absolute.
        root: The given path that led to it, absolute; itself for a file that was given.
        source: What its passages are called by: the path from the root's name on.
    """

    path: Path
    root: Path
    source: str


@dataclass(frozen=True, slots=True)
class Found:
    """What the given paths lead to, in a fixed order; `ignored` counts files of other kinds by suffix."""

    files: tuple[FoundFile, ...]
    roots: tuple[Path, ...]
    ignored: Counter[str]


def find_files(paths: Sequence[Path]) -> Found:
    """Walk the given folders. Hidden files and folders are left out; links to folders are not followed.

    Raises:
        DatasetError: A path does not exist, or a file that was given is of an unknown kind.
    """
    roots = tuple(dict.fromkeys(path.expanduser().resolve() for path in paths))
    files: dict[Path, FoundFile] = {}
    ignored: Counter[str] = Counter()
    for root in roots:
        if root.is_file():
            _expect_known(root)
            files.setdefault(root, FoundFile(root, root, root.name))
        elif root.is_dir():
            for path in _walk(root):
                if path.suffix.lower() in FORMATS:
                    source = f"{root.name}/{path.relative_to(root).as_posix()}"
                    files.setdefault(path, FoundFile(path, root, source))
                else:
                    ignored[path.suffix.lower() or path.name] += 1
        else:
            raise DatasetError(f"{root}: no such file or folder; `--forget` takes out what came from it")
    return Found(tuple(files.values()), roots, ignored)


def is_inside(path: Path, root: Path) -> bool:
    """Whether `path` is `root` or lies in it."""
    return path == root or root in path.parents


def _walk(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            if not name.startswith(".") and path.is_file():
                yield path


def _expect_known(path: Path) -> None:
    if path.suffix.lower() not in FORMATS:
        raise DatasetError(f"{path}: a file of this kind is not read; known are {' '.join(sorted(FORMATS))}")
