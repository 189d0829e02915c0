"""Who asks: the two facts about a query that are not in its text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryContext:
    """What every component of query understanding is told besides the query.

    Attributes:
        tenant_id: Part of every cache key; empty means nothing is cached.
        language: ISO 639 code to assume where the text does not show its own language.
    """

    tenant_id: str
    language: str = ""
