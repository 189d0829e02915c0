"""A turn as server-sent events, stopped as soon as nobody listens."""

from __future__ import annotations

import asyncio
import json
import logging

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ixchat.serve.request import TurnRequest
from ixchat.serve.turns import Event, ServedTurn, TurnService
from ixchat.utils.lanes import Lanes

HEADERS = {
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # nginx would hold events back
}
GRACE_S = 0.5  # how long a stopped turn may clean up

_log = logging.getLogger(__name__)


def encode_event(event: Event) -> bytes:
    """One server-sent event: its name from the key `event`, the rest as JSON on one line."""
    facts = {key: value for key, value in event.items() if key != "event"}
    data = json.dumps(facts, ensure_ascii=False, separators=(",", ":"), default=str)
    return f"event: {event['event']}\ndata: {data}\n\n".encode("utf-8", "replace")


class TurnStream(Response):
    """The events of one turn, sent as they come.

    The turn runs in a task of its own. It is cancelled, and has cleaned up when this ends, as soon as the
    client goes away or `ServedTurn.stop` is called; a client that is still there is told the reason.
    """

    media_type = "text/event-stream"

    def __init__(self, service: TurnService, asked: TurnRequest) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._service, self._asked = service, asked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response.

        Raises:
            RefusedError: The turn may not begin; nothing has been sent.
        """
        with self._service.begin(self._asked) as turn:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._stream(turn, receive, send)

    async def _stream(self, turn: ServedTurn, receive: Receive, send: Send) -> None:
        async def put(event: Event) -> None:
            await send({"type": "http.response.body", "body": encode_event(event), "more_body": True})

        async with Lanes(GRACE_S) as lanes:
            running = lanes.start("turn", lambda _lane: self._service.run(turn, put))
            lanes.start("listen", lambda _lane: _listen(turn, receive))
            stop = lanes.start("stop", lambda _lane: turn.stopped.wait())
            await asyncio.wait({running.task, stop.task}, return_when=asyncio.FIRST_COMPLETED)
            was_cut = not running.task.done()
            running.cancel("client_gone")
        if was_cut:
            _log.info("tenant=%s turn stopped: %s", turn.asked.tenant, turn.reason)
            if turn.reason != "client_gone":
                await put({"event": "error", "reason": turn.reason})
        elif running.task.cancelled():  # by something inside it: nobody here asked for it
            await put({"event": "error", "reason": "failed"})
        else:
            running.task.result()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _listen(turn: ServedTurn, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    turn.stop("client_gone")
