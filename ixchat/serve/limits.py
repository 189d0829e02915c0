"""What a client has to keep to: its key, the size of a request, its share of turns."""

from __future__ import annotations

import asyncio
import hmac
import math
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from starlette.requests import ClientDisconnect, Request

from ixinfra.config.settings import ServeConfig
from ixinfra.errors import ConfigError, RefusedError

READ_TIMEOUT_S = 10.0  # a client that sends its body slower than this holds a connection for nothing
MAX_CLIENTS = 10_000  # addresses remembered; a forgotten one starts with a full budget


def read_api_key(config: ServeConfig, environ: Mapping[str, str] = os.environ) -> bytes | None:
    """The key that requests must bring; None when none is asked for.

    Raises:
        ConfigError: The variable that `serve.api_key_env` names is missing or empty.
    """
    if config.api_key_env is None:
        return None
    key = environ.get(config.api_key_env, "").strip()
    if not key:
        raise ConfigError(
            f"serve.api_key_env names {config.api_key_env!r}, which is not set: "
            'export it, or set serve.api_key_env = "" to serve without a key'
        )
    return key.encode()


def check_key(request: Request, key: bytes | None) -> None:
    """Let a request pass that brings the key as `Authorization: Bearer …`.

    Raises:
        RefusedError: It does not.
    """
    if key is None:
        return
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), key):
        raise RefusedError(401, "no_key", "send the key as 'Authorization: Bearer …'")


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The body of a JSON request, of which no more than `max_bytes` are ever held.

    Raises:
        RefusedError: It is not JSON by its type, too large, or does not come.
    """
    # A page of another origin cannot send this type without asking first, and nobody answers it.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedError(415, "not_json", "send application/json")
    body = bytearray()
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise RefusedError(413, "too_large", f"a request may hold {max_bytes} bytes")
    except TimeoutError:
        raise RefusedError(408, "too_slow", f"the body did not come within {READ_TIMEOUT_S:g} s") from None
    except ClientDisconnect:
        raise RefusedError(400, "gone", "the client went away") from None
    return bytes(body)


@dataclass(slots=True)
class TurnRate:
    """How many turns each client may start: a budget of one minute's turns that refills steadily.

    Attributes:
        per_minute: Turns; 0 for no limit.
        now_s: A clock, in seconds.
    """

    per_minute: int
    now_s: Callable[[], float] = time.monotonic
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def spend(self, client: str) -> None:
        """Count one turn of a client.

        Raises:
            RefusedError: It has none left; `retry_after_s` says when it has.
        """
        if not self.per_minute:
            return
        now_s, per_s = self.now_s(), self.per_minute / 60.0
        left, seen_s = self._left.pop(client, (float(self.per_minute), now_s))
        left = min(float(self.per_minute), left + (now_s - seen_s) * per_s)
        self._left[client] = (max(0.0, left - 1.0) if left >= 1.0 else left, now_s)
        while len(self._left) > MAX_CLIENTS:
            self._left.popitem(last=False)
        if left < 1.0:
            raise RefusedError(
                429,
                "too_many_turns",
                f"{self.per_minute} turns a minute are allowed",
                retry_after_s=math.ceil((1.0 - left) / per_s),
            )
