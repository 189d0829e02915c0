"""The span tree as Langfuse receives it: real SDK, real OTLP bytes, a backend on loopback."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict
from uuid import uuid4

import pytest
from langchain_core.runnables import RunnableConfig
from langfuse import Langfuse, get_client, propagate_attributes
from langfuse.langchain import CallbackHandler
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from otlp_server import OtlpServer, basic_auth, otlp_server

from ixinfra.config.settings import TracingConfig
from ixinfra.tracing import Tracer, build_tracer, current_tracer
from ixinfra.tracing_langfuse import LangfuseTracer

SEARCH = ("tool-lightrag-retrieval", ())
CHECK = ("tool-query-reference", (("query-reference", ()),))
KEEP = ("agent-knowledge-retriever", (SEARCH, CHECK))
ANSWER = ("answer-writer", ())


@pytest.fixture
def server() -> Iterator[OtlpServer]:
    with otlp_server() as running:
        yield running


@pytest.fixture
def keys(server: OtlpServer) -> dict[str, str]:
    """A project of its own for each test: the SDK keeps one client per public key for the whole process."""
    name = uuid4().hex
    return {
        "LANGFUSE_PUBLIC_KEY": f"pk-{name}",
        "LANGFUSE_SECRET_KEY": f"sk-{name}",
        "LANGFUSE_BASE_URL": server.url,
    }


@pytest.fixture
def tracer(keys: Mapping[str, str]) -> Iterator[Tracer]:
    built = build_tracer(TracingConfig(exporter=("langfuse",)), environment="test", environ=keys)
    yield built
    built.close(10)


class State(TypedDict, total=False):
    query: str
    trace_id: str


def build_graph(tracer: Tracer, *, resolves: bool = False) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Two nodes that make the spans of a turn the way the real ones do."""

    async def search(query: str) -> None:
        with current_tracer().span("tool-lightrag-retrieval", "retriever", input={"query": query}) as span:
            await asyncio.sleep(0.02)
            span.update(output={"documents": 3})

    async def check() -> None:
        with current_tracer().span("tool-query-reference", "tool") as span:
            with current_tracer().span(
                "query-reference", "generation", input=[{"role": "user"}]
            ) as generation:
                await asyncio.sleep(0.001)
                generation.update(
                    output="KEEP",
                    model="gpt-5.4-mini",
                    model_parameters={"temperature": 0.0},
                    usage={"input": 7, "output": 1},
                )
            span.update(
                output={
                    "decision": "resolve" if resolves else "keep",
                    "rejected": None,
                    "fallback_reason": None,
                },
                metadata={"changed": resolves, "model": "gpt-5.4-mini", "provider": "openai"},
            )

    async def retrieve(state: State) -> State:
        session = state["query"]
        with tracer.turn(session_id=session, tenant_id=f"tenant-of-{session}") as trace_id:
            with tracer.span("agent-knowledge-retriever", "agent", input={"query": state["query"]}):
                early = asyncio.create_task(search(state["query"]))
                await asyncio.sleep(0)
                await check()
                if resolves:
                    early.cancel("superseded")
                    await asyncio.gather(early, return_exceptions=True)
                    await search(f"{state['query']} — Velmora Planning")
                else:
                    await asyncio.gather(early)
            return {"trace_id": trace_id}

    async def answer(state: State) -> State:
        session = state["query"]
        with (
            tracer.turn(session_id=session, tenant_id=f"tenant-of-{session}", trace_id=state["trace_id"]),
            tracer.span("answer-writer", "chain"),
        ):
            return {}

    graph = StateGraph(State)
    graph.add_node("retrieve", retrieve)
    graph.add_node("answer", answer)
    graph.set_entry_point("retrieve")
    graph.add_edge("retrieve", "answer")
    return graph.compile(name="chat-graph")


async def run(graph: Any, how: str, query: str = "s1", config: RunnableConfig | None = None) -> None:
    if how == "ainvoke":
        await graph.ainvoke({"query": query}, config)
        return
    async for _ in graph.astream({"query": query}, config, stream_mode=["updates", "custom"], subgraphs=True):
        pass


@pytest.mark.parametrize("how", ["ainvoke", "astream"])
async def test_one_tree_a_turn(tracer: Tracer, server: OtlpServer, how: str) -> None:
    await run(build_graph(tracer), how)
    tracer.close(10)
    (roots,) = server.traces().values()
    assert roots == [KEEP, ANSWER]


@pytest.mark.parametrize("how", ["ainvoke", "astream"])
async def test_one_tree_inside_another_graph(tracer: Tracer, server: OtlpServer, how: str) -> None:
    outer = StateGraph(State)
    outer.add_node("chat", build_graph(tracer))
    outer.set_entry_point("chat")
    await run(outer.compile(), how)
    tracer.close(10)
    (roots,) = server.traces().values()
    assert roots == [KEEP, ANSWER]


@pytest.mark.parametrize("how", ["ainvoke", "astream"])
@pytest.mark.parametrize("nested", [False, True], ids=["flat", "as sub-graph"])
async def test_spans_hang_under_the_node_of_the_host_s_handler(
    tracer: Tracer, server: OtlpServer, keys: Mapping[str, str], how: str, nested: bool
) -> None:
    graph: Any = build_graph(tracer)
    expected: Any = ("chat-graph", (("retrieve", (KEEP,)), ("answer", (ANSWER,))))
    if nested:
        outer = StateGraph(State)
        outer.add_node("chat", graph)
        outer.set_entry_point("chat")
        graph = outer.compile(name="host-graph")
        expected = ("host-graph", (("chat", (expected,)),))
    handler = CallbackHandler(public_key=keys["LANGFUSE_PUBLIC_KEY"])
    await run(graph, how, config={"callbacks": [handler]})
    tracer.close(10)
    (roots,) = server.traces().values()
    assert roots == [expected]
    assert handler._runs == {}


async def test_what_the_bridge_reads_of_the_handler_is_still_there(
    keys: Mapping[str, str], tracer: Tracer
) -> None:
    seen: list[Any] = []
    handler = CallbackHandler(public_key=keys["LANGFUSE_PUBLIC_KEY"])

    async def node(state: State, config: RunnableConfig) -> State:
        seen.append(handler._runs[config["callbacks"].parent_run_id]._otel_span)  # type: ignore[union-attr, index]
        return {}

    graph = StateGraph(State)
    graph.add_node("node", node)
    graph.set_entry_point("node")
    await graph.compile().ainvoke({"query": "x"}, {"callbacks": [handler]})
    assert isinstance(seen[0], otel.Span)
    assert seen[0].get_span_context().is_valid


@pytest.mark.parametrize("with_handler", [False, True], ids=["no handler", "handler"])
async def test_a_span_of_the_host_around_the_graph_is_the_root(
    tracer: Tracer, server: OtlpServer, keys: Mapping[str, str], with_handler: bool
) -> None:
    public_key = keys["LANGFUSE_PUBLIC_KEY"]
    handlers: list[Any] = [CallbackHandler(public_key=public_key)] if with_handler else []
    host = get_client(public_key=public_key)
    with (
        host.start_as_current_observation(name="request", as_type="span"),
        propagate_attributes(user_id="u1"),
    ):
        await run(build_graph(tracer), "ainvoke", config={"callbacks": handlers})
    tracer.close(10)
    ((root,),) = server.traces().values()
    flat = ("request", (KEEP, ANSWER))
    assert root == (
        ("request", (("chat-graph", (("retrieve", (KEEP,)), ("answer", (ANSWER,)))),))
        if with_handler
        else flat
    )
    assert server.named("answer-writer").attributes["user.id"] == "u1"


async def test_a_turn_the_host_opens_around_the_graph_holds_everything(
    tracer: Tracer, server: OtlpServer
) -> None:
    with tracer.turn(session_id="outer", user_id="u7") as trace_id, tracer.span("turn", "chain"):
        await run(build_graph(tracer), "ainvoke")
    tracer.close(10)
    assert server.traces() == {trace_id: [("turn", (KEEP, ANSWER))]}
    assert {span.attributes["user.id"] for span in server.spans} == {"u7"}


async def test_the_early_search_that_was_superseded_is_marked(tracer: Tracer, server: OtlpServer) -> None:
    """g06: ended, and neither an error nor a plain success."""
    await run(build_graph(tracer, resolves=True), "ainvoke")
    tracer.close(10)
    early, second = (span for span in server.spans if span.name == "tool-lightrag-retrieval")
    assert early.langfuse("level") == "DEFAULT"
    assert early.langfuse("status_message") == "cancelled"
    assert early.langfuse("metadata.cancelled") is True
    assert early.langfuse("metadata.cancel_cause") == "superseded"
    assert (early.status_code, early.events) == (0, ())
    assert "langfuse.observation.status_message" not in second.attributes
    assert second.langfuse("output") == {"documents": 3}


async def test_facts_arrive_where_a_filter_finds_them(
    tracer: Tracer, server: OtlpServer, keys: Mapping[str, str]
) -> None:
    await run(build_graph(tracer), "ainvoke")
    tracer.close(10)
    tool = server.named("tool-query-reference")
    assert tool.langfuse("type") == "tool"
    assert tool.langfuse("output") == {"decision": "keep", "rejected": None, "fallback_reason": None}
    assert tool.langfuse("metadata.changed") is False
    assert (tool.langfuse("metadata.model"), tool.langfuse("metadata.provider")) == ("gpt-5.4-mini", "openai")
    generation = server.named("query-reference")
    assert generation.langfuse("type") == "generation"
    assert generation.langfuse("model.name") == "gpt-5.4-mini"
    assert generation.langfuse("usage_details") == {"input": 7, "output": 1}
    assert generation.langfuse("model.parameters") == {"temperature": 0.0}
    assert server.named("agent-knowledge-retriever").langfuse("type") == "agent"
    for span in server.spans:
        assert span.attributes["session.id"] == "s1"
        assert span.attributes["langfuse.trace.metadata.tenant_id"] == '"tenant-of-s1"'
        assert span.attributes["langfuse.environment"] == "test"
    assert server.paths[0] == "/api/public/otel/v1/traces"
    sent = basic_auth(server.headers[0]["authorization"])
    assert sent == (keys["LANGFUSE_PUBLIC_KEY"], keys["LANGFUSE_SECRET_KEY"])


async def test_a_model_of_another_kind_of_span_is_not_lost(tracer: Tracer, server: OtlpServer) -> None:
    with tracer.turn(), tracer.span("tool-query-intent", "tool") as span:
        span.update(model="ministral-3b")
    tracer.close(10)
    assert server.named("tool-query-intent").langfuse("metadata.model") == "ministral-3b"


async def test_long_ids_are_cut_where_the_sdk_would_drop_them(
    tracer: Tracer, server: OtlpServer, caplog: pytest.LogCaptureFixture
) -> None:
    with tracer.turn(session_id="s" * 300, tenant_id="é" * 300, user_id="u" * 300), tracer.span("x"):
        pass
    tracer.close(10)
    attributes = server.named("x").attributes
    assert (attributes["session.id"], attributes["user.id"]) == ("s" * 200, "u" * 200)
    assert attributes["langfuse.trace.metadata.tenant_id"].startswith('"éé')
    assert caplog.records == []


@pytest.mark.parametrize("handlers", [0, 1], ids=["no handler", "shared handler"])
async def test_concurrent_turns_do_not_mix(
    tracer: Tracer, server: OtlpServer, keys: Mapping[str, str], handlers: int
) -> None:
    """g08: fifty at once, each with a session of its own."""
    graph = build_graph(tracer)
    callbacks: list[Any] = [CallbackHandler(public_key=keys["LANGFUSE_PUBLIC_KEY"]) for _ in range(handlers)]
    sessions = [f"s{number}" for number in range(50)]
    await asyncio.gather(*(run(graph, "ainvoke", session, {"callbacks": callbacks}) for session in sessions))
    tracer.close(10)
    traces = server.traces()
    whole = [("chat-graph", (("retrieve", (KEEP,)), ("answer", (ANSWER,))))] if handlers else [KEEP, ANSWER]
    assert list(traces.values()) == [whole] * 50
    for trace_id in traces:
        mine = [span for span in server.spans if span.trace_id == trace_id and "." not in span.name]
        ours = [span for span in mine if span.name not in ("chat-graph", "retrieve", "answer")]
        (session,) = {span.attributes["session.id"] for span in ours}
        assert {span.attributes["langfuse.trace.metadata.tenant_id"] for span in ours} == {
            f'"tenant-of-{session}"'
        }


@pytest.mark.slow
async def test_streams_closed_early_leave_nothing_open_and_nothing_in_the_log(
    tracer: Tracer, server: OtlpServer, caplog: pytest.LogCaptureFixture
) -> None:
    """g10: 1,000 streamed turns, a third of them closed by the client."""
    caplog.set_level(logging.WARNING)

    async def retrieve(state: State) -> State:
        with (
            tracer.turn(session_id=state["query"]),
            tracer.span("agent-knowledge-retriever", "agent"),
            tracer.span("tool-lightrag-retrieval", "retriever"),
        ):
            await asyncio.sleep(0)
        return {"trace_id": "x"}

    async def answer(state: State) -> State:
        await asyncio.sleep(0)
        return {}

    building = StateGraph(State)
    building.add_node("retrieve", retrieve)
    building.add_node("answer", answer)
    building.set_entry_point("retrieve")
    building.add_edge("retrieve", "answer")
    graph = building.compile()

    async def turn(number: int) -> None:
        stream = graph.astream({"query": f"s{number}"}, stream_mode="updates")
        async for _ in stream:
            if number % 3 == 0:
                break
        await stream.aclose()  # type: ignore[attr-defined]  # an async generator

    for start in range(0, 1000, 100):
        await asyncio.gather(*(turn(number) for number in range(start, start + 100)))
    tracer.close(20)
    assert [record for record in caplog.records if "detach" in record.getMessage()] == []
    assert all(span.ended_ns >= span.started_ns for span in server.spans)
    assert len([span for span in server.spans if span.name == "agent-knowledge-retriever"]) == 1000
    assert otel.get_current_span() is otel.INVALID_SPAN


async def test_a_client_of_the_host_is_used_and_left_open(
    server: OtlpServer, keys: Mapping[str, str]
) -> None:
    host = Langfuse(
        public_key=keys["LANGFUSE_PUBLIC_KEY"],
        secret_key=keys["LANGFUSE_SECRET_KEY"],
        base_url=server.url,
        tracer_provider=TracerProvider(),
    )
    for tracer in (LangfuseTracer(host), build_tracer(TracingConfig(exporter=("langfuse",)), environ=keys)):
        with tracer.turn(), tracer.span("ours", "tool"):
            pass
        tracer.close(10)
    with host.start_as_current_observation(name="after"):
        pass
    host.flush()
    assert [span.name for span in server.spans] == ["ours", "ours", "after"]
    host.shutdown()


def test_the_process_s_tracer_provider_is_left_alone(tracer: Tracer) -> None:
    assert isinstance(otel.get_tracer_provider(), otel.ProxyTracerProvider)
    with tracer.turn(), tracer.span("x"):
        pass
    assert isinstance(otel.get_tracer_provider(), otel.ProxyTracerProvider)
