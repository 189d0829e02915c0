"""The values a turn is made of: what came in (`Turn`) and what retrieval will be given (`Resolution`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Role = Literal["user", "assistant"]
Decision = Literal["raw", "resolve", "keep", "ambiguous", "error"]

Rejected = Literal["not_in_history", "company", "already_named", "too_long"]
"""Why a proposed name was not appended."""

Fallback = Literal[
    "disabled",  # the switch is off
    "first_turn",  # no earlier turn: nothing to resolve
    "gate_declined",  # searchable as written
    "no_memory",  # the thread has neither summary nor facts yet
    "timeout",  # the model, or the resolver as a whole, missed its deadline
    "model_error",  # the model call raised
    "quota",  # the tenant has used up its model calls or tokens of this minute
    "resolver_error",  # the resolver itself raised
    "empty",  # the model answered nothing
    "none",  # the model answered NONE or a placeholder
    "unparsable",  # the answer is not in the agreed form
    "incomplete",  # one of the two keyword lists is missing
    "scaffold",  # the answer is the model's own reasoning
    "not_in_history",
    "company",
    "already_named",
    "too_long",
    "search_failed",  # the resolved search failed; the visitor's words were searched instead
]
"""Why the visitor's own words are searched although resolution was possible. None on success.

KEEP and AMBIGUOUS are successes: `decision` says it, `fallback` stays None.
"""

MAX_LL_KEYWORDS = 5
MAX_HL_KEYWORDS = 3

FALLBACKS: tuple[str, ...] = get_args(Fallback)
REJECTIONS: tuple[str, ...] = get_args(Rejected)


@dataclass(frozen=True, slots=True)
class Message:
    """One user or assistant message with text; `content` is plain text, never blank."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One visitor message and the conversation before it.

    Attributes:
        query: The visitor's message, unchanged.
        messages: User and assistant messages before it, oldest first. Build it from what a host
            has with `ixchat.utils.history.turn_from`, which accepts any shape.
        company_name: The company whose site this is; never appended to a query as a name.
        tenant_id: Key of every cache and trace; empty means nothing is cached.
    """

    query: str
    messages: Sequence[Message] = ()
    company_name: str = ""
    tenant_id: str = ""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What retrieval will be given for one turn, and why.

    Attributes:
        query: Text for the vector channel (and for LightRAG's own keyword extraction).
        decision: What was decided; `raw` when no resolver ran.
        fallback: Reason why the visitor's own words stand, None on success.
        trace: JSON facts for the span and the decision record: `entity`, `rejected`, `model`,
            `provider`, `evidence`, ...
    """

    query: str
    decision: Decision = "raw"
    fallback: Fallback | None = None
    trace: Mapping[str, Any] = field(default_factory=dict)

    @property
    def retriever_kwargs(self) -> dict[str, list[str]]:
        """Keyword arguments for the retriever's `ainvoke`: both keyword lists, or an empty dict."""
        return {}

    def changes(self, turn: Turn) -> bool:
        """Whether retrieval gets anything but the visitor's own words."""
        return self.query != turn.query or bool(self.retriever_kwargs)


@dataclass(frozen=True, slots=True)
class KeywordQuery(Resolution):
    """A resolution into the graph channel: the visitor's words plus two keyword lists.

    Both lists or neither: LightRAG skips its own extraction as soon as one list is there, so a
    half-filled pair would switch a channel off.

    Attributes:
        ll_keywords: Entity and specific terms, at most 5.
        hl_keywords: Relation and theme terms, at most 3.

    Raises:
        ValueError: Exactly one of the lists is empty.
    """

    ll_keywords: tuple[str, ...] = ()
    hl_keywords: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.ll_keywords) != bool(self.hl_keywords):
            raise ValueError("graph keywords come in both lists or in neither")

    @property
    def retriever_kwargs(self) -> dict[str, list[str]]:
        """`{"ll_keywords": [...], "hl_keywords": [...]}`, or `{}` when there are none."""
        if not self.ll_keywords:
            return {}
        return {"ll_keywords": list(self.ll_keywords), "hl_keywords": list(self.hl_keywords)}

    @property
    def vector_text(self) -> str:
        """The query with the keywords appended; for evaluation arms, not the shipping path."""
        return " ".join([self.query, *self.ll_keywords, *self.hl_keywords])


@dataclass(frozen=True, slots=True)
class MissingWord:
    """A word of the conversation the message lacks.

    Attributes:
        text: As the conversation writes it; folded where only the passages behind its answers hold it.
        share: Probability that it is the one the message lacks most, 0 to 1.
        weight: Weight beside the message's own words in a search of written words; 1 is as good as typed.
        evidence: Where it stands in the conversation, as JSON facts; None for a word of the passages alone.
    """

    text: str
    share: float
    weight: float
    evidence: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Missing:
    """What a message lacks.

    Attributes:
        need: Probability that it lacks anything, 0 to 1.
        words: The words, likeliest first.
        problem: Class name of what kept the passages behind earlier answers away; None where nothing did.
    """

    need: float = 0.0
    words: tuple[MissingWord, ...] = ()
    problem: str | None = None

    @property
    def retriever_kwargs(self) -> dict[str, dict[str, float]]:
        """`{"missing_words": {word: weight}}` for the retriever's `ainvoke`, or `{}` when there are none."""
        return {"missing_words": {word.text: word.weight for word in self.words}} if self.words else {}

    def as_record(self) -> dict[str, Any]:
        """JSON facts for the decision record: the words by weight."""
        words = [{"word": word.text, "weight": round(word.weight, 3)} for word in self.words]
        return {"need": round(self.need, 3), "words": words, "problem": self.problem}


Weigher = Callable[[Turn], Awaitable[Missing]]
"""Finds the words a message lacks, to be weighed beside it in a search of written words."""

Resolver = Callable[[Turn], Awaitable[Resolution]]
"""`Turn` in, `Resolution` out. An expected failure is a value with a reason, never an exception."""


async def keep_raw(turn: Turn) -> Resolution:
    """The visitor's own words, no keywords."""
    return Resolution(turn.query)
