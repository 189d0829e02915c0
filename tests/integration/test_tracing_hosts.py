"""Tracing backends on a bad day: the turn does not notice, and stopping does not wait for them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from otlp_server import SILENT, otlp_server, refusing_host

from ixinfra.config.settings import TracingConfig
from ixinfra.tracing import Tracer, build_tracer

BOTH = ("otlp", "langfuse")
TIMEOUT_S = 30.0  # what a turn would take if it waited for the host
SLOWEST_TURN_S = 10.0  # what a busy machine may make of a millisecond


@pytest.fixture(params=["refuses", "silent", "401", "413", "503"])
def host(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "refuses":
        with refusing_host() as url:
            yield url
        return
    with otlp_server(SILENT if request.param == "silent" else int(request.param)) as server:
        yield server.url


def open_tracer(host: str) -> Tracer:
    name = uuid4().hex
    keys = {
        "LANGFUSE_PUBLIC_KEY": f"pk-{name}",
        "LANGFUSE_SECRET_KEY": f"sk-{name}",
        "LANGFUSE_BASE_URL": host,
    }
    config = TracingConfig(exporter=BOTH, otlp_endpoint=f"{host}/v1/traces", timeout_s=TIMEOUT_S)
    return build_tracer(config, environ=keys)


async def turn(tracer: Tracer, number: int) -> int:
    with (
        tracer.turn(session_id=f"s{number}", tenant_id="lite"),
        tracer.span("agent", "agent", input=number) as span,
    ):
        with tracer.span("search", "retriever"):
            await asyncio.sleep(0)
        span.update(output=number)
        return number


@pytest.mark.slow
async def test_turns_go_on_and_stopping_is_bounded(host: str) -> None:
    """g03: what fails stays in the exporter's thread."""
    tracer = open_tracer(host)
    slowest_s = 0.0
    for number in range(400):  # 800 spans, more than a batch of 512: exports begin while turns run
        began = time.perf_counter()
        assert await turn(tracer, number) == number
        slowest_s = max(slowest_s, time.perf_counter() - began)
    began = time.perf_counter()
    tracer.close(0.5)
    stopped_s = time.perf_counter() - began
    assert slowest_s < SLOWEST_TURN_S
    assert stopped_s < 2.0
    assert await turn(tracer, 1) == 1  # a turn after the stop is served as well


@pytest.mark.slow
def test_the_interpreter_exits_although_the_host_is_silent() -> None:
    """Nobody closes the tracer here, and more than a batch is pending."""
    with otlp_server(SILENT) as server:
        script = f"""
import time
from ixinfra.config.settings import TracingConfig
from ixinfra.tracing import build_tracer
tracer = build_tracer(
    TracingConfig(exporter={BOTH!r}, otlp_endpoint="{server.url}/v1/traces", timeout_s=5.0),
    environ=dict(LANGFUSE_PUBLIC_KEY="pk", LANGFUSE_SECRET_KEY="sk", LANGFUSE_BASE_URL="{server.url}"),
)
for number in range(600):
    with tracer.turn(session_id="s"), tracer.span("agent", "agent", input=number):
        pass
print(time.time(), flush=True)
"""
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
        )
        took_s = time.time() - float(done.stdout)
    assert took_s < 4.0  # 1 s, and the interpreter's own clean-up


async def test_what_is_pending_when_the_tracer_is_closed_arrives() -> None:
    with otlp_server() as server:
        tracer = open_tracer(server.url)
        await turn(tracer, 7)
        assert server.bodies == []  # nothing was flushed inside the turn
        tracer.close(10)
        assert sorted(server.paths) == ["/api/public/otel/v1/traces", "/v1/traces"]
        assert [span.name for span in server.spans].count("agent") == 2
