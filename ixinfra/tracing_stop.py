"""Stopping an exporter without waiting for a host that does not answer."""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable

EXIT_TIMEOUT_S = 1.0


class BoundedStop:
    """Runs a blocking stop in a thread of its own; waiting for it ends when the time is up.

    The thread starts now and sleeps: an interpreter that is shutting down can start none. It runs the
    stop at exit if nobody asked before, and waits for `EXIT_TIMEOUT_S` at most.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._asked, self._done = threading.Event(), threading.Event()
        threading.Thread(target=self._run, name="ix-tracing-stop", daemon=True).start()
        atexit.register(self.__call__, EXIT_TIMEOUT_S)

    def __call__(self, timeout_s: float) -> bool:
        """Stop, or go on stopping. True when it has ended within `timeout_s` seconds."""
        atexit.unregister(self.__call__)
        self._asked.set()
        return self._done.wait(timeout_s)

    def _run(self) -> None:
        self._asked.wait()
        with contextlib.suppress(Exception):
            self._stop()
        self._done.set()
