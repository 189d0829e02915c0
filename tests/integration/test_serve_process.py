"""`ix serve` as an operator runs it: a process on the sample knowledge base, and its end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from ixchat.commands import serve as serve_command
from ixinfra.config.loader import get_config
from ixinfra.errors import ConfigError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
TURN = {
    "tenant": "advanced",
    "message": "Which retailers already run it?",
    "history": [
        {"role": "user", "content": "Do you have a tool that keeps track of stock?"},
        {"role": "assistant", "content": "Yes, Stokarel counts stock and deliveries."},
    ],
}


class Process:
    """`ix serve` on a free port; `log` is all it has written."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.log: list[str] = []
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "ixchat.cli", "serve", "--port", "0", *arguments],
            env={
                **os.environ,
                "IX_LIGHTRAG__WORKING_DIR": str(folder),
                "OMP_NUM_THREADS": "1",
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        self.log.extend(self._popen.stdout)

    def wait_for(self, pattern: str, timeout_s: float = 120) -> str:
        ends_s = time.monotonic() + timeout_s
        while time.monotonic() < ends_s:
            if found := re.search(pattern, "".join(self.log)):
                return found[1]
            if self._popen.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"{pattern!r} was not said: {''.join(self.log)}")

    def end(self, number: int = signal.SIGTERM) -> int:
        self._popen.send_signal(number)
        code = self._popen.wait(60)
        self.close()
        return code

    def close(self) -> None:
        self._popen.kill()
        self._popen.wait()
        self._reader.join(10)
        if self._popen.stdout is not None:
            self._popen.stdout.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ix")


@pytest.fixture
def served(folder: Path) -> Iterator[Process]:
    process = Process(folder)
    yield process
    process.close()


def test_it_serves_the_sample_and_ends_when_told_to(served: Process) -> None:
    address = served.wait_for(r"running on (http://127.0.0.1:\d+)")
    assert httpx.get(f"{address}/healthz").status_code == 200
    ends_s = time.monotonic() + 200
    while httpx.get(f"{address}/readyz").status_code != 200:
        assert time.monotonic() < ends_s, "".join(served.log)
        time.sleep(0.2)
    lines = httpx.post(f"{address}/turn", json=TURN, timeout=60).text.split("\n\n")
    final = json.loads(lines[-2].partition("data: ")[2])
    assert final["record"]["query"] == "Which retailers already run it? — Stokarel"
    assert final["spans"][0]["name"] == "agent-knowledge-retriever"
    assert httpx.get(f"{address}/").text.startswith("<!doctype html>")
    assert served.end() == 0
    log = "".join(served.log)
    assert "outcome=found path=reference decision=resolve" in log
    assert "retailers" not in log
    assert "Traceback" not in log


async def test_it_does_not_start_without_the_key_that_production_asks_for() -> None:
    with pytest.raises(ConfigError, match="'IX_API_KEY', which is not set"):
        await serve_command.run(get_config("production"), Console(), host="", port=0)
