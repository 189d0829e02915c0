"""`ix serve`: the chat graph behind a small web server."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging

from rich.console import Console

from ixchat.graph import open_tenants
from ixinfra.config.settings import Settings
from ixinfra.errors import MissingExtraError
from ixinfra.tracing import build_tracer


async def run(settings: Settings, console: Console, *, host: str, port: int | None) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        settings: What `get_config` read.
        console: Where warnings go.
        host: Address to listen on; "" is what the configuration says.
        port: Likewise; None is what the configuration says.

    Raises:
        MissingExtraError: The packages of the extra `serve` are not installed.
        ConfigError: The key that requests must bring is not set.
    """
    try:
        from ixchat.serve.app import build_app
        from ixchat.serve.server import Server
        from ixchat.serve.spans import RecentSpans
    except ModuleNotFoundError as error:
        if error.name not in {"starlette", "uvicorn"}:
            raise
        raise MissingExtraError(f"`ix serve` needs {error.name}: pip install 'ixchat[cli,serve]'") from None
    spans = RecentSpans() if settings.serve.playground else None
    tracer = build_tracer(settings.tracing, environment=settings.env, also=[spans] if spans else ())
    host = host or settings.serve.host
    async with open_tenants(settings, tracer=tracer) as tenants:
        app = build_app(settings, tenants, tracer=tracer, spans=spans)
        logging.basicConfig(format="%(levelname)s: %(message)s")
        logging.getLogger("ixchat").setLevel(logging.INFO)
        if settings.serve.api_key_env is None and not _is_loopback(host):
            console.print(
                f"ix: anyone who reaches {host} may ask: serve.api_key_env names no key", style="yellow"
            )
        await Server(app, host=host, port=settings.serve.port if port is None else port).serve()
    await asyncio.to_thread(tracer.close)
    gc.freeze()  # else the interpreter looks through 300,000 objects for garbage before it ends: 2 s


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
