"""Fixtures every test may use."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
for name in [name for name in os.environ if name.startswith(("LANGFUSE_", "IX_", "OTEL_"))]:
    del os.environ[name]  # a developer's own keys must not reach a test

sys.path.insert(0, str(Path(__file__).parent))  # fakes.py and the loopback servers

# The same examples on every machine, and no verdict on its speed. `--hypothesis-profile=thorough` looks further.
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=100)
settings.register_profile("thorough", deadline=None, max_examples=5_000)
settings.load_profile("ci")
