"""However a turn is stopped, whatever it is doing, and wherever the node sits: nothing is left behind.

Three placings × six ways to stop × four paths, in virtual time, on real LangGraph.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from fakes import FakeRetriever, keeps, resolver_that, resolves_to, run_in_virtual_time
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from ixchat.graph import build_retrieval_graph
from ixchat.nodes.knowledge_retriever import Deps, OneTenant, retrieval_node
from ixchat.state import ChatContext, RetrievalInput, RetrievalOutput, RetrievalState
from ixinfra.tracing_tree import RecordingTracer, SpanRecord

CLEANUP_S = 0.02
STOP_S = 0.1  # in the middle of the first search of every path

HISTORY = [HumanMessage("Quels modules proposez-vous ?"), AIMessage("Nous proposons Badgeo.")]
SHORT = [*HISTORY, HumanMessage("Santé")]
LONG = [*HISTORY, HumanMessage("Quelles enseignes l'ont déjà installée ?")]

PATHS: dict[str, tuple[list[AnyMessage], str, Any]] = {
    "naive": (SHORT, "naive", resolver_that(keeps, delay_s=0.05)),
    "short": (SHORT, "mix", resolver_that(keeps, delay_s=0.05)),
    "keep": (LONG, "mix", resolver_that(keeps, delay_s=0.3)),
    "resolve": (LONG, "mix", resolver_that(resolves_to("Badgeo"), delay_s=0.05)),
}


async def _redirect(_turn: Any) -> str:
    await asyncio.sleep(STOP_S)
    return "A colleague takes over."


async def _failing_sibling(_state: RetrievalInput) -> dict[str, Any]:
    await asyncio.sleep(STOP_S)
    raise ValueError("sibling")


def place(placing: str, deps: Deps, *, sibling: bool) -> Any:
    """The node in a graph: as a function of it, as a compiled subgraph of it, or called by a node."""
    subgraph = build_retrieval_graph(deps)

    async def flat(
        state: RetrievalInput, runtime: Runtime[ChatContext], config: RunnableConfig
    ) -> RetrievalOutput:
        return await retrieval_node(state, runtime, tenants=OneTenant(deps), config=config)

    async def calls(state: RetrievalInput) -> dict[str, Any]:
        return await subgraph.ainvoke({"messages": state["messages"]}, context=ChatContext("solvea"))

    graph = StateGraph(RetrievalState, ChatContext)
    graph.add_node("retrieval", {"flat": flat, "as node": subgraph, "called": calls}[placing])
    graph.add_edge(START, "retrieval")
    if sibling:
        graph.add_node("sibling", _failing_sibling)
        graph.add_edge(START, "sibling")
    return graph.compile()


async def _timeout(graph: Any, state: Any) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(STOP_S):
            await graph.ainvoke(state, context=ChatContext("solvea"))


async def _cancel(graph: Any, state: Any) -> None:
    task = asyncio.create_task(graph.ainvoke(state, context=ChatContext("solvea")))
    await asyncio.sleep(STOP_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _aclose(graph: Any, state: Any) -> None:
    stream = graph.astream(state, context=ChatContext("solvea"), stream_mode="custom", subgraphs=True)
    async for _ in stream:
        await asyncio.sleep(STOP_S)
        break
    await stream.aclose()


async def _sibling_error(graph: Any, state: Any) -> None:
    with pytest.raises(ValueError, match="sibling"):
        await graph.ainvoke(state, context=ChatContext("solvea"))


async def _anyio_scope(graph: Any, state: Any) -> None:
    with anyio.move_on_after(STOP_S) as scope:
        await graph.ainvoke(state, context=ChatContext("solvea"))
    assert scope.cancelled_caught
    await asyncio.sleep(0.1)  # LangGraph hands an AnyIO cancellation on after the scope has returned


async def _redirected(graph: Any, state: Any) -> None:
    result = await graph.ainvoke(state, context=ChatContext("solvea"))
    assert (result["redirect"], result["documents"]) == ("A colleague takes over.", [])


STOPS: dict[str, Callable[[Any, Any], Awaitable[None]]] = {
    "timeout": _timeout,
    "task cancel": _cancel,
    "aclose": _aclose,
    "sibling error": _sibling_error,
    "AnyIO scope": _anyio_scope,
    "redirect": _redirected,
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("placing", ["flat", "as node", "called"])
def test_a_stopped_turn_leaves_nothing_behind(placing: str, stop: str, path: str) -> None:
    messages, mode, resolver = PATHS[path]
    retriever = FakeRetriever(["raw"], ["resolved"], rag_mode=mode, delay_s=1.0, cleanup_s=CLEANUP_S)
    tracer = RecordingTracer()
    deps = Deps(
        retriever,
        text_resolver=resolver,
        keyword_resolver=resolver,
        reference_resolver=resolver,
        tenant_id="solvea",
        tracer=tracer,
        redirect=_redirect if stop == "redirect" else None,
    )
    reported: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
        graph = place(placing, deps, sibling=stop == "sibling error")
        before = asyncio.all_tasks()
        await STOPS[stop](graph, {"messages": messages})
        assert retriever.calls, "the turn was stopped before it searched: the test proves nothing"
        assert retriever.cancelled >= 1
        assert retriever.cleaned_up == retriever.cancelled, "returned before the search had cleaned up"
        assert asyncio.all_tasks() == before

    if stop == "AnyIO scope":  # it cancels again at every step of the loop, so virtual time would stand still
        asyncio.run(main())
    else:
        run_in_virtual_time(main())
    assert reported == []
    expected = "redirected" if stop == "redirect" else "client_gone"
    searches = [span for span in _flatten(tracer) if span.name == "tool-lightrag-retrieval"]
    assert searches[-1].cancel_cause == expected
    assert all(span.end_ms is not None for span in _flatten(tracer))


def _flatten(tracer: RecordingTracer) -> list[SpanRecord]:
    def walk(span: SpanRecord) -> list[SpanRecord]:
        return [span, *(below for child in span.children for below in walk(child))]

    return [span for turn in tracer.turns for root in turn.spans for span in walk(root)]
