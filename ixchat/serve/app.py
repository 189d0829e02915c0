"""The web application: `POST /turn`, `GET /tenants`, health, readiness, and the page at `/`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib.resources import files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ixchat.nodes.deps import Tenants
from ixchat.serve.events import TurnStream
from ixchat.serve.limits import TurnRate, check_key, read_api_key, read_body
from ixchat.serve.request import read_turn
from ixchat.serve.spans import RecentSpans
from ixchat.serve.turns import TurnService
from ixinfra.config.settings import Settings
from ixinfra.errors import IxError, RefusedError
from ixinfra.tracing import NO_TRACER, Tracer

PAGE = {
    "/": ("index.html", "text/html"),
    "/playground.css": ("playground.css", "text/css"),
    "/playground.js": ("playground.js", "text/javascript"),
}
SECURITY_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
MAX_OPENED_AT_START = 8

_log = logging.getLogger(__name__)


class WebChat:
    """What the routes share: the service, the limits, and which tenants are open."""

    def __init__(
        self, settings: Settings, tenants: Tenants, service: TurnService, api_key: bytes | None
    ) -> None:
        self._settings, self._tenants, self._service, self._api_key = settings, tenants, service, api_key
        self._rate = TurnRate(settings.serve.turns_per_minute)
        self._opening = dict.fromkeys(list(settings.tenants)[:MAX_OPENED_AT_START], "waiting")

    @property
    def is_ready(self) -> bool:
        """Whether every tenant has been tried and one of them can answer."""
        states = self._opening.values()
        return "waiting" not in states and ("open" in states or not states)

    async def open_tenants(self) -> None:
        """Open the tenants one after another, so that no visitor waits for it."""
        for tenant_id in self._opening:
            try:
                async with self._tenants.lend(tenant_id):
                    self._opening[tenant_id] = "open"
            except Exception as error:  # this tenant's turns will say so; the others are served
                self._opening[tenant_id] = "failed"
                detail = f": {error}" if isinstance(error, IxError) else ""
                _log.error("tenant=%s cannot be opened: %s%s", tenant_id, type(error).__name__, detail)

    async def turn(self, request: Request) -> Response:
        """`POST /turn`: a turn in, its events out."""
        check_key(request, self._api_key)
        self._rate.spend(request.client.host if request.client else "")
        asked = read_turn(await read_body(request, self._settings.serve.max_request_bytes))
        return TurnStream(self._service, asked)

    async def tenants(self, request: Request) -> Response:
        """`GET /tenants`: who may be asked, and whether resolution is on."""
        check_key(request, self._api_key)
        listed = [
            {
                "id": tenant_id,
                "company_name": tenant.company_name,
                "language": tenant.language,
                "rag_mode": tenant.rag_mode,
            }
            for tenant_id, tenant in self._settings.tenants.items()
        ]
        return JSONResponse({"tenants": listed, "rewriter": self._settings.query_rewriter.enabled})

    async def healthz(self, _request: Request) -> Response:
        """`GET /healthz`: the process answers."""
        return JSONResponse({"status": "ok"})

    async def readyz(self, _request: Request) -> Response:
        """`GET /readyz`: 200 once the tenants are open, 503 before and when none could be opened."""
        status = "ready" if self.is_ready else "opening" if "waiting" in self._opening.values() else "failed"
        body = {"status": status, "tenants": self._opening}
        return JSONResponse(body, status_code=200 if self.is_ready else 503)


class Guard:
    """Adds the security headers, and lets no exception through to the server, which would log its text:
    it may be a visitor's."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started = False

        async def send_safely(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                message = {**message, "headers": [*message["headers"], *SECURITY_HEADERS]}
            await send(message)

        try:
            await self._app(scope, receive, send_safely)
        except Exception as error:
            _log.error("a request failed with %s", type(error).__name__)
            if not has_started:
                failed = RefusedError(500, "failed", "the request failed")
                await _answer_of(failed)(scope, receive, send_safely)


def build_app(
    settings: Settings,
    tenants: Tenants,
    *,
    tracer: Tracer = NO_TRACER,
    spans: RecentSpans | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Starlette:
    """The application that `ix serve` runs.

    Args:
        settings: What `get_config` read; `settings.serve` holds the limits.
        tenants: Lends the tenants, such as `ixchat.open_tenants` gives. Who opened them closes them.
        tracer: The tracer of those tenants.
        spans: A sink of that tracer, whose spans the page shows; None shows none.
        environ: Where the variable that `serve.api_key_env` names is read.

    Raises:
        ConfigError: The key that requests must bring is not set.
    """
    serve = settings.serve
    service = TurnService(
        tenants,
        list(settings.tenants),
        tracer=tracer,
        spans=spans if serve.playground else None,
        max_turns=serve.max_turns,
        max_threads=serve.max_threads,
    )
    web = WebChat(settings, tenants, service, read_api_key(serve, environ))

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        opening = asyncio.create_task(web.open_tenants(), name="ix:open-tenants")
        try:
            yield
        finally:
            opening.cancel()
            with suppress(asyncio.CancelledError):
                await opening

    app = Starlette(
        routes=[
            Route("/turn", web.turn, methods=["POST"]),
            Route("/tenants", web.tenants),
            Route("/healthz", web.healthz),
            Route("/readyz", web.readyz),
            *(_page_routes() if serve.playground else ()),
        ],
        middleware=[Middleware(Guard)],
        exception_handlers={RefusedError: _refuse, HTTPException: _refuse_route},
        lifespan=lifespan,
    )
    app.state.service = service
    return app


def _page_routes() -> list[Route]:
    folder = files("ixchat.serve") / "playground"
    return [_page_route(path, (folder / name).read_bytes(), kind) for path, (name, kind) in PAGE.items()]


def _page_route(path: str, content: bytes, kind: str) -> Route:
    async def page(_request: Request) -> Response:
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    return Route(path, page)


async def _refuse(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return _answer_of(error)


async def _refuse_route(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _answer_of(RefusedError(error.status_code, "no_such_route", error.detail))


def _answer_of(refused: RefusedError) -> Response:
    headers = {} if refused.retry_after_s is None else {"retry-after": str(refused.retry_after_s)}
    if refused.status == 401:
        headers["www-authenticate"] = "Bearer"
    body = {"reason": refused.reason, "detail": str(refused)}
    return JSONResponse(body, status_code=refused.status, headers=headers)
