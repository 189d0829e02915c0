"""Retrieval as a node of a chat graph that exists already, beside a branch that may end the turn early.

Run: `python examples/existing_graph.py`. Needs the extra `local`, no key and no network.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import START, StateGraph, add_messages
from typing_extensions import TypedDict

from ixchat import Deps, Tenants, Turn, build_retrieval_graph, open_tenants
from ixinfra import get_config


class ShopState(TypedDict, total=False):
    """The shop's own state. Retrieval reads `messages` and writes the next three keys."""

    messages: Annotated[list[AnyMessage], add_messages]
    documents: list[Document]
    retrieval: dict[str, Any]
    redirect: str | None
    basket: list[str]


@dataclass(frozen=True)
class ShopContext:
    """The shop's own context. Retrieval reads the fields it knows: `tenant_id` here."""

    tenant_id: str
    currency: str = "EUR"


async def hand_over(turn: Turn) -> str | None:
    """Runs beside retrieval. A reply ends the turn: whatever is being searched is cancelled."""
    await asyncio.sleep(0)  # a shop would ask its own classifier here
    return "A colleague takes over." if "human" in turn.query else None


@dataclass(frozen=True)
class WithHandover:
    """The configured tenants, each with the branch above."""

    tenants: Tenants

    @asynccontextmanager
    async def lend(self, tenant_id: str) -> AsyncIterator[Deps]:
        async with self.tenants.lend(tenant_id) as deps:
            yield replace(deps, redirect=hand_over)


async def answer(state: ShopState) -> ShopState:
    """The shop's own answer node."""
    reply = state["redirect"]
    if reply is None:
        assert state["documents"]  # best first; your answer model reads them here
        reply = f"Found something for “{state['retrieval']['query']}”."
    return {"messages": [AIMessage(reply)]}


async def main() -> None:
    """Two turns: one that is answered from the knowledge base, one that is handed over."""
    chat: list[AnyMessage] = [
        HumanMessage("Do you have a tool that keeps track of stock?"),
        AIMessage("Yes, Stokarel counts stock and deliveries. Shall I tell you more?"),
    ]
    async with open_tenants(get_config("development")) as tenants:
        graph = StateGraph(ShopState, ShopContext)
        graph.add_node("retrieval", build_retrieval_graph(WithHandover(tenants)))
        graph.add_node("answer", answer)
        graph.add_edge(START, "retrieval")
        graph.add_edge("retrieval", "answer")
        shop = graph.compile()
        for message in ("Which retailers already run it?", "May I talk to a human about my contract?"):
            state = await shop.ainvoke(
                {"messages": [*chat, HumanMessage(message)], "basket": ["Planivaro"]},
                context=ShopContext("advanced"),
            )
            print(state["messages"][-1].content)


if __name__ == "__main__":
    asyncio.run(main())
