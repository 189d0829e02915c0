"""A thread's working memory, kept in LangGraph's store, resolves a short reply. Run: `python examples/working_memory.py`.

Needs no key and no network: the chat model and the engine are stand-ins. Put in their place
`build_chat_model(settings.models.query_rewriter)` and a `LightRAGRetriever`, or set
`[query_rewriter] strategy = "memory"` and let `open_tenants` do both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from langgraph.store.memory import InMemoryStore

from ixchat import build_retrieval_graph
from ixchat.nodes.knowledge_retriever import Deps
from ixchat.state import ChatContext, RetrievalState
from ixchat.utils.memory_recall import recall_from_store
from ixchat.utils.memory_rewriter import memory_resolver
from ixinfra.config.settings import RagMode

TENANT, THREAD = "acme", "thread-7"
CONVERSATION: list[AnyMessage] = [
    HumanMessage("Good morning"),
    AIMessage("Good morning! Shall I look up how to correct it?"),
    HumanMessage("Yes please"),
]


class PrintingEngine:
    """Stands in for a knowledge base: prints what it is asked."""

    rag_mode: RagMode = "naive"

    async def ainvoke(self, input: str, **kwargs: Any) -> Sequence[Document]:
        print(f"searched: {input!r}")
        return [Document("An invoice that is paid can be corrected for twelve months.")]


async def main() -> None:
    """Ask the same thing with and without a memory of the thread."""
    store = InMemoryStore()
    await store.aput(
        ("working_memory", TENANT),
        THREAD,
        {
            "summary": "The visitor paid an invoice that names the wrong branch.",
            "facts": {"product": "Velmora Billing"},
        },
    )
    model = FakeListChatModel(responses=['"correct the branch on a paid invoice in Velmora Billing"'])
    deps = Deps(
        PrintingEngine(),
        text_resolver=memory_resolver(model, recall_from_store(), enabled=True),
        tenant_id=TENANT,
    )
    # The store belongs to the host's graph; the retrieval graph inside it sees the same one.
    host = StateGraph(RetrievalState, ChatContext)
    host.add_node("retrieval", build_retrieval_graph(deps))
    host.set_entry_point("retrieval")
    graph = host.compile(checkpointer=InMemorySaver(), store=store)
    for thread_id in (THREAD, "a thread without memory"):
        config: Any = {"configurable": {"thread_id": thread_id}}
        state = await graph.ainvoke({"messages": CONVERSATION}, config, context=ChatContext(TENANT))
        record = state["retrieval"]
        print(f"  {thread_id}: {record['decision']}, fallback {record['fallback']}")


if __name__ == "__main__":
    asyncio.run(main())
