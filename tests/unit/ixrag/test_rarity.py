import math

import pytest

from ixrag.rarity import Rarity, word_key


@pytest.mark.parametrize(
    ("word", "key"),
    [("modules", "module"), ("salaries", "salary"), ("bus", "bus"), ("class", "class"), ("virus", "virus"), ("gas", "gas"), ("axis", "axis")],
)  # fmt: skip
def test_both_numbers_of_a_noun_share_a_key(word: str, key: str) -> None:
    assert word_key(word) == key


def test_rarity_is_the_inverse_document_frequency_over_its_largest_value() -> None:
    rarity = Rarity.of(["The plan is open", "A plan", "Plans, plans", "nothing here"])
    largest = math.log(1 + 4.5 / 0.5)
    assert rarity("plan") == pytest.approx(math.log(1 + 1.5 / 3.5) / largest)
    assert rarity("plans") == rarity("plan")
    assert rarity("unseen") == pytest.approx(1.0)
    assert 0 < rarity("plan") < rarity("open") < rarity("unseen")


def test_a_tenant_without_passages_finds_every_word_rare() -> None:
    assert Rarity.of([])("word") == pytest.approx(1.0)
