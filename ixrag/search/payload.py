"""What is stored beside a passage's vectors, and the document that comes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.documents import Document

from ixrag.search.index import Entry, Hit

TENANT = "tenant"
LANG = "lang"
PASSAGE = "passage_id"
RETURNED = [TENANT, PASSAGE, LANG, "text", "source", "title"]


def payload_of(tenant: str, entry: Entry) -> dict[str, Any]:
    """The facts of a passage, as JSON."""
    return {
        TENANT: tenant,
        PASSAGE: entry.id,
        LANG: entry.lang,
        "text": entry.text,
        "source": entry.source,
        "title": entry.title,
        "digest": entry.digest,
    }


def hit(payload: Mapping[str, Any] | None, score: float, tenant: str) -> Hit:
    """A hit as its payload tells it.

    Raises:
        ValueError: It belongs to another tenant. No filter can have let it through, so whatever answered
            is not to be trusted.
    """
    facts = payload or {}
    if facts.get(TENANT) != tenant:
        raise ValueError("the index returned a passage of another tenant")
    passage_id = str(facts[PASSAGE])
    metadata = {
        "kind": "chunk",
        "chunk_id": passage_id,
        "passage_id": passage_id,
        "source": facts.get("source") or passage_id,
        "title": facts.get("title", ""),
        "lang": facts.get(LANG, ""),
    }
    return Hit(passage_id, score, Document(page_content=str(facts["text"]), id=passage_id, metadata=metadata))
