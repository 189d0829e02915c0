"""The reference scorer's model card: what it learned from, and how it and the rules decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from ixchat.utils.local.antecedents import describe_antecedents
from ixchat.utils.local.reference import MIN_PROBABILITY, MIN_UNPOINTED, ReferenceScorer, choose_reference
from ixchat.utils.local.rules import rule_on_reference
from ixevaluation.follow_ups import Company, FollowUp
from ixevaluation.reference_training.examples import STRANGERS
from ixevaluation.stress import stress_pairs
from ixrag.names import NameIndex
from ixrag.profiles import NameProfiles

Decide = Callable[[FollowUp, NameIndex, NameProfiles | None], str | None]
"""The name to add, or None."""

Row = tuple[str, str, Counter[str], int]
"""Whose follow-ups, who decided, how often with which outcome, and how many of them need no name."""

POINTS, NOTHING_POINTS = "something points", "nothing points"

HEAD = """# The reference scorer

A conditional logit over counted features of a message and of each name of the last two turns: the names compete with one
another and with *none is needed*; a name is appended from a probability of {least} on, of {unpointed}
where nothing in the message points at anything. Written by
`python -m ixevaluation.reference_training`; do not edit.

Taught from the development halves of the bundled sets alone, all written for this project: `reference`, `stress`,
and the companies of `follow-ups`; and from {strangers} messages that stand alone, put after dialogues of another company.
Each counts half with the words of the company's passages and half without, as tenants have them or not.

No table shows a decision on a company that taught it, but for the last: every row is decided by a scorer that saw
nothing of that company, but for stress dialogues about Velmora. "Unneeded" is a name added where none was needed, of the turns that need none.

"""


def card(
    dev: Sequence[Company],
    holdout: Sequence[Company],
    unseen: Mapping[str, ReferenceScorer],
    shipped: ReferenceScorer,
) -> str:
    """The card as markdown.

    Args:
        dev: Companies learned from.
        holdout: Sealed ones.
        unseen: By company, a scorer that saw nothing of it; `stress` among them.
        shipped: The scorer that saw all of `dev`.
    """
    lines = [HEAD.format(least=MIN_PROBABILITY, unpointed=MIN_UNPOINTED, strangers=STRANGERS)]
    of_dev = list(_decisions([(company, unseen[company.key], company.key) for company in dev]))
    sealed = list(_decisions([(company, shipped, f"{company.key}, sealed") for company in holdout]))
    lines += _table(
        "Companies that the scorer did not see", [*of_dev, *_sums(of_dev, "all of these"), *sealed]
    )
    scorers = [(company, unseen[company.key]) for company in dev] + [
        (company, shipped) for company in holdout
    ]
    lines += _table(
        "By language, passages known", list(_by(scorers, _language, ("fr", "en", "es", "it", "de")))
    )
    by_pointing = list(_by(scorers, _pointing, (POINTS, NOTHING_POINTS)))
    lines += _table("By whether the message points at anything, passages known", by_pointing)
    lines += _table("Stress pairs, names alone", _stress(unseen["stress"], shipped))
    lines += _table("Companies that taught it, passages known", list(_seen(dev, shipped)))
    return "\n".join(lines)


def _decisions(rows: Sequence[tuple[Company, ReferenceScorer, str]]) -> Iterator[Row]:
    for company, scorer, label in rows:
        for name, decide in _deciders(scorer):
            yield label, name, _count(company.follow_ups, company, decide), _keeps(company.follow_ups)


def _sums(rows: Sequence[Row], label: str) -> Iterator[Row]:
    """The rows of each decider added up."""
    for name in dict.fromkeys(name for _, name, _, _ in rows):
        own = [row for row in rows if row[1] == name]
        yield (
            label,
            name,
            sum((counts for _, _, counts, _ in own), Counter[str]()),
            sum(row[3] for row in own),
        )


def _deciders(scorer: ReferenceScorer) -> tuple[tuple[str, Decide], ...]:
    return (
        ("rules", _rules),
        ("learned, names alone", _learned(scorer, knows=False)),
        ("learned, passages known", _learned(scorer, knows=True)),
    )


def _by(
    rows: Sequence[tuple[Company, ReferenceScorer]],
    of: Callable[[FollowUp, Company], str],
    order: Sequence[str],
) -> Iterator[Row]:
    """Follow-ups of every company by some property, in the given order of its values."""
    for value in order:
        counts, keeps = Counter[str](), 0
        for company, scorer in rows:
            own = [row for row in company.follow_ups if of(row, company) == value]
            counts += _count(own, company, _learned(scorer, knows=True))
            keeps += _keeps(own)
        if keeps:
            yield value, "learned", counts, keeps


def _language(row: FollowUp, _company: Company) -> str:
    return row.lang


def _pointing(row: FollowUp, company: Company) -> str:
    found = describe_antecedents(row.turn, company.names)
    return POINTS if found and found.points else NOTHING_POINTS


def _seen(dev: Sequence[Company], scorer: ReferenceScorer) -> Iterator[Row]:
    for company in dev:
        counts = _count(company.follow_ups, company, _learned(scorer, knows=True))
        yield company.key, "learned", counts, _keeps(company.follow_ups)


def _stress(unseen: ReferenceScorer, shipped: ReferenceScorer) -> list[Row]:
    pairs = stress_pairs()
    found = []
    for name, scorer in (
        ("rules", None),
        ("learned, no pair seen", unseen),
        ("learned, as shipped", shipped),
    ):
        counts = Counter[str]()
        for pair in pairs:
            ruling = (
                choose_reference(pair.turn, pair.names, None, scorer)
                if scorer
                else rule_on_reference(pair.turn, pair.names)
            )
            counts["unneeded" if ruling.candidate else "right"] += 1
        found.append(("stress", name, counts, len(pairs)))
    return found


def _rules(row: FollowUp, names: NameIndex, _profiles: NameProfiles | None) -> str | None:
    found = rule_on_reference(row.turn, names).candidate
    return found.name if found else None


def _learned(scorer: ReferenceScorer, *, knows: bool) -> Decide:
    def decide(row: FollowUp, names: NameIndex, profiles: NameProfiles | None) -> str | None:
        found = choose_reference(row.turn, names, profiles if knows else None, scorer).candidate
        return found.name if found else None

    return decide


def _count(rows: Sequence[FollowUp], company: Company, decide: Decide) -> Counter[str]:
    return Counter(row.outcome(decide(row, company.names, company.profiles)) for row in rows)


def _keeps(rows: Sequence[FollowUp]) -> int:
    return sum(row.expected.decision != "resolve" for row in rows)


def _table(title: str, rows: Sequence[Row]) -> list[str]:
    lines = [
        f"## {title}\n",
        "| follow-ups | decided by | right | missed | wrong name | unneeded |",
        "|---|---|---|---|---|---|",
    ]
    for label, name, counts, keeps in rows:
        total = sum(counts.values())
        lines.append(
            f"| {label} | {name} | {counts['right']} / {total} ({counts['right'] / total:.2f}) | {counts['missed']} "
            f"| {counts['wrong name']} | {counts['unneeded']} / {keeps} ({counts['unneeded'] / keeps:.1%}) |"
        )
    return [*lines, ""]
