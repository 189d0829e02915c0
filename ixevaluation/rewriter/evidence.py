"""The search of the visitor's own words as a witness: it may veto or confirm what the rules decided.

A name is vetoed when searching with it finds the same, or finds nothing about it. A message without a marker is
given the only name it could mean when its own search lands on that name first. Costs a second search on every turn
where there is a name to judge, before anything is decided.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from langchain_core.documents import Document

from ixchat.nodes.knowledge_retriever import Plan, choose
from ixchat.utils.candidates import recent
from ixchat.utils.local.lexicon import lexicon_of
from ixchat.utils.local.rules import can_mean, marker, named_before
from ixchat.utils.names import append_name
from ixchat.utils.resolution import Resolution, Turn
from ixchat.utils.terms import find_name
from ixrag.words import folded, words

if TYPE_CHECKING:
    from ixevaluation.rewriter.arms import Arm, ArmDeps

    Overrule = Callable[[Resolution, Turn, ArmDeps], Awaitable[Resolution]]

DEADLINE_S = 10.0  # an evaluation waits longer than a visitor: it measures words, not deadlines
FIRST = 5  # passages looked at
SAME = 4  # of these in both lists, from which on the name is not worth its risk
MAX_ENTITY_RANK = 10  # of the name among the entities found for the visitor's words


@dataclass(frozen=True, slots=True)
class Evidence:
    """What two searches, without and with a name, say about the name.

    Attributes:
        named_raw: Which of the first passages for the visitor's words hold the name, by rank from 1.
        named_resolved: Which of those for the words and the name do.
        agreement: How many of the first passages both have.
        entity_rank: Place of the name among the entities found for the visitor's words; 0 where it is none,
            or the engine has none.
        top: Score of the first passage for the visitor's words; None where the engine gives no scores.
        gap: How far the second is behind, as a share of `top`.
    """

    named_raw: Sequence[int]
    named_resolved: Sequence[int]
    agreement: int
    entity_rank: int = 0
    top: float | None = None
    gap: float | None = None

    @property
    def vetoes(self) -> bool:
        """Whether the name should not be appended."""
        return self.agreement >= SAME or not self.named_resolved

    @property
    def confirms(self) -> bool:
        """Whether the visitor's words lead to the name by themselves."""
        return 1 in self.named_raw and self.entity_rank <= MAX_ENTITY_RANK


def evidence_arm(*overrulings: Overrule, doc: str) -> Arm:
    """Production, its reference check overruled by what the searches without and with the name find."""

    def plan(turn: Turn, deps: ArmDeps) -> Plan:
        planned = choose(turn, deps)
        if planned.path != "reference":
            return planned

        async def resolve(turn: Turn) -> Resolution:
            decided = await deps.reference_resolver(turn)
            for overrule in overrulings:
                found = await overrule(decided, turn, deps)
                if found is not decided:
                    return found
            return decided

        return replace(planned, resolver=resolve, deadline_s=DEADLINE_S, foresee=None)

    plan.__doc__ = doc
    return plan


async def veto(decided: Resolution, turn: Turn, deps: ArmDeps) -> Resolution:
    """Without the name where the searches speak against it."""
    if not decided.changes(turn):
        return decided
    seen = await gather(turn.query, decided.query, str(decided.trace["entity"]), deps)
    facts = {**decided.trace, "witness": asdict(seen)}
    return Resolution(turn.query, "keep", trace=facts) if seen.vetoes else replace(decided, trace=facts)


async def confirm(decided: Resolution, turn: Turn, deps: ArmDeps) -> Resolution:
    """With the only name a message without a marker can mean, where the searches speak for it."""
    name = only_name(turn, deps)
    if name is None or decided.decision != "keep":
        return decided
    proposed = append_name(turn, name, trace=decided.trace)
    if not proposed.changes(turn):
        return decided
    seen = await gather(turn.query, proposed.query, str(proposed.trace["entity"]), deps)
    if not seen.confirms:
        return decided
    return replace(proposed, trace={**proposed.trace, "witness": asdict(seen)})


def only_name(turn: Turn, deps: ArmDeps) -> str | None:
    """The one thing the last turns name; None for none or several, and for a message to the company."""
    message, spoken = words(turn.query), recent(turn.messages)
    lexicon = lexicon_of(message, *(said.words for said in spoken))
    if lexicon is None or any(marker(folded(turn.query), lexicon, kind) for kind in ("company", "inside")):
        return None
    named = named_before(spoken, lexicon, deps.names, turn.company_name)
    things = [candidate for candidate in named if can_mean(candidate, thing=True, party=False)]
    return things[0].text if len(things) == 1 and not deps.names.find_in(message) else None


async def gather(raw: str, resolved: str, name: str, deps: ArmDeps) -> Evidence:
    """Search both texts and compare."""
    without, with_name = await asyncio.gather(deps.retriever.ainvoke(raw), deps.retriever.ainvoke(resolved))
    first, first_with = _passages(without), _passages(with_name)
    scores = [float(document.metadata["score"]) for document in first if "score" in document.metadata]
    entities = [document for document in without if document.metadata.get("kind") == "entity"]
    return Evidence(
        named_raw=_holding(name, first),
        named_resolved=_holding(name, first_with),
        agreement=len({d.page_content for d in first} & {d.page_content for d in first_with}),
        entity_rank=next(iter(_holding(name, entities)), MAX_ENTITY_RANK + 1) if entities else 0,
        top=scores[0] if scores else None,
        gap=(scores[0] - scores[1]) / scores[0] if len(scores) > 1 and scores[0] else None,
    )


def _passages(documents: Sequence[Document]) -> list[Document]:
    return [document for document in documents if document.metadata.get("kind", "chunk") == "chunk"][:FIRST]


def _holding(name: str, documents: Sequence[Document]) -> list[int]:
    return [rank for rank, d in enumerate(documents, start=1) if find_name(name, d.page_content)]


EVIDENCE_ARMS: Mapping[str, Arm] = {
    "evidence": evidence_arm(
        veto, confirm, doc="Production, overruled by what is found without and with the name."
    ),
    "evidence-veto": evidence_arm(veto, doc="Production, less the names that what is found speaks against."),
    "evidence-confirm": evidence_arm(
        confirm, doc="Production, and the only name that what is found leads to."
    ),
}
