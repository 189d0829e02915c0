"""The three resolvers of the local routes: no model, no key, no network, no waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ixchat.utils.gate import should_resolve
from ixchat.utils.local.reference import choose_reference
from ixchat.utils.local.replies import Reading, Term, read_reply
from ixchat.utils.local.rules import Ruling, rule_on_reference
from ixchat.utils.names import append_name
from ixchat.utils.resolution import MAX_HL_KEYWORDS, MAX_LL_KEYWORDS, Fallback, KeywordQuery, Resolution, Turn
from ixrag.names import Named, NameIndex
from ixrag.profiles import NameProfiles
from ixrag.words import words

MAX_QUERY_WORDS = 8  # a short query for the chunk channel; longer ones measured worse
MAX_THEME_TERMS = 4  # terms taken from the conversation beside the visitor's own words

_REASONS: dict[str, Fallback] = {"declines": "none", "acknowledges": "none"}


class LocalResolver:
    """Resolves turns from the words of the conversation and the tenant's names.

    Each method is a `Resolver`: it never raises for any turn, and never adds a word that does not
    stand in the conversation.
    """

    def __init__(
        self,
        names: Iterable[Named] | NameIndex = (),
        *,
        learned: bool = False,
        profiles: Callable[[], NameProfiles | None] = lambda: None,
    ) -> None:
        """Index the tenant's names; about 10 µs and 0.4 kB each. Share one resolver between turns.

        Args:
            names: Entities of the tenant's graph, or an index of them; none for a tenant without graph.
            learned: Whether learned weights decide on references (`local:learned`), or rules (`local:rules`).
            profiles: Gives what the tenant's passages say of each name, as soon as that is known; for learned
                weights.
        """
        self.index = names if isinstance(names, NameIndex) else NameIndex(names)
        # Learned on names that a graph knows; what only looks like a name is left to the rules.
        self._learned, self._profiles = learned and len(self.index) > 0, profiles
        self._facts = {"model": "local:rules", "provider": "local"}

    async def search_query(self, turn: Turn) -> Resolution:
        """A query of at most `MAX_QUERY_WORDS` words for a tenant without a graph.

        The visitor's words, then what the conversation adds. A reply with nothing to search for, and a
        message that is no short reply, keep the visitor's words.

        The company's name is left out, unlike in the query a model writes: every passage is the
        company's, so its name says nothing and pulls a vector of five words towards all of them. On the
        bundled short replies it turned a clear gain into a loss (`docs/strategies.md`).
        """
        if declined := _declined(turn):
            return self._raw(turn, declined)
        reading = read_reply(turn, self.index)
        if reason := _REASONS.get(reading.act):
            return self._raw(turn, reason, reading)
        used = _fitting((*reading.own, *reading.wanted), MAX_QUERY_WORDS)
        if not used:
            return self._raw(turn, "empty", reading)
        parts = [term.text for term in used]
        return Resolution(" ".join(parts), "resolve", trace=self._reply_trace(reading, used))

    async def keyword_query(self, turn: Turn) -> KeywordQuery:
        """Both keyword lists for a short reply of a tenant with a graph, or neither.

        Specific terms are names and the visitor's own words; themes are what was asked for. Where one
        list would be empty, its terms come from the other: nothing is invented to fill it.
        """
        if declined := _declined(turn):
            return KeywordQuery(turn.query, fallback=declined, trace=self._facts)
        reading = read_reply(turn, self.index)
        terms = (*reading.own, *reading.wanted)
        if reason := _REASONS.get(reading.act):
            return KeywordQuery(turn.query, fallback=reason, trace=self._reply_trace(reading, ()))
        if not terms:
            return KeywordQuery(turn.query, fallback="empty", trace=self._reply_trace(reading, ()))
        names = [term for term in terms if term.is_name]
        themes = [term for term in reading.wanted if not term.is_name]
        specific = [*names, *(term for term in reading.own if not term.is_name)] or themes
        themes = themes or [term for term in reading.own if not term.is_name] or names
        specific, themes = specific[:MAX_LL_KEYWORDS], themes[:MAX_HL_KEYWORDS]
        return KeywordQuery(
            turn.query,
            "resolve",
            trace=self._reply_trace(reading, [*specific, *(term for term in themes if term not in specific)]),
            ll_keywords=tuple(term.text for term in specific),
            hl_keywords=tuple(term.text for term in themes),
        )

    async def reference(self, turn: Turn) -> Resolution:
        """The message, or the message and the one name it refers to."""
        if not turn.messages:
            return self._raw(turn, "first_turn")
        if self._learned:
            ruling = choose_reference(turn, self.index, self._profiles())
        else:
            ruling = rule_on_reference(turn, self.index)
        facts = {**self._facts, **_ruling_facts(ruling)}
        if ruling.candidate is None:
            return Resolution(turn.query, "keep" if ruling.verdict == "keep" else "ambiguous", trace=facts)
        return append_name(turn, ruling.candidate.text, trace=facts)

    def _raw(self, turn: Turn, reason: Fallback, reading: Reading | None = None) -> Resolution:
        trace = self._reply_trace(reading, ()) if reading else self._facts
        return Resolution(turn.query, fallback=reason, trace=trace)

    def _reply_trace(self, reading: Reading, used: Sequence[Term]) -> dict[str, Any]:
        evidence = [
            {"term": term.text, **term.mention.as_evidence()} for term in used if term.mention is not None
        ]
        return {**self._facts, "reason": reading.act, "language": reading.language, "evidence": evidence}


def _declined(turn: Turn) -> Fallback | None:
    if not turn.messages:
        return "first_turn"
    return None if should_resolve(turn.query) else "gate_declined"


def _fitting(terms: Sequence[Term], room: int) -> list[Term]:
    """The first terms that fit in `room` words."""
    used: list[Term] = []
    for term in terms:
        size = max(1, len(words(term.text)))
        if size <= room:
            used.append(term)
            room -= size
    return used


def _ruling_facts(ruling: Ruling) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "reason": ruling.reason,
        "confidence": round(ruling.confidence, 3),
        "marker": ruling.marker,
        "language": ruling.language,
    }
    if ruling.reason == "learned":
        facts |= {"model": "local:learned", "because": list(ruling.because)}
    return facts
