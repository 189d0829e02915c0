"""Graph keywords without a model: the tenant's names in a query, and the words that carry its theme."""

from __future__ import annotations

from ixrag.names import NameIndex
from ixrag.words import fold_word, words

MAX_LL_KEYWORDS = 5
MAX_HL_KEYWORDS = 3


def extract_keywords(query: str, names: NameIndex) -> tuple[list[str], list[str]]:
    """Entity terms and theme terms of a query, for LightRAG's low- and high-level channels.

    Args:
        query: Any text.
        names: Entity names and aliases of the knowledge base.

    Returns:
        `(ll, hl)`, at most 5 and 3, in the order of the query; both empty only for a blank query.
    """
    hits = names.find(query)
    covered = [(hit.start, hit.end) for hit in hits]
    content = [
        query[word.start : word.end]
        for word in words(query)
        if fold_word(word.folded) and not any(start <= word.start < end for start, end in covered)
    ]
    named = list(dict.fromkeys(hit.name for hit in hits))
    whole = [query.strip()] if query.strip() else []
    ll = (named or content or whole)[:MAX_LL_KEYWORDS]
    hl = (content or named or whole)[:MAX_HL_KEYWORDS]
    return ll, hl
