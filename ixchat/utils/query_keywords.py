"""The two resolvers of a tenant that has a graph: keywords for a short reply, a name for a longer follow-up."""

from __future__ import annotations

from ixchat.utils.gate import MAX_RESOLVE_WORDS, should_resolve
from ixchat.utils.names import append_name

__all__ = ["MAX_RESOLVE_WORDS", "append_name", "should_resolve"]
