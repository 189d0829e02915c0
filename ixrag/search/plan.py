"""Which text goes to which index: decided before anything is asked, and explainable."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ixrag.query.forms import Component, Form
from ixrag.search.index import CHANNELS, Channel

MAX_PROBES = 12

Source = Literal["query", "keywords"] | Component
Skipped = Literal["budget", "no_passage_in_language", "same_text"]

# The forms of a component go to these channels, best first: made-up answers look like passages, synonyms
# are words, the questions of a split query are questions.
AT_HOME: dict[Source, tuple[Channel, ...]] = {
    "query": ("dense", "bm25", "sparse"),
    "keywords": ("bm25",),
    "decomposer": ("dense", "bm25", "sparse"),
    "glossary": ("bm25", "sparse"),
    "rewriter": ("bm25", "dense"),
    "hyde": ("dense",),
}
WHY: dict[Source, str] = {
    "query": "the message itself is asked everywhere, and weighs most",
    "keywords": "chosen terms are words",
    "decomposer": "each question of the message is a question of its own",
    "glossary": "synonyms are words, and learned terms",
    "rewriter": "other wordings help an index of words most, and meaning a little",
    "hyde": "a made-up answer looks like a passage, so its vector is searched",
}
WHY_NOT: dict[Skipped, str] = {
    "budget": "the calls of one search are used up by what finds more",
    "no_passage_in_language": "no passage is in this language: words would find what is spelt alike",
    "same_text": "this text is asked there already",
}
ORDER: tuple[Source, ...] = ("query", "decomposer", "glossary", "keywords", "rewriter", "hyde")


@dataclass(frozen=True, slots=True)
class Probe:
    """One text aimed at one index.

    Attributes:
        text: What is searched.
        channel: Where.
        source: Which component it comes from; `query` is what the engine was given.
        weight: Its say in the fused ranking.
        vector: Searched instead of the text's own; `dense` alone.
    """

    text: str
    channel: Channel
    source: Source
    weight: float = 1.0
    vector: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A probe that is not made, and why."""

    probe: Probe
    reason: Skipped


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """The probes of one search, most useful first, and what was left out."""

    probes: tuple[Probe, ...]
    left_out: tuple[LeftOut, ...] = ()

    @property
    def as_json(self) -> dict[str, list[dict[str, Any]]]:
        """Each probe and each one left out, with the reason in words."""
        return {
            "probes": [
                {**_facts(probe), "weight": round(probe.weight, 3), "why": WHY[probe.source]}
                for probe in self.probes
            ],
            "left_out": [
                {**_facts(out.probe), "reason": out.reason, "why": WHY_NOT[out.reason]}
                for out in self.left_out
            ],
        }


def plan_search(
    query: str,
    forms: Sequence[Form] = (),
    *,
    keywords: Sequence[str] = (),
    channels: Collection[Channel] = CHANNELS,
    budget: int = MAX_PROBES,
    words_match: bool = True,
) -> SearchPlan:
    """Aim the query and its forms at the indexes. No I/O.

    The query itself comes first, on the channel that finds most alone; then the questions it was split
    into, each once before any a second time, so that a small budget still covers all of them; then
    synonyms, paraphrases and made-up answers.

    Args:
        query: What is searched for.
        forms: Other forms of it.
        keywords: Terms that somebody chose for it; searched as words together with the query.
        channels: Indexes there are.
        budget: Most probes, at least 1.
        words_match: Whether any passage is in the query's language. If not, written words are left
            out: across languages they find what is spelt alike, not what is meant.

    Raises:
        ValueError: `budget` is below 1, or there is no channel.
    """
    if budget < 1:
        raise ValueError(f"`budget` must be >= 1, got {budget}")
    if not channels:
        raise ValueError("there is no channel to search")
    probes: list[Probe] = []
    left_out: list[LeftOut] = []
    seen: set[tuple[str, Channel]] = set()
    usable = set(channels) - (set() if words_match else {"bm25"}) or set(channels)
    for probe in _wanted(query, forms, keywords):
        key = (probe.text.casefold(), probe.channel)
        if probe.channel not in channels:
            continue
        if probe.channel not in usable:
            left_out.append(LeftOut(probe, "no_passage_in_language"))
        elif key in seen:
            left_out.append(LeftOut(probe, "same_text"))
        elif len(probes) >= budget:
            left_out.append(LeftOut(probe, "budget"))
        else:
            seen.add(key)
            probes.append(probe)
    return SearchPlan(tuple(probes), tuple(left_out))


def _facts(probe: Probe) -> dict[str, Any]:
    by = "vector" if probe.vector is not None else "text"
    return {"channel": probe.channel, "source": probe.source, "text": probe.text, "searched_by": by}


def _wanted(query: str, forms: Sequence[Form], keywords: Sequence[str]) -> Iterator[Probe]:
    """Every probe, most useful first: one component after the other, channel by channel."""
    for source in ORDER:
        if source == "query":
            yield from (Probe(query, channel, source) for channel in AT_HOME[source])
        elif source == "keywords":
            if keywords:
                yield Probe(" ".join([query, *keywords]), "bm25", source)
        else:
            of_source = [form for form in forms if form.component == source]
            yield from (
                Probe(form.text, channel, source, form.weight, form.vector if channel == "dense" else None)
                for channel in AT_HOME[source]
                for form in of_source
            )
