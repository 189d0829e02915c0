"""A question to a model as caches see it: everything that would change the answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b

from ixrag.query.cache import CacheKey, cache_key
from ixrag.query.listing import comparable


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to a model, and all that its answer depends on.

    Attributes:
        tenant_id: Whose visitor asks; empty means that nothing is kept.
        kind: What is wanted, such as `rewrites`; letters and hyphens.
        query: The visitor's message; case, blanks, Unicode form and closing punctuation make no difference.
        model: Id of the model.
        prompt: Version and text of the prompt.
        also: Anything else, such as the number of texts or the version of a glossary.
        language: ISO 639 code to assume where the query does not show its own.
        history: The part of the conversation that was shown to the model; empty where none was. An answer
            that depends on a conversation is found again for the same conversation alone.
    """

    tenant_id: str
    kind: str
    query: str
    model: str
    prompt: str
    also: tuple[str | int, ...] = ()
    language: str = ""
    history: tuple[str, ...] = ()

    @property
    def key(self) -> CacheKey | None:
        """Name of the entry; None without a tenant."""
        history = _digest(*self.history) if self.history else ""
        return cache_key(self.tenant_id, self.kind, self.scope, history, comparable(self.query))

    @property
    def scope(self) -> str:
        """Digest of what the answer depends on besides query and conversation."""
        return _digest(self.kind, self.model, self.prompt, *map(repr, self.also))


def _digest(*parts: str) -> str:
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()
