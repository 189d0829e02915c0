"""Runs the application under uvicorn: no visitor text in its log, and a stop that takes less than 2 s."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socket import socket

import uvicorn
from starlette.applications import Starlette

from ixchat.serve.turns import TurnService

PATIENCE_S = 0.5  # what running turns get to end by themselves
BACKSTOP_S = 1  # after that long, what is left of them is cancelled


class Server(uvicorn.Server):
    """A uvicorn server that tells running turns to end before it closes their connections."""

    def __init__(self, app: Starlette, *, host: str, port: int) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                access_log=False,  # a path may be what somebody typed; each turn has a line of its own
                server_header=False,
                timeout_graceful_shutdown=BACKSTOP_S,
                lifespan="on",
            )
        )
        self._service: TurnService = app.state.service

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """See `uvicorn.Server.shutdown`."""
        draining = asyncio.create_task(self._service.drain(PATIENCE_S), name="ix:drain")
        try:
            await super().shutdown(sockets)
        finally:
            draining.cancel()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM, and let whoever opened the tenants close them: uvicorn's own way
        raises the signal again, which ends the process before that. In a thread, signals are the host's."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        caught = (signal.SIGINT, signal.SIGTERM)
        for number in caught:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)
