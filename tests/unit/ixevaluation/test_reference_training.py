"""Teaching the reference scorer: what it learns, and that it is never measured on what taught it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ixchat.utils.local.antecedents import ANTECEDENT_FEATURES, Antecedents
from ixchat.utils.local.reference import ReferenceScorer, shipped_reference_scorer
from ixevaluation.dataset import BUNDLED_DIR
from ixevaluation.follow_ups import FOLLOW_UPS, Company, companies
from ixevaluation.reference_training.__main__ import SEED, fit
from ixevaluation.reference_training.card import card
from ixevaluation.reference_training.examples import STRANGERS, Example, examples
from ixrag.words import folded

DEV = companies("dev")
POINTER = ANTECEDENT_FEATURES.index("pointer")
LATEST = ANTECEDENT_FEATURES.index("latest_of_group")


def toy(pointer: float, answer: int | None, group: str = "a") -> Example:
    """Two names, the first of them the latest; the message points at something or not."""
    rows = np.zeros((2, len(ANTECEDENT_FEATURES)), np.float32)
    rows[:, POINTER] = pointer
    rows[0, LATEST] = 1
    return Example(frozenset({group}), Antecedents((), rows, "en", ""), answer, 1.0)


def test_what_decides_in_the_examples_decides_afterwards() -> None:
    scorer = fit([toy(1, 0)] * 20 + [toy(0, None)] * 20)
    pointing, other = (scorer.probabilities(toy(pointer, None).antecedents) for pointer in (1, 0))
    assert pointing[0] > 0.8
    assert pointing[1] < 0.1
    assert other.sum() < 0.2


def test_the_same_examples_give_the_same_weights() -> None:
    rows = [toy(1, 0)] * 3 + [toy(0, None)] * 3
    assert np.array_equal(fit(rows).weights, fit(rows).weights)


def test_a_message_put_after_another_companys_dialogue_belongs_to_both_companies() -> None:
    found = [example for example in examples(DEV[:2], SEED) if len(example.groups) == 2]
    assert 0 < len(found) <= 2 * STRANGERS
    assert {example.groups for example in found} == {frozenset(company.key for company in DEV[:2])}
    assert all(example.answer is None for example in found)


def test_the_shipped_weights_are_those_of_the_shipped_sets() -> None:
    learned, shipped = fit(examples(DEV, SEED)), shipped_reference_scorer()
    assert np.abs(learned.weights - shipped.weights).max() < 0.02
    assert abs(learned.bias - shipped.bias) < 0.02


def test_the_card_counts_what_each_scorer_decides() -> None:
    company = replace(DEV[0], follow_ups=DEV[0].follow_ups[::20])
    never = ReferenceScorer(
        np.zeros(len(ANTECEDENT_FEATURES), np.float32),
        -50.0,
        np.zeros(len(ANTECEDENT_FEATURES), np.float32),
        np.ones(len(ANTECEDENT_FEATURES), np.float32),
    )
    text = card([company], [], {company.key: never, "stress": never}, never)
    needed = sum(row.expected.decision == "resolve" for row in company.follow_ups)
    total = len(company.follow_ups)
    kept = total - needed
    assert (
        f"| {company.key} | learned, names alone | {kept} / {total} ({kept / total:.2f}) | {needed} | 0 | 0 / {kept}"
        in text
    )


@pytest.mark.parametrize(
    "path", sorted((BUNDLED_DIR / FOLLOW_UPS).glob("*.json")), ids=lambda path: path.stem
)
def test_a_needed_name_stands_in_the_last_four_messages_and_not_in_the_message(path: Path) -> None:
    (company,) = [each for each in [*DEV, *companies("holdout")] if each.key == path.stem]
    for row in company.follow_ups:
        said = [_names_in(company, message.content) for message in row.turn.messages[-4:]]
        if row.expected.decision == "resolve":
            assert any(row.expected.name in names for names in said), row.id
            assert row.expected.name not in _names_in(company, row.turn.query), row.id
        else:
            assert row.expected.name is None, row.id
        assert row.turn.messages[-1].role == "assistant", row.id
    assert len({row.id for row in company.follow_ups}) == len(company.follow_ups)
    assert len({folded(row.turn.query) for row in company.follow_ups}) == len(company.follow_ups)


def test_one_company_is_sealed_and_every_language_is_there() -> None:
    assert {company.key for company in companies("holdout")} == {"velmora", "voltrajo"}
    for company in DEV:
        assert {row.lang for row in company.follow_ups} == {"fr", "en", "es", "it", "de"}, company.key


def _names_in(company: Company, text: str) -> set[str]:
    return {hit.name for hit in company.names.find(text)}
