"""`ix chat`: a conversation in the terminal."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage
from rich.console import Console

from ixchat.commands import show
from ixchat.graph import ChatGraph, build_chat_graph, open_tenants
from ixchat.state import ChatContext
from ixinfra.config.settings import Settings
from ixinfra.tracing_tree import RecordingTracer

HELP = "/why shows the last decision, /new starts over, /quit ends."


@dataclass(slots=True)
class Conversation:
    """What has been said, and the record of the last turn."""

    messages: list[AnyMessage] = field(default_factory=list)
    last: dict[str, Any] | None = None


async def run(settings: Settings, console: Console, *, tenant: str) -> None:
    """Read lines until /quit or the end of input."""
    tracer = RecordingTracer()
    async with open_tenants(settings, tracer=tracer) as tenants:
        async with tenants.lend(tenant) as deps:  # opens it now: a wrong name is told before the first line
            company = deps.company_name or tenant
        graph = build_chat_graph(tenants)
        console.print(f"[bold]{company}[/] ({tenant}, {deps.retriever.rag_mode}). {HELP}")
        conversation = Conversation()
        while (line := await _read_line()) is not None and line != "/quit":
            if line == "/new":
                conversation = Conversation()
            elif line == "/why":
                _why(console, conversation, tracer)
            elif line.startswith("/"):
                console.print(f"unknown command {line!r}. {HELP}", markup=False)
            elif line:
                tracer.take()
                await _turn(graph, console, conversation, line, tenant)


async def _turn(
    graph: ChatGraph, console: Console, conversation: Conversation, line: str, tenant: str
) -> None:
    messages = [*conversation.messages, HumanMessage(line)]
    state: dict[str, Any] = await graph.ainvoke({"messages": messages}, context=ChatContext(tenant))
    conversation.messages, conversation.last = state["messages"], state
    console.print(str(state["messages"][-1].content), markup=False, highlight=False)
    console.print(show.decision_line(state["retrieval"]))


def _why(console: Console, conversation: Conversation, tracer: RecordingTracer) -> None:
    if conversation.last is None:
        console.print("nothing has been said yet")
        return
    record = conversation.last["retrieval"]
    spans = [span for turn in tracer.turns for span in turn.spans]
    console.print(show.turn_panel(record["message"], record, conversation.last["documents"], spans))


async def _read_line() -> str | None:
    try:
        return (await asyncio.to_thread(input, "› ")).strip()
    except EOFError:
        return None
