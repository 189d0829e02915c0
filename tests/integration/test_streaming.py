"""A streamed turn that is left early has stopped and cleaned up by then, under AnyIO, too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from fakes import FakeRetriever
from langchain_core.messages import HumanMessage
from langgraph.graph import START, StateGraph

from ixchat.graph import build_retrieval_graph
from ixchat.nodes.knowledge_retriever import Deps
from ixchat.state import RetrievalInput, RetrievalOutput, RetrievalState
from ixchat.streaming import in_own_task, stream_graph

CHAT = {"messages": [HumanMessage("Which retailers already run it today?")]}
OPTIONS: dict[str, Any] = {"stream_mode": "custom", "subgraphs": True, "version": "v2"}


def graph_beside_a_sibling(retriever: FakeRetriever) -> Any:
    """Two parallel nodes: the placing in which LangGraph alone leaves work running under AnyIO."""

    async def sibling(_state: RetrievalInput) -> RetrievalOutput:
        await asyncio.sleep(30)
        return {}

    graph = StateGraph(RetrievalState)
    graph.add_node("retrieval", build_retrieval_graph(Deps(retriever)))
    graph.add_node("sibling", sibling)
    graph.add_edge(START, "retrieval")
    graph.add_edge(START, "sibling")
    return graph.compile()


async def read(graph: Any, started: asyncio.Event) -> None:
    async with stream_graph(graph, CHAT, **OPTIONS) as parts:
        async for part in parts:
            if part["data"]["event"] == "search_started":
                started.set()


async def anyio_scope(graph: Any) -> None:
    started = asyncio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(read, graph, started)
        await started.wait()
        group.cancel_scope.cancel()


async def task_cancel(graph: Any) -> None:
    started = asyncio.Event()
    task = asyncio.create_task(read(graph, started))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def leave_the_loop(graph: Any) -> None:
    async with stream_graph(graph, CHAT, **OPTIONS) as parts:
        async for part in parts:
            if part["data"]["event"] == "search_started":
                break


async def fail_while_reading(graph: Any) -> None:
    async def read_and_fail() -> None:
        async with stream_graph(graph, CHAT, **OPTIONS) as parts:
            async for part in parts:
                if part["data"]["event"] == "search_started":
                    raise ConnectionError

    with pytest.raises(ConnectionError):
        await read_and_fail()


@pytest.mark.parametrize("leave", [anyio_scope, task_cancel, leave_the_loop, fail_while_reading])
async def test_leaving_a_stream_stops_the_turn_first(leave: Callable[[Any], Awaitable[None]]) -> None:
    retriever = FakeRetriever(delay_s=30, cleanup_s=0.02)
    before = asyncio.all_tasks()
    await leave(graph_beside_a_sibling(retriever))
    assert (len(retriever.calls), retriever.cancelled, retriever.cleaned_up) == (1, 1, 1)
    assert asyncio.all_tasks() == before


async def test_every_part_arrives_in_order_however_slow_the_reader() -> None:
    ahead = 0

    async def count(put: Callable[[int], Awaitable[None]]) -> None:
        nonlocal ahead
        for number in range(50):
            await put(number)
            ahead = number

    read: list[int] = []
    async with in_own_task(count, room=4) as numbers:
        async for number in numbers:
            read.append(number)
            assert ahead <= number + 6, "the run did not wait for its reader"
            await asyncio.sleep(0)
    assert read == list(range(50))


async def test_what_the_graph_raises_reaches_the_reader() -> None:
    async def fail(put: Callable[[str], Awaitable[None]]) -> None:
        await put("first")
        raise LookupError("gone")

    async def read() -> None:
        async with in_own_task(fail) as stream:
            async for part in stream:
                parts.append(part)  # noqa: PERF401 - a comprehension would lose what came before the failure

    parts: list[str] = []
    with pytest.raises(LookupError, match="gone"):
        await read()
    assert parts == ["first"]
