"""Stopping an exporter without waiting for a host that does not answer."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections.abc import Callable, Iterable

EXIT_TIMEOUT_S = 1.0
_running: set[BoundedStop] = set()


class BoundedStop:
    """Runs a blocking stop in a thread of its own; waiting for it ends when the time is up.

    The thread starts now and sleeps: an interpreter that is shutting down can start none. What nobody
    stopped is stopped at exit, where all of them together are waited for `EXIT_TIMEOUT_S` at most.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._asked, self._done = threading.Event(), threading.Event()
        threading.Thread(target=self._run, name="ix-tracing-stop", daemon=True).start()
        _running.add(self)

    def __call__(self, timeout_s: float) -> bool:
        """Stop, or go on stopping. True when it has ended within `timeout_s` seconds; 0 only asks."""
        _running.discard(self)
        self._asked.set()
        return self._done.wait(timeout_s)

    def _run(self) -> None:
        self._asked.wait()
        with contextlib.suppress(Exception):
            self._stop()
        self._done.set()


def stop_all(stops: Iterable[Callable[[float], object]], timeout_s: float) -> None:
    """Ask all to stop, then wait for all of them together, `timeout_s` seconds at most."""
    asked = list(stops)
    ends_s = time.monotonic() + timeout_s
    for stop in asked:
        stop(0.0)
    for stop in asked:
        stop(max(0.0, ends_s - time.monotonic()))


@atexit.register
def _stop_the_rest() -> None:
    stop_all(list(_running), EXIT_TIMEOUT_S)
