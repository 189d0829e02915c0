"""A tracing backend on loopback: decodes the OTLP bytes that really arrive, or misbehaves on request."""

from __future__ import annotations

import base64
import gzip
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

SILENT = 0  # a status: accept the connection, read the request, never answer


@dataclass(frozen=True, slots=True)
class ExportedSpan:
    """One span as the backend sees it."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: Mapping[str, Any]
    events: tuple[str, ...]
    status_code: int  # 0 unset, 1 ok, 2 error
    status_message: str
    started_ns: int
    ended_ns: int

    def langfuse(self, name: str) -> Any:
        """An observation attribute, JSON decoded where it is JSON: "output", "level", "metadata.changed"."""
        return decoded(self.attributes.get(f"langfuse.observation.{name}"))


Tree = tuple[str, tuple["Tree", ...]]


@dataclass(slots=True)
class OtlpServer:
    """Attributes: `url` of the host, `status` it answers with, decoded `bodies` and `headers` received."""

    url: str = ""
    status: int = 200
    bodies: list[bytes] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def spans(self) -> list[ExportedSpan]:
        """Every span received so far, in order of their start."""
        found: list[ExportedSpan] = []
        for body in self.bodies:
            request = ExportTraceServiceRequest()
            request.ParseFromString(body)
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    found.extend(_exported(span) for span in scope.spans)
        return sorted(found, key=lambda span: span.started_ns)

    def traces(self) -> dict[str, list[Tree]]:
        """Names as trees, one list of roots per trace id. A span whose parent never arrived is a root."""
        spans = self.spans
        known = {span.span_id for span in spans}

        def below(parent: str, trace_id: str) -> tuple[Tree, ...]:
            return tuple(
                (span.name, below(span.span_id, trace_id))
                for span in spans
                if span.parent_id == parent and span.trace_id == trace_id
            )

        roots: dict[str, list[Tree]] = {}
        for span in spans:
            if span.parent_id not in known:
                roots.setdefault(span.trace_id, []).append((span.name, below(span.span_id, span.trace_id)))
        return roots

    def named(self, name: str) -> ExportedSpan:
        """The one span of this name."""
        (span,) = (span for span in self.spans if span.name == name)
        return span

    def text(self) -> str:
        """All that was received, JSON's \\u escapes resolved: what a search for a secret has to look at."""
        received = b"\n".join(self.bodies).decode("utf-8", "replace")
        return re.sub(r"\\u([0-9a-f]{4})", lambda escape: chr(int(escape[1], 16)), received)


@contextmanager
def otlp_server(status: int = 200) -> Iterator[OtlpServer]:
    """Run a backend for the length of a test."""
    seen = OtlpServer(status=status)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen.paths.append(self.path)
            seen.headers.append({name.lower(): value for name, value in self.headers.items()})
            seen.bodies.append(
                gzip.decompress(raw) if self.headers.get("Content-Encoding") == "gzip" else raw
            )
            if seen.status == SILENT:
                seen.closing.wait(60)
                return
            reply = ExportTraceServiceResponse().SerializeToString()
            self.send_response(seen.status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, format: str, *args: Any) -> None:
            return None

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: Any, client_address: Any) -> None:
            return None  # a client that went away is what some tests are about

    with Server(("127.0.0.1", 0), Handler) as server:
        seen.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield seen
        finally:
            seen.closing.set()
            server.shutdown()
            thread.join()


@contextmanager
def refusing_host() -> Iterator[str]:
    """An address where nobody listens."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}"
    yield url


def decoded(value: Any) -> Any:
    """A JSON text as its value; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def basic_auth(header: str) -> tuple[str, str]:
    """User and password of an Authorization header."""
    user, _, password = base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")
    return user, password


def _exported(span: Any) -> ExportedSpan:
    return ExportedSpan(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        attributes={item.key: _value(item.value) for item in span.attributes},
        events=tuple(event.name for event in span.events),
        status_code=span.status.code,
        status_message=span.status.message,
        started_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
    )


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None
