"""Needs only a query string: knowledge bases, searches, and what a query can be expanded to."""

from ixrag.lightrag.knowledge_base import KnowledgeBase, build_knowledge_base, open_knowledge_base
from ixrag.lightrag.langgraph_retriever import LightRAGRetriever

__all__ = ["KnowledgeBase", "LightRAGRetriever", "build_knowledge_base", "open_knowledge_base"]
