"""Which texts are searched for one understood query, and where each of them goes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from ixrag.query.listing import distinct
from ixrag.query.understanding import UnderstoodQuery

Channel = Literal["lexical", "dense", "graph"]
"""What a search looks at: words, vectors of passages, entities and relations."""

Component = Literal["rewriter", "decomposer", "glossary", "hyde"]
COMPONENTS: tuple[Component, ...] = get_args(Component)

Wanted = Mapping[Channel, Collection[Component]]
"""The components whose finds each channel is searched with."""

EVERYWHERE: Wanted = {
    "lexical": ("rewriter", "decomposer", "glossary"),
    "dense": ("decomposer", "hyde"),
    "graph": ("decomposer", "glossary"),
}
"""Where each component's forms are most at home: other wordings for words, made-up answers for vectors."""

FORM_WEIGHT = 0.5  # the visitor's own words weigh 1
SAYS_THE_SAME: tuple[Component, ...] = ("rewriter", "hyde")  # its forms share one weight


@dataclass(frozen=True, slots=True)
class Form:
    """One text to search besides the visitor's own.

    Attributes:
        text: What is searched.
        component: Where it came from.
        channels: Where it is searched.
        weight: Its say in the fused ranking; the visitor's own words have 1.
        vector: Searched instead of the text's own vector, unit length; None for none.
    """

    text: str
    component: Component
    channels: frozenset[Channel]
    weight: float = FORM_WEIGHT
    vector: tuple[float, ...] | None = None


def forms(understood: UnderstoodQuery, wanted: Wanted) -> list[Form]:
    """Every form that some channel wants, without the visitor's own words. No I/O.

    Rewrites say the same thing in several ways and share one weight, so three of them do not outvote the
    visitor; each question of a split query has a whole one. A text that two components found is searched
    once, for the channels of both.
    """
    found: dict[str, Form] = {}
    for component in COMPONENTS:
        channels = frozenset(channel for channel, components in wanted.items() if component in components)
        texts = _texts(understood, component) if channels else []
        for text in texts:
            known = found.get(text)
            both = channels | known.channels if known else channels
            share = len(texts) if component in SAYS_THE_SAME else 1
            weight = FORM_WEIGHT / share + (known.weight if known else 0.0)
            vector = _vector(understood) if component == "hyde" else None
            found[text] = Form(text, known.component if known else component, both, weight, vector)
    return list(found.values())


def expanded_text(understood: UnderstoodQuery) -> str:
    """The query followed by every synonym that it does not hold itself."""
    synonyms = [word for words in understood.expansion_terms.values() for word in words]
    own = understood.original_text
    return " ".join([own, *(word for word in distinct(synonyms) if word.casefold() not in own.casefold())])


def _texts(understood: UnderstoodQuery, component: Component) -> list[str]:
    own = understood.original_text
    if component == "rewriter":
        return distinct(understood.rewrites, other_than=[own])
    if component == "decomposer":
        return distinct(understood.sub_queries, other_than=[own])
    if component == "glossary":
        return distinct([expanded_text(understood)], other_than=[own])
    # One search for all made-up passages where they have a mean vector, else one for each.
    documents = understood.hyde_documents
    return documents[:1] if understood.hyde_vector is not None else list(documents)


def _vector(understood: UnderstoodQuery) -> tuple[float, ...] | None:
    return None if understood.hyde_vector is None else tuple(understood.hyde_vector)
