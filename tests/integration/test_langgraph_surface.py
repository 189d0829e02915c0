"""The retrieval graph inside other people's graphs: as a node, called, beside siblings, checkpointed."""

from __future__ import annotations

import asyncio
import operator
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from blockbuster import blockbuster_ctx
from fakes import FakeRetriever, ScriptedModel, keeps, resolver_that, resolves_to
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph, add_messages
from langgraph.runtime import Runtime
from small_base import opened
from typing_extensions import TypedDict

from ixchat.graph import build_chat_graph, build_retrieval_graph
from ixchat.nodes.knowledge_retriever import Deps
from ixchat.state import ChatContext
from ixchat.utils.query_keywords import build_keyword_query, resolve_reference
from ixrag.lightrag.langgraph_retriever import LightRAGRetriever

ROOT = Path(__file__).parents[2]
CHAT: list[AnyMessage] = [
    HumanMessage("Which modules do you have?"),
    AIMessage("We have Badgeo."),
    HumanMessage("Which retailers already run it today?"),
]
RESOLVED = "Which retailers already run it today? — Badgeo"


def deps(retriever: FakeRetriever | None = None, **changes: Any) -> Deps:
    resolver = resolver_that(resolves_to("Badgeo"))
    wiring: dict[str, Any] = {"keyword_resolver": resolver, "reference_resolver": resolver}
    return Deps(retriever or FakeRetriever(), **{"tenant_id": "solvea", **wiring, **changes})


class HostState(TypedDict, total=False):
    """A host's state: keys of its own beside those it shares with retrieval."""

    messages: Annotated[list[AnyMessage], add_messages]
    documents: list[Document]
    retrieval: dict[str, Any]
    visits: Annotated[list[str], operator.add]
    mood: str


@dataclass(frozen=True)
class HostContext:
    """A host's context: fields of its own beside `tenant_id`."""

    tenant_id: str
    locale: str = "fr"


def in_host_graph(node: Any) -> Any:
    """A host's graph: retrieval, beside a sibling that writes shared keys and keys of its own."""

    async def sibling(_state: HostState) -> dict[str, Any]:
        return {"visits": ["sibling"], "mood": "curious", "messages": [AIMessage("One moment.", id="wait")]}

    graph = StateGraph(HostState, HostContext)
    graph.add_node("retrieval", node)
    graph.add_node("sibling", sibling)
    graph.add_edge(START, "retrieval")
    graph.add_edge(START, "sibling")
    return graph.compile()


def placings() -> dict[str, Any]:
    subgraph = build_retrieval_graph(deps())

    async def calls(state: HostState, runtime: Runtime[HostContext]) -> dict[str, Any]:
        context = ChatContext(tenant_id=runtime.context.tenant_id)
        return await subgraph.ainvoke({"messages": state["messages"]}, context=context)

    return {"as node": subgraph, "called": calls}


@pytest.mark.parametrize("placing", ["as node", "called"])
async def test_a_host_gets_what_retrieval_adds_and_nothing_twice(placing: str) -> None:
    graph = in_host_graph(placings()[placing])
    state = await graph.ainvoke({"messages": CHAT, "visits": ["host"]}, context=HostContext("solvea"))
    assert [document.page_content for document in state["documents"]] == ["a passage"]
    assert state["retrieval"]["query"] == RESOLVED
    assert sorted(state["visits"]) == ["host", "sibling"]
    assert [message.content for message in state["messages"]] == [m.content for m in CHAT] + ["One moment."]
    assert state["mood"] == "curious"


async def test_the_tenant_is_read_from_a_context_of_another_type() -> None:
    with pytest.raises(KeyError, match="unknown tenant 'another'"):
        await in_host_graph(placings()["as node"]).ainvoke({"messages": CHAT}, context=HostContext("another"))


async def test_a_single_tenant_graph_needs_no_context() -> None:
    state = await build_retrieval_graph(deps()).ainvoke({"messages": CHAT})
    assert state["retrieval"]["query"] == RESOLVED


async def test_one_graph_serves_many_runs_at_once_without_mixing_them() -> None:
    class Echo(FakeRetriever):
        async def ainvoke(self, input: str, **kwargs: Any) -> list[Document]:
            await asyncio.sleep(0.01)
            return [Document(input)]

    graph = build_retrieval_graph(deps(Echo(), reference_resolver=resolver_that(keeps)))
    chats = [[*CHAT[:2], HumanMessage(f"How long does installation number {n} take?")] for n in range(20)]
    states = await asyncio.gather(*(graph.ainvoke({"messages": chat}) for chat in chats))
    assert [state["documents"][0].page_content for state in states] == [chat[-1].content for chat in chats]


def test_the_synchronous_path_says_what_to_call_instead() -> None:
    with pytest.raises(TypeError, match="ainvoke"):
        build_retrieval_graph(deps()).invoke({"messages": CHAT})


# ---- streams


async def stream(graph: Any, *modes: str) -> list[tuple[str, Any]]:
    parts = graph.astream(
        {"messages": CHAT},
        context=ChatContext("solvea"),
        stream_mode=list(modes),
        subgraphs=True,
        version="v2",
    )
    return [(part["type"], part["data"]) async for part in parts]


async def test_custom_events_tell_the_turn_as_it_happens() -> None:
    slow = FakeRetriever(["raw"], ["resolved"], delay_s=0.02)
    graph = build_chat_graph(
        deps(slow, answer_model=GenericFakeChatModel(messages=iter([AIMessage("Two of them")])))
    )
    events = [data for _, data in await stream(graph, "custom")]
    told = [(event["event"], event.get("name") or event.get("path") or event.get("text")) for event in events]
    assert told[:4] == [
        ("path", "reference"),
        ("search_started", "early search"),
        ("decision", None),
        ("search_started", "second search"),
    ]
    assert ("search_cancelled", "early search") in told[4:]
    assert ("documents", "second search") in told[4:]
    assert "".join(event["text"] for event in events if event["event"] == "token") == "Two of them"


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(lambda: GenericFakeChatModel(messages=iter([AIMessage("Two of them")])), id="in tokens"),
        pytest.param(lambda: ScriptedModel(script=["Two of them"]), id="in one piece"),
        pytest.param(lambda: None, id="without a model"),
    ],
)
async def test_the_messages_stream_holds_the_answer_once_and_nothing_of_the_resolvers(model: Any) -> None:
    resolver_model = ScriptedModel(script=["KEEP"])

    async def check(turn: Any) -> Any:
        return await resolve_reference(turn, resolver_model)

    graph = build_chat_graph(deps(reference_resolver=check, answer_model=model()))
    parts = await stream(graph, "messages", "values")
    streamed = "".join(data[0].content for kind, data in parts if kind == "messages")
    assert streamed == parts[-1][1]["messages"][-1].content
    assert resolver_model.asked, "the check never ran: the test proves nothing"


# ---- checkpoints


@asynccontextmanager
async def in_memory(_folder: Path) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    yield InMemorySaver()


@asynccontextmanager
async def in_sqlite(folder: Path) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    sqlite = pytest.importorskip(
        "langgraph.checkpoint.sqlite.aio", reason="langgraph-checkpoint-sqlite missing"
    )
    async with sqlite.AsyncSqliteSaver.from_conn_string(str(folder / "threads.sqlite")) as saver:
        yield saver


@asynccontextmanager
async def in_postgres(_folder: Path) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    postgres = pytest.importorskip(
        "langgraph.checkpoint.postgres.aio", reason="langgraph-checkpoint-postgres or psycopg missing"
    )
    import psycopg

    server = "postgresql://postgres@127.0.0.1:5432/test"
    schema = f"ix_{uuid.uuid4().hex}"
    try:
        connection = await psycopg.AsyncConnection.connect(server, autocommit=True, connect_timeout=3)
    except psycopg.OperationalError:
        pytest.skip(f"no PostgreSQL server at {server}")
    async with connection:
        await connection.execute(f"create schema {schema}")
        try:
            address = f"{server}?options=-csearch_path%3D{schema}"
            async with postgres.AsyncPostgresSaver.from_conn_string(address) as saver:
                await saver.setup()
                yield saver
        finally:
            await connection.execute(f"drop schema {schema} cascade")


@pytest.mark.parametrize(
    "checkpointer",
    [
        pytest.param(in_memory, id="memory"),
        pytest.param(in_sqlite, id="sqlite"),
        pytest.param(in_postgres, id="postgres", marks=pytest.mark.service),
    ],
)
async def test_a_thread_goes_on_where_it_was_stored(checkpointer: Any, tmp_path: Path) -> None:
    retriever = FakeRetriever(["first"], ["second"])
    run: dict[str, Any] = {
        "config": {"configurable": {"thread_id": "visit-1"}},
        "context": ChatContext("solvea", session_id="visit-1"),
    }
    async with checkpointer(tmp_path) as saver:
        await build_chat_graph(deps(retriever), checkpointer=saver).ainvoke({"messages": CHAT[:1]}, **run)
        graph = build_chat_graph(deps(retriever), checkpointer=saver)  # another process
        state = await graph.ainvoke({"messages": CHAT[2:]}, **run)
        stored = (await graph.aget_state(run["config"])).values
    assert state["retrieval"]["path"] == "reference", "the first turn was not remembered"
    assert [message.type for message in stored["messages"]] == ["human", "ai", "human", "ai"]
    assert stored["documents"] == state["documents"]
    assert isinstance(stored["documents"][0], Document)
    assert stored["retrieval"] == state["retrieval"]


STRICT = """
import asyncio, sys, warnings
warnings.simplefilter("error")
sys.path.insert(0, "tests")
from fakes import FakeRetriever, resolver_that, resolves_to
from langgraph.checkpoint.memory import InMemorySaver
from ixchat import ChatContext, Deps, build_chat_graph

async def main():
    run = {"config": {"configurable": {"thread_id": "t"}}, "context": ChatContext("solvea")}
    deps = Deps(FakeRetriever(), reference_resolver=resolver_that(resolves_to("Badgeo")))
    graph = build_chat_graph(deps, checkpointer=InMemorySaver())
    await graph.ainvoke({"messages": [("user", "Which modules do you have?")]}, **run)
    done = await graph.ainvoke({"messages": [("user", "Which retailers already run it today?")]}, **run)
    stored = (await graph.aget_state(run["config"])).values
    assert stored == done, (stored, done)
    print(type(stored["documents"][0]).__name__, stored["retrieval"]["decision"])

asyncio.run(main())
"""


def test_the_state_survives_strict_serialisation() -> None:
    """LangGraph reads the switch when it is imported, hence the process."""
    done = subprocess.run(
        [sys.executable, "-c", STRICT],
        cwd=ROOT,
        env={**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["Document", "resolve"]


# ---- the event loop


@pytest.mark.parametrize(
    ("last", "path"),
    [
        pytest.param("Payroll", "keywords", id="short reply"),
        pytest.param("What does it cost for each employee?", "reference", id="longer follow-up"),
    ],
)
async def test_no_step_of_a_turn_blocks_the_event_loop(tmp_path: Path, last: str, path: str) -> None:
    """Real LightRAG on files; only the vectors and the model are stand-ins."""
    model = ScriptedModel(script=['{"low_level_keywords": ["payroll"], "high_level_keywords": ["hours"]}'])

    async def keywords(turn: Any) -> Any:
        return await build_keyword_query(turn, model)

    async with opened(tmp_path) as base:
        graph = build_chat_graph(
            Deps(
                LightRAGRetriever(knowledge_base=base, rag_mode="mix", tenant_id="orvelle"),
                keyword_resolver=keywords,
                reference_resolver=resolver_that(resolves_to("Brodal")),
            )
        )
        chat = [
            HumanMessage("Hello, who are you?"),
            AIMessage("We make Brodal. And you?"),
            HumanMessage(last),
        ]
        with blockbuster_ctx():
            state = await graph.ainvoke({"messages": chat})
    assert (state["retrieval"]["path"], state["retrieval"]["outcome"]) == (path, "found")
