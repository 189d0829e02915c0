"""The short version of `benchmarks/soak.py`: nothing piles up over a few thousand turns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory and descriptors from /proc")
def test_nothing_piles_up_over_two_thousand_turns() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.soak", "--turns", "2000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing piled up" in done.stdout
