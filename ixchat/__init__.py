"""Needs the conversation: decides what a turn should search for, and searches."""

from ixchat.graph import build_chat_graph, build_retrieval_graph, open_tenants
from ixchat.nodes.knowledge_retriever import Deps, Plan, Tenants, choose, retrieve
from ixchat.nodes.record import Retrieval
from ixchat.state import ChatContext
from ixchat.streaming import stream_graph
from ixchat.utils.history import turn_from
from ixchat.utils.query_intent import resolve_search_query
from ixchat.utils.query_keywords import build_keyword_query, resolve_reference, should_resolve
from ixchat.utils.resolution import KeywordQuery, Resolution, Resolver, Turn

__all__ = [
    "ChatContext",
    "Deps",
    "KeywordQuery",
    "Plan",
    "Resolution",
    "Resolver",
    "Retrieval",
    "Tenants",
    "Turn",
    "build_chat_graph",
    "build_keyword_query",
    "build_retrieval_graph",
    "choose",
    "open_tenants",
    "resolve_reference",
    "resolve_search_query",
    "retrieve",
    "should_resolve",
    "stream_graph",
    "turn_from",
]
