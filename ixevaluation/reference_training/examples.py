"""What the scorer learns from: labelled follow-ups, and stand-alone messages after dialogues of other companies."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from ixchat.utils.local.antecedents import Antecedents, describe_antecedents
from ixchat.utils.resolution import Turn
from ixevaluation.follow_ups import Company, FollowUp
from ixevaluation.stress import stress_pairs

STRANGERS = 800
STRANGER_WEIGHT = 0.6
STRESS_WEIGHT = 1.0
KNOWING = 0.5  # each follow-up counts half with its passages and half without: tenants have them or not


@dataclass(frozen=True, slots=True)
class Example:
    """A follow-up in numbers.

    Attributes:
        groups: Companies it is made of; a scorer is never measured on a company that taught it.
        antecedents: The names, and the rows to score.
        answer: Row of the right name; None where none is needed.
        weight: Of its loss.
    """

    groups: frozenset[str]
    antecedents: Antecedents
    answer: int | None
    weight: float


def examples(dev: Sequence[Company], seed: int) -> list[Example]:
    """Everything there is to learn from; what no name could answer teaches nothing and is left out."""
    found = [
        example
        for company in dev
        for row in company.follow_ups
        for knows in (True, False)
        if (example := _example(row, company, {company.key}, KNOWING, knows=knows))
    ]
    rng = random.Random(seed)
    for row, teller, listener in _strangers(dev, rng):
        for knows in (True, False):
            groups = {teller.key, listener.key}
            if example := _example(row, listener, groups, STRANGER_WEIGHT / 2, knows=knows):
                found.append(example)
    for pair in stress_pairs():
        antecedents = describe_antecedents(pair.turn, pair.names)
        if antecedents and antecedents.candidates:
            found.append(Example(frozenset({"stress"}), antecedents, None, STRESS_WEIGHT))
    return found


def _strangers(dev: Sequence[Company], rng: random.Random) -> list[tuple[FollowUp, Company, Company]]:
    """Messages that stand alone, put after dialogues of another company in the same language."""
    alone = [
        (row, company) for company in dev for row in company.follow_ups if row.expected.decision == "keep"
    ]
    dialogues = [(row, company) for company in dev for row in company.follow_ups]
    found: list[tuple[FollowUp, Company, Company]] = []
    while len(found) < STRANGERS:
        (message, teller), (dialogue, listener) = rng.choice(alone), rng.choice(dialogues)
        if teller.key == listener.key or message.lang != dialogue.lang:
            continue
        turn = Turn(message.turn.query, dialogue.turn.messages, dialogue.turn.company_name)
        found.append((FollowUp(message.id, message.lang, turn, message.expected), teller, listener))
    return found


def _example(
    row: FollowUp, company: Company, groups: set[str], weight: float, *, knows: bool
) -> Example | None:
    antecedents = describe_antecedents(row.turn, company.names, company.profiles if knows else None)
    if antecedents is None or not antecedents.candidates:
        return None
    answer = None
    if row.expected.decision == "resolve":
        places = {candidate.name: place for place, candidate in enumerate(antecedents.candidates)}
        if row.expected.name not in places:
            return None
        answer = places[row.expected.name]
    return Example(frozenset(groups), antecedents, answer, weight)
