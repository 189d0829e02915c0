"""Turns behind a web application of one's own, as server-sent events. FastAPI takes the same functions.

Run: `uvicorn examples.web_app:app`, then

    curl -N localhost:8000/chat -d '{"tenant": "advanced", "messages": [["user", "Do you plan shifts?"]]}'
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langgraph.pregel import Pregel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from ixchat import ChatContext, build_chat_graph, open_tenants, stream_graph
from ixinfra import get_config


async def chat(request: Request) -> StreamingResponse:
    """POST /chat."""
    asked = await request.json()
    return StreamingResponse(events(request.app.state.graph, asked), media_type="text/event-stream")


async def events(graph: Pregel[Any, Any, Any, Any], asked: dict[str, Any]) -> AsyncIterator[str]:
    """What happens, while it happens; then the answer and the decision.

    A visitor who closes the page ends the block, and with it the turn. `graph.astream` alone would run on:
    Starlette stops a response through an AnyIO scope, which LangGraph does not see.
    """
    last: dict[str, Any] = {}
    async with stream_graph(
        graph,
        {"messages": asked["messages"]},
        context=ChatContext(asked["tenant"]),
        stream_mode=["custom", "values"],
        subgraphs=True,  # retrieval is a subgraph: without this its events are not seen
        version="v2",
    ) as parts:
        async for part in parts:
            if part["type"] == "custom":
                yield event(part["data"])
            elif not part["ns"]:
                last = part["data"]
    yield event(
        {"event": "done", "answer": last["messages"][-1].text, "decision": last["retrieval"]["decision"]}
    )


def event(facts: dict[str, Any]) -> str:
    """One server-sent event."""
    return f"data: {json.dumps(facts, ensure_ascii=False)}\n\n"


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """One graph for the life of the process; each tenant is opened when a turn first needs it."""
    async with open_tenants(get_config("development")) as tenants:
        app.state.graph = build_chat_graph(tenants)
        yield


routes = [Route("/chat", chat, methods=["POST"])]
app = Starlette(routes=routes, lifespan=lifespan)
