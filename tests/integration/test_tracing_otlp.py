"""What a generic viewer of traces receives over OTLP, alone and beside Langfuse."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from otlp_server import ExportedSpan, OtlpServer, otlp_server

from ixinfra.config.settings import TracingConfig
from ixinfra.tracing import Tracer, build_tracer

TREE = (
    "agent-knowledge-retriever",
    (
        ("tool-lightrag-retrieval", ()),
        ("tool-query-reference", (("query-reference", ()),)),
        ("tool-lightrag-retrieval", ()),
    ),
)


@pytest.fixture
def server() -> Iterator[OtlpServer]:
    with otlp_server() as running:
        yield running


@pytest.fixture
def langfuse() -> Iterator[OtlpServer]:
    with otlp_server() as running:
        yield running


def open_tracer(exporter: Any, server: OtlpServer, langfuse: OtlpServer) -> Tracer:
    name = uuid4().hex
    return build_tracer(
        TracingConfig(exporter=exporter, otlp_endpoint=f"{server.url}/v1/traces"),
        environ={
            "LANGFUSE_PUBLIC_KEY": f"pk-{name}",
            "LANGFUSE_SECRET_KEY": f"sk-{name}",
            "LANGFUSE_BASE_URL": langfuse.url,
        },
    )


async def resolved_turn(tracer: Tracer, session: str = "s1") -> str:
    """A turn whose early search is superseded."""

    async def search() -> None:
        with tracer.span("tool-lightrag-retrieval", "retriever", input={"query": "x"}) as span:
            await asyncio.sleep(0.01)
            span.update(output={"documents": 2})

    with (
        tracer.turn(session_id=session, tenant_id="advanced", user_id="u1") as trace_id,
        tracer.span("agent-knowledge-retriever", "agent", input={"query": "Et pour eux ?"}) as agent,
    ):
        early = asyncio.create_task(search())
        await asyncio.sleep(0)
        with tracer.span("tool-query-reference", "tool") as tool:
            with tracer.span("query-reference", "generation", input=[{"role": "user"}]) as generation:
                generation.update(
                    output="RESOLVE: Velmora Planning",
                    model="gpt-5.4-mini",
                    model_parameters={"temperature": 0.0},
                    metadata={"provider": "openai"},
                    usage={"input": 120, "output": 6, "total": 126},
                )
            tool.update(output={"decision": "resolve", "fallback_reason": None}, metadata={"changed": True})
        early.cancel("superseded")
        await asyncio.gather(early, return_exceptions=True)
        await search()
        agent.update(output={"documents": 2})
    return trace_id


def find(server: OtlpServer, name: str) -> ExportedSpan:
    return next(span for span in server.spans if span.name == name)


async def test_a_viewer_gets_openinference_attributes(server: OtlpServer, langfuse: OtlpServer) -> None:
    tracer = open_tracer(("otlp",), server, langfuse)
    trace_id = await resolved_turn(tracer)
    tracer.close(10)
    assert server.traces() == {trace_id: [TREE]}
    assert find(server, "agent-knowledge-retriever").parent_id == ""

    generation = find(server, "query-reference").attributes
    assert generation == {
        "openinference.span.kind": "LLM",
        "session.id": "s1",
        "user.id": "u1",
        "input.value": '[{"role":"user"}]',
        "input.mime_type": "application/json",
        "output.value": "RESOLVE: Velmora Planning",
        "output.mime_type": "text/plain",
        "llm.model_name": "gpt-5.4-mini",
        "llm.provider": "openai",
        "llm.invocation_parameters": '{"temperature":0.0}',
        "llm.token_count.prompt": 120,
        "llm.token_count.completion": 6,
        "llm.token_count.total": 126,
        "metadata": '{"provider":"openai","tenant_id":"advanced"}',
    }
    kinds = {span.name: span.attributes["openinference.span.kind"] for span in server.spans}
    assert kinds == {
        "agent-knowledge-retriever": "AGENT",
        "tool-lightrag-retrieval": "RETRIEVER",
        "tool-query-reference": "TOOL",
        "query-reference": "LLM",
    }
    tool = find(server, "tool-query-reference").attributes
    assert json.loads(tool["output.value"]) == {"decision": "resolve", "fallback_reason": None}
    assert json.loads(tool["metadata"])["changed"] is True


async def test_cancelled_and_failed_spans_differ(server: OtlpServer, langfuse: OtlpServer) -> None:
    tracer = open_tracer(("otlp",), server, langfuse)
    await resolved_turn(tracer)
    with pytest.raises(ValueError, match="secret"), tracer.turn(), tracer.span("broken", "tool"):
        raise ValueError("secret")
    tracer.close(10)
    early, second = (span for span in server.spans if span.name == "tool-lightrag-retrieval")
    assert (early.attributes["ix.status"], early.attributes["ix.cancel_cause"]) == ("cancelled", "superseded")
    assert (early.status_code, early.events) == (0, ())
    assert "ix.status" not in second.attributes
    broken = find(server, "broken")
    assert (broken.status_code, broken.status_message, broken.events) == (2, "ValueError", ())


async def test_two_exporters_show_the_same_tree_under_the_same_trace_id(
    server: OtlpServer, langfuse: OtlpServer
) -> None:
    tracer = open_tracer(("otlp", "langfuse"), server, langfuse)
    trace_ids = await asyncio.gather(*(resolved_turn(tracer, f"s{number}") for number in range(20)))
    tracer.close(10)
    assert server.traces() == langfuse.traces() == {trace_id: [TREE] for trace_id in trace_ids}
    for exported in (server, langfuse):
        sessions = {(span.trace_id, span.attributes["session.id"]) for span in exported.spans}
        assert len(sessions) == 20


async def test_spans_of_the_host_are_above_and_below(server: OtlpServer, langfuse: OtlpServer) -> None:
    tracer = open_tracer(("otlp",), server, langfuse)
    host = TracerProvider().get_tracer("host")
    with (
        host.start_as_current_span("request") as request,
        tracer.turn() as trace_id,
        tracer.span("agent-knowledge-retriever", "agent"),
        host.start_as_current_span("http call") as call,
    ):
        pass
    tracer.close(10)
    ours = find(server, "agent-knowledge-retriever")
    assert ours.trace_id == trace_id == otel.format_trace_id(request.get_span_context().trace_id)
    assert ours.parent_id == otel.format_span_id(request.get_span_context().span_id)
    assert otel.format_span_id(call.parent.span_id) == ours.span_id  # type: ignore[attr-defined]  # an SDK span


def test_the_console_prints_each_turn_as_a_tree(
    server: OtlpServer, langfuse: OtlpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    tracer = open_tracer(("console",), server, langfuse)
    asyncio.run(resolved_turn(tracer))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" ms")[0].rsplit(" ", 1)[0] for line in lines] == [
        "agent-knowledge-retriever [agent]",
        "  tool-lightrag-retrieval [retriever]",
        "  tool-query-reference [tool]",
        "    query-reference [generation]",
        "  tool-lightrag-retrieval [retriever]",
    ]
    assert "cancelled: superseded" in lines[1]
    assert 'out={"decision":"resolve","fallback_reason":null}' in lines[2]
    assert 'model="gpt-5.4-mini"' in lines[3]
    assert (server.bodies, langfuse.bodies) == ([], [])
