"""Fixtures every test may use."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
for name in [name for name in os.environ if name.startswith(("LANGFUSE_", "IX_", "OTEL_"))]:
    del os.environ[name]  # a developer's own keys must not reach a test

sys.path.insert(0, str(Path(__file__).parent))  # fakes.py and the loopback servers
