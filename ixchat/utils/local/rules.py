"""Decides by rules whether a message leans on a name of the last turns, and on which. No model, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ixchat.utils.candidates import Candidate, Spoken, find_candidates, recent
from ixchat.utils.local.lexicon import Lean, Lexicon, lexicon_of
from ixchat.utils.names import is_company
from ixchat.utils.resolution import Turn
from ixrag.names import NameIndex
from ixrag.words import Word, folded, words

Verdict = Literal["resolve", "keep", "ambiguous"]

Reason = Literal[
    "unknown_language",
    "names_its_subject",
    "names_the_company",
    "asks_the_company",
    "new_subject",
    "points_inside",
    "no_marker",
    "several_meant",
    "no_candidate",
    "several_candidates",
    "one_candidate",
    "shared_candidate",
    "latest_candidate",
    "farewell",
    "learned",
]
"""What decided. Three are reasons to resolve: `one_candidate`, `shared_candidate`, `latest_candidate`."""

CONFIDENCE: Mapping[Reason, float] = {
    "unknown_language": 0.5,
    "names_its_subject": 0.95,
    "names_the_company": 0.95,
    "asks_the_company": 0.95,
    "new_subject": 0.9,
    "points_inside": 0.9,
    "no_marker": 0.75,
    "several_meant": 0.9,
    "no_candidate": 0.9,
    "several_candidates": 0.7,
    "one_candidate": 0.9,
    "shared_candidate": 0.85,
    "latest_candidate": 0.7,
    "farewell": 0.95,
}
"""Share of right decisions to expect, by reason; set by hand, not calibrated."""

PARTIES = frozenset(
    {"customer", "client", "partner", "organization", "organisation", "person", "group", "chain"}
)
"""Entity types that *they* and *them* can mean."""

NOT_THINGS = PARTIES | {
    "company",
    "sector",
    "industry",
    "office",
    "location",
    "city",
    "country",
    "region",
    "date",
}
"""Entity types that *it* and *this module* do not mean."""

SETTINGS = NOT_THINGS | {"feature", "event"}
"""Entity types a message may name without being about them: *is it sold in Lyon?*"""


@dataclass(frozen=True, slots=True)
class Ruling:
    """A decision on a longer follow-up, and what it rests on.

    Attributes:
        verdict: Append the candidate, keep the message, or keep it because several are possible.
        reason: What decided.
        candidate: The name to append; None unless the verdict is `resolve`.
        marker: The folded words of the message that decided; empty when their absence did.
        language: ISO 639-1 code of the word lists used; empty when unknown.
        probability: Of being right, by the learned scorer; None where a rule decided.
        because: Features that spoke most for it, where the learned scorer decided.
    """

    verdict: Verdict
    reason: Reason
    candidate: Candidate | None = None
    marker: str = ""
    language: str = ""
    probability: float | None = None
    because: tuple[str, ...] = ()

    @property
    def confidence(self) -> float:
        """Share of right decisions to expect, 0 to 1."""
        return CONFIDENCE[self.reason] if self.probability is None else self.probability


def rule_on_reference(turn: Turn, index: NameIndex) -> Ruling:
    """What a longer follow-up refers to.

    The order matters: what names its own subject or asks about the company is kept before any
    pronoun is looked at, because adding a name to a question that stands alone does more harm than
    missing a reference.
    """
    message = words(turn.query)
    spoken = recent(turn.messages)
    lexicon = lexicon_of(message, *(said.words for said in spoken))
    if lexicon is None:
        return Ruling("keep", "unknown_language")
    candidates = named_before(spoken, lexicon, index, turn.company_name)
    named = named_in(message, candidates, index, turn.company_name)
    ruling = _rule(message, lexicon, spoken, candidates, named)
    return Ruling(ruling.verdict, ruling.reason, ruling.candidate, ruling.marker, lexicon.code)


def named_before(
    spoken: Sequence[Spoken], lexicon: Lexicon, index: NameIndex, company_name: str
) -> list[Candidate]:
    """What the last turns name beside the company, most recent mention first."""
    found = find_candidates(spoken, index, capitals=lexicon.code != "de", ordinary=lexicon.ordinary)
    return [candidate for candidate in found if not is_company(candidate.name, company_name)]


def _rule(
    message: Sequence[Word],
    lexicon: Lexicon,
    spoken: Sequence[Spoken],
    candidates: Sequence[Candidate],
    named: Named,
) -> Ruling:
    text = blank_impersonal(" ".join(word.folded for word in message), lexicon)
    thing, party = marker(text, lexicon, "thing"), marker(text, lexicon, "party")
    opener = marker(text, lexicon, "opener")
    if named.subject or (named.setting and not (thing or opener)):
        return Ruling("keep", "names_its_subject")
    if inside := marker(text, lexicon, "inside"):
        return Ruling("keep", "points_inside", marker=inside)
    if shift := marker(text, lexicon, "shift"):
        return Ruling("keep", "new_subject", marker=shift)
    if several := marker(text, lexicon, "several"):
        return Ruling("ambiguous", "several_meant", marker=several)
    if not (thing or party or opener):
        return Ruling("keep", "no_marker")
    if named.company:
        return Ruling("keep", "names_the_company")
    if not (thing or party) and (company := marker(text, lexicon, "company")):
        return Ruling("keep", "asks_the_company", marker=company)
    parties = [candidate for candidate in candidates if kind_of(candidate.type) in PARTIES]
    if party and len(parties) == 1:
        return Ruling("resolve", "one_candidate", parties[0], party)
    fitting = [
        candidate
        for candidate in candidates
        if can_mean(candidate, thing=bool(thing or opener), party=bool(party))
    ]
    return _pick(fitting, spoken, thing or party or opener)


def blank_impersonal(text: str, lexicon: Lexicon) -> str:
    """Folded words with what looks like a pronoun and refers to nothing dotted out, same length."""
    return lexicon.lean["impersonal"].sub(lambda match: "." * len(match.group()), text)


def marker(text: str, lexicon: Lexicon, kind: Lean) -> str:
    """The first marker of a kind in folded words, or an empty string."""
    match = lexicon.lean[kind].search(text)
    return match.group() if match else ""


@dataclass(frozen=True, slots=True)
class Named:
    """What a message names itself.

    Attributes:
        subject: A name that it can be about.
        setting: A name that says where or for whom: an office, a sector.
        company: The company.
        names: All names in it but the company's.
    """

    subject: bool
    setting: bool
    company: bool
    names: frozenset[str]


def named_in(
    message: Sequence[Word], candidates: Sequence[Candidate], index: NameIndex, company_name: str
) -> Named:
    """What the message names itself; a name spoken of before is a subject, whatever its type."""
    text = f" {' '.join(word.folded for word in message)} "
    company = folded(company_name)
    hits = [hit for hit in index.find_in(message) if not is_company(hit.name, company_name)]
    spoken_of = {candidate.name for candidate in candidates}
    settings = [hit for hit in hits if kind_of(hit.type) in SETTINGS and hit.name not in spoken_of]
    names_subject = len(settings) < len(hits) or any(
        f" {folded(candidate.text)} " in text for candidate in candidates
    )
    return Named(
        names_subject,
        bool(settings),
        bool(company) and f" {company} " in text,
        frozenset(hit.name for hit in hits),
    )


@lru_cache(maxsize=1_024)
def kind_of(type_: str) -> str:
    """An entity type as the sets of this module write it."""
    return folded(type_)


def can_mean(candidate: Candidate, *, thing: bool, party: bool) -> bool:
    """Whether a pronoun for a thing, or for people, can mean the candidate."""
    if not candidate.type:
        return True
    kind = kind_of(candidate.type)
    return (thing and kind not in NOT_THINGS) or (party and kind in PARTIES)


def _pick(candidates: Sequence[Candidate], spoken: Sequence[Spoken], because: str) -> Ruling:
    if not candidates:
        return Ruling("ambiguous", "no_candidate", marker=because)
    if len(candidates) == 1:
        return Ruling("resolve", "one_candidate", candidates[0], because)
    asked = [candidate for candidate in candidates if {m.role for m in candidate.mentions} >= {"user"}]
    if len(asked) == 1 and {mention.role for mention in asked[0].mentions} == {"user", "assistant"}:
        return Ruling("resolve", "shared_candidate", asked[0], because)
    last_turn = max((said.index for said in spoken if said.role == "user"), default=0)
    latest = [candidate for candidate in candidates if candidate.mentions[-1].message >= last_turn]
    if len(latest) == 1:
        return Ruling("resolve", "latest_candidate", latest[0], because)
    return Ruling("ambiguous", "several_candidates", marker=because)
