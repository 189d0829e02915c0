"""The examples and the page about query understanding do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "query-understanding.md"


def run(*arguments: str) -> str:
    """Standard output of a Python process in the checkout; warnings are errors, as in the tests."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_understand_shows_every_form_of_three_languages() -> None:
    shown = run("examples/understand.py")

    assert "decomposer -> dense, graph, lexical  what does it cost?" in shown
    assert "decomposer -> dense, graph, lexical  qui les valide ?" in shown
    assert shown.count("rewriter ") == 1  # the rude rewriter's echoes are gone
    assert "Wie sieht der Dienstplan aus? rota roster" in shown


def test_working_memory_resolves_a_reply_only_where_there_is_one() -> None:
    assert run("examples/working_memory.py").splitlines() == [
        "searched: 'correct the branch on a paid invoice in Velmora Billing'",
        "  thread-7: resolve, fallback None",
        "searched: 'Yes please'",
        "  a thread without memory: raw, fallback no_memory",
    ]


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL))
def test_the_code_of_the_page_runs(block: str) -> None:
    run("-c", block)
