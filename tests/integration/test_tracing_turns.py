"""The spans of real turns: the real graphs and resolvers, scripted models and engine, decoded OTLP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from fakes import FakeRetriever, ScriptedModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from otlp_server import OtlpServer, Tree, otlp_server

from ixchat.graph import build_chat_graph, build_retrieval_graph
from ixchat.nodes.knowledge_retriever import Deps, retrieve
from ixchat.state import ChatContext
from ixchat.utils.history import turn_from
from ixchat.utils.query_intent import resolve_search_query
from ixchat.utils.query_keywords import build_keyword_query, resolve_reference
from ixchat.utils.resolution import Resolution, Turn
from ixinfra.config.settings import TracingConfig
from ixinfra.tracing import Tracer, build_tracer
from ixinfra.tracing_tree import RecordingTracer

HISTORY: list[AnyMessage] = [
    HumanMessage("Avez-vous un outil pour la paie ?"),
    AIMessage("Oui, **Velmora Paie** ; pour quel secteur ?"),
]
FIRST = [HumanMessage("Quels modules proposez-vous ?")]
SHORT = [*HISTORY, HumanMessage("Santé")]
LONG = [*HISTORY, HumanMessage("Quelles enseignes l'ont déjà installé ?")]

SEARCH: Tree = ("tool-lightrag-retrieval", ())


def checked(span: str, generation: str) -> Tree:
    return (span, ((generation, ()),))


def agent(*inside: Tree) -> list[Tree]:
    return [("agent-knowledge-retriever", inside)]


@pytest.fixture
def server() -> Iterator[OtlpServer]:
    with otlp_server() as running:
        yield running


@pytest.fixture
def tracer(server: OtlpServer) -> Iterator[Tracer]:
    name = uuid4().hex
    keys = {
        "LANGFUSE_PUBLIC_KEY": f"pk-{name}",
        "LANGFUSE_SECRET_KEY": f"sk-{name}",
        "LANGFUSE_BASE_URL": server.url,
    }
    built = build_tracer(TracingConfig(exporter=("langfuse",)), environment="test", environ=keys)
    yield built
    built.close(10)


def build_deps(
    tracer: Tracer, answer: Any = "KEEP", *, mode: Any = "mix", delay_s: float = 0.0, **more: Any
) -> Deps:
    model = ScriptedModel(script=[answer], delay_s=delay_s)
    return Deps(
        FakeRetriever(rag_mode=mode, delay_s=more.pop("search_s", 0.02)),
        text_resolver=partial(resolve_search_query, model=model),
        keyword_resolver=partial(build_keyword_query, model=model),
        reference_resolver=partial(resolve_reference, model=model),
        tenant_id="velmora",
        company_name="Velmora",
        tracer=tracer,
        **more,
    )


INTENT = checked("tool-query-intent", "query-intent")
KEYWORDS = checked("tool-query-keywords", "query-keywords")
REFERENCE = checked("tool-query-reference", "query-reference")


@pytest.mark.parametrize(
    ("messages", "deps", "expected"),
    [
        pytest.param(LONG, {"enabled": False}, agent(SEARCH), id="switched off"),
        pytest.param(FIRST, {}, agent(SEARCH), id="first turn"),
        pytest.param(LONG, {"mode": "naive"}, agent(SEARCH), id="lite, searchable as written"),
        pytest.param(
            SHORT, {"mode": "naive", "answer": "santé paie Velmora"}, agent(INTENT, SEARCH), id="lite, short"
        ),
        pytest.param(
            SHORT, {"answer": "SPECIFIC: paie\nTHEME: santé"}, agent(KEYWORDS, SEARCH), id="graph, short"
        ),
        pytest.param(LONG, {"answer": "KEEP"}, agent(SEARCH, REFERENCE), id="graph, kept"),
        pytest.param(
            LONG, {"answer": "RESOLVE: Velmora Paie"}, agent(SEARCH, REFERENCE, SEARCH), id="graph, resolved"
        ),
        pytest.param(
            LONG, {"answer": ConnectionError("x")}, agent(SEARCH, REFERENCE), id="graph, dead model"
        ),
        pytest.param(
            LONG,
            {"delay_s": 30.0, "reference_deadline_s": 0.05, "search_s": 0.0},
            agent(SEARCH, REFERENCE),
            id="graph, model too late",
        ),
    ],
)
async def test_the_tree_of_each_path(
    tracer: Tracer, server: OtlpServer, messages: list[AnyMessage], deps: dict[str, Any], expected: list[Tree]
) -> None:
    graph = build_retrieval_graph(build_deps(tracer, **deps))
    state = await graph.ainvoke({"messages": messages}, context=ChatContext(session_id="s1", user_id="u1"))
    tracer.close(10)
    assert server.traces() == {state["retrieval"]["trace_id"]: expected}
    for span in server.spans:
        assert (span.attributes["session.id"], span.attributes["user.id"]) == ("s1", "u1")
        assert span.attributes["langfuse.trace.metadata.tenant_id"] == '"velmora"'
        assert span.events == ()
    root = server.named("agent-knowledge-retriever")
    assert root.langfuse("output") == {
        key: value for key, value in state["retrieval"].items() if key != "trace_id"
    }


async def test_a_resolved_turn_says_what_was_decided_and_what_was_given_up(
    tracer: Tracer, server: OtlpServer
) -> None:
    graph = build_retrieval_graph(build_deps(tracer, "RESOLVE: Velmora Paie", search_s=0.5))
    await graph.ainvoke({"messages": LONG})
    tracer.close(10)
    check = server.named("tool-query-reference")
    output = check.langfuse("output")
    assert {
        key: output[key] for key in ("decision", "entity", "rejected", "fallback_reason", "resolved_query")
    } == {
        "decision": "resolve",
        "entity": "Velmora Paie",
        "rejected": None,
        "fallback_reason": None,
        "resolved_query": "Quelles enseignes l'ont déjà installé ? — Velmora Paie",
    }
    assert check.langfuse("metadata.changed") is True
    assert (check.langfuse("metadata.model"), check.langfuse("metadata.provider")) == (
        "scripted-1",
        "scripted",
    )
    early, second = (span for span in server.spans if span.name == "tool-lightrag-retrieval")
    assert (early.langfuse("level"), early.langfuse("status_message")) == ("DEFAULT", "cancelled")
    assert early.langfuse("metadata.cancel_cause") == "superseded"
    assert second.langfuse("level") == "DEFAULT"
    assert "langfuse.observation.status_message" not in second.attributes
    generation = server.named("query-reference")
    assert generation.langfuse("model.name") == "scripted-1"
    assert generation.langfuse("output") == "RESOLVE: Velmora Paie"
    assert set(generation.langfuse("usage_details").values()) >= {12, 3}


async def test_a_check_past_its_deadline_is_cancelled_and_not_an_error(
    tracer: Tracer, server: OtlpServer
) -> None:
    deps = build_deps(tracer, delay_s=30.0, reference_deadline_s=0.05, search_s=0.0)
    await build_retrieval_graph(deps).ainvoke({"messages": LONG})
    tracer.close(10)
    for name in ("tool-query-reference", "query-reference"):
        span = server.named(name)
        assert (span.langfuse("level"), span.langfuse("status_message")) == ("DEFAULT", "cancelled")
        assert span.langfuse("metadata.cancel_cause") == "deadline"
    assert server.named("tool-query-reference").langfuse("output") == {
        "decision": "error",
        "fallback_reason": "timeout",
    }


@pytest.mark.parametrize("how", ["ainvoke", "astream"])
async def test_a_chat_turn_is_one_trace(tracer: Tracer, server: OtlpServer, how: str) -> None:
    graph = build_chat_graph(build_deps(tracer, "KEEP"))
    if how == "ainvoke":
        await graph.ainvoke({"messages": LONG}, context=ChatContext(session_id="s1"))
    else:
        stream = graph.astream(
            {"messages": LONG}, context=ChatContext(session_id="s1"), stream_mode="custom", subgraphs=True
        )
        assert [event async for event in stream]
    tracer.close(10)
    (roots,) = server.traces().values()
    assert roots == [*agent(SEARCH, REFERENCE), ("answer-writer", ())]


async def test_a_turn_the_client_left_is_marked_from_top_to_bottom(
    tracer: Tracer, server: OtlpServer
) -> None:
    graph = build_retrieval_graph(build_deps(tracer, "KEEP", delay_s=0.01, search_s=30.0))
    turn = asyncio.create_task(graph.ainvoke({"messages": LONG}))
    await asyncio.sleep(0.05)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    tracer.close(10)
    for name in ("agent-knowledge-retriever", "tool-lightrag-retrieval"):
        span = server.named(name)
        assert (span.langfuse("level"), span.langfuse("metadata.cancel_cause")) == ("DEFAULT", "client_gone")


async def test_concurrent_turns_of_two_tenants_do_not_mix(tracer: Tracer, server: OtlpServer) -> None:
    resolved = build_retrieval_graph(build_deps(tracer, "RESOLVE: Velmora Paie"))
    lite = build_retrieval_graph(build_deps(tracer, "santé paie Velmora", mode="naive"))

    async def turn(number: int) -> tuple[str, list[Tree]]:
        graph, messages, tree = (
            (resolved, LONG, agent(SEARCH, REFERENCE, SEARCH))
            if number % 2
            else (lite, SHORT, agent(INTENT, SEARCH))
        )
        state = await graph.ainvoke({"messages": messages}, context=ChatContext(session_id=f"s{number}"))
        return state["retrieval"]["trace_id"], tree

    expected = dict(await asyncio.gather(*map(turn, range(20))))
    tracer.close(10)
    assert len(expected) == 20
    assert server.traces() == expected
    assert len({(span.trace_id, span.attributes["session.id"]) for span in server.spans}) == 20


@pytest.mark.slow
async def test_no_visitor_text_in_the_log_of_a_thousand_turns(caplog: pytest.LogCaptureFixture) -> None:
    """g14: whatever fails, and whatever the exception says."""
    caplog.set_level(logging.INFO)
    canaries = ("zoe.martin@example.com", "06 12 34 56 78", "Zoé Martin")
    text = "Quelles enseignes l'ont ? Je suis " + ", ".join(canaries)
    failure = ValueError(text)

    async def broken_resolver(_turn: Turn) -> Resolution:
        raise failure

    tracer = RecordingTracer()
    answers = ("KEEP", f"RESOLVE: {canaries[2]}", failure, text)
    all_deps = [
        build_deps(tracer, answer, search_s=0.0, answer_model=ScriptedModel(script=[failure]))
        for answer in answers
    ]
    all_deps.append(Deps(FakeRetriever(failure), reference_resolver=broken_resolver, tracer=tracer))
    messages = [*HISTORY, HumanMessage(text)]
    for deps in all_deps:
        turn = turn_from(text, HISTORY, company_name="Velmora", tenant_id="velmora")
        await asyncio.gather(*(retrieve(turn, deps) for _ in range(200)))
        await build_chat_graph(deps).ainvoke({"messages": messages})
    assert len(tracer.turns) == 1000 + len(all_deps)
    logged = [record.getMessage() + str(record.exc_info or "") for record in caplog.records]
    assert [line for line in logged if any(canary in line for canary in canaries)] == []
