"""What travels through the graphs: plain state, and the values of one run.

State holds JSON types, messages and Documents only, so any checkpointer can store it. Live objects
are in `Deps`; who is talking to whom is in `ChatContext`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any

from langchain_core.documents import Document
from langchain_core.messages import AnyMessage
from langgraph.graph import add_messages
from typing_extensions import TypedDict


class RetrievalInput(TypedDict):
    """Messages of the conversation, the visitor's current message last."""

    messages: Annotated[list[AnyMessage], add_messages]


class RetrievalOutput(TypedDict, total=False):
    """What the retrieval graph adds.

    `documents` are best first. `retrieval` is the decision record of the turn (JSON).
    `redirect` is the reply that ended the turn instead, or None.
    """

    documents: list[Document]
    retrieval: dict[str, Any]
    redirect: str | None


class RetrievalState(RetrievalInput, RetrievalOutput):
    """Input and output of the retrieval graph."""


class ChatState(RetrievalState):
    """State of the chat graph: the answer is appended to `messages`."""


@dataclass(frozen=True, slots=True)
class ChatContext:
    """Values of one run; a server builds it from a request, so it holds strings and numbers alone.

    Attributes:
        tenant_id: Whose knowledge base is searched. May stay empty in a single-tenant graph.
        company_name: Overrides the tenant's configured company name.
        session_id: Conversation, put on every span.
        user_id: Visitor, put on every span.
        effort: How much this run may spend on resolution: `off`, `local`, `check` or `full`; see
            `ixchat.effort`.
        budget_s: Longest wait for a resolver, in seconds; 0 keeps the configured deadlines.
    """

    tenant_id: str = ""
    company_name: str = ""
    session_id: str = ""
    user_id: str = ""
    effort: str = "check"
    budget_s: float = 0.0


def chat_context(given: Any) -> ChatContext:
    """Read a `ChatContext` from whatever the run carries.

    Inside a parent graph the run's context is the parent's object, of the parent's type: its fields
    of the same names are taken, the others keep their defaults. None gives the defaults.
    """
    if isinstance(given, ChatContext):
        return given
    values: dict[str, Any] = {}
    for item in fields(ChatContext):
        value = given.get(item.name) if isinstance(given, Mapping) else getattr(given, item.name, None)
        if isinstance(value, int | float if item.name == "budget_s" else str):
            values[item.name] = value
    return ChatContext(**values)
