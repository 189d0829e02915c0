"""Where a thread's working memory is kept: in the store of the LangGraph run that is being served."""

from __future__ import annotations

from collections.abc import Mapping

from langgraph.config import get_config, get_store
from langgraph.store.base import BaseStore

from ixchat.utils.memory_rewriter import Recall, WorkingMemory
from ixchat.utils.resolution import Turn

NAMESPACE = ("working_memory",)


def recall_from_store(namespace: tuple[str, ...] = NAMESPACE) -> Recall:
    """Finds the memory that the host wrote for this thread: `{"summary": "...", "facts": {...}}`.

    It is looked up under `(*namespace, tenant id)` with the thread id as key, in the store the graph was
    compiled with. Without store, thread or tenant the memory is empty: a thread id alone could be
    another tenant's.
    """

    async def recall(turn: Turn) -> WorkingMemory:
        store, thread_id = _store(), _thread_id()
        if store is None or not thread_id or not turn.tenant_id:
            return WorkingMemory()
        item = await store.aget((*namespace, turn.tenant_id), thread_id)
        return WorkingMemory() if item is None else working_memory_from(item.value)

    return recall


def working_memory_from(value: Mapping[str, object]) -> WorkingMemory:
    """Read a memory from JSON, as a store or a checkpoint holds it; what is missing or odd is left out."""
    summary, facts = value.get("summary"), value.get("facts")
    known = facts.items() if isinstance(facts, Mapping) else ()
    return WorkingMemory(
        summary if isinstance(summary, str) else "",
        {str(name): str(fact) for name, fact in known if fact not in (None, "")},
    )


def _store() -> BaseStore | None:
    try:
        return get_store()
    except (RuntimeError, KeyError):  # outside a run
        return None


def _thread_id() -> str:
    try:
        return str(get_config().get("configurable", {}).get("thread_id") or "")
    except RuntimeError:  # outside a run
        return ""
