"""What the passages say of a name: by language, by rarity, and nothing where nothing is known."""

from dataclasses import dataclass

import pytest

from ixrag.names import NameIndex
from ixrag.profiles import MAX_NAME_PASSAGES, NameProfiles


@dataclass(frozen=True, slots=True)
class Entity:
    name: str
    type: str = "product"
    aliases: tuple[str, ...] = ()


NAMES = NameIndex([Entity("Thermelio", aliases=("the probe",)), Entity("Stockarel")])
PASSAGES = [
    "Thermelio is a probe for cold rooms, and its battery lasts for two years in the cold.",
    "Stockarel counts the stock of a shop and orders what is missing in the night.",
    "With the probe you also see how humid a room is, and what it was in the night.",
    "Stockarel compte les stocks de la boutique et commande ce qui manque dans la nuit.",
]
PROFILES = NameProfiles.of(PASSAGES, NAMES)


def test_words_of_the_passages_that_hold_a_name_are_covered() -> None:
    assert PROFILES.coverage(["battery"], "Thermelio", "en") == 1.0
    assert PROFILES.coverage(["battery"], "Stockarel", "en") == 0.0


def test_an_alias_counts_as_the_name_and_a_plural_as_its_singular() -> None:
    assert PROFILES.coverage(["rooms", "humid"], "Thermelio", "en") == 1.0


def test_a_rare_word_counts_for_more_than_a_common_one() -> None:
    rare_missing = PROFILES.coverage(["night", "warranty"], "Stockarel", "en")
    common_missing = PROFILES.coverage(["orders", "probe"], "Stockarel", "en")
    assert rare_missing is not None
    assert common_missing is not None
    assert 0 < rare_missing < common_missing < 1


@pytest.mark.parametrize(
    ("name", "language"), [("Thermelio", "fr"), ("Thermelio", ""), ("Nobody", "en")], ids=str
)
def test_nothing_is_known_of_a_name_in_a_language_without_passages(name: str, language: str) -> None:
    assert PROFILES.coverage(["battery"], name, language) is None


def test_a_message_without_words_is_not_covered() -> None:
    assert PROFILES.coverage([], "Thermelio", "en") == 0.0


def test_a_name_on_every_page_is_read_on_the_first_ones() -> None:
    pages = [f"Thermelio and the number{n} of the page" for n in range(MAX_NAME_PASSAGES + 5)]
    profiles = NameProfiles.of(pages, NAMES)
    assert profiles.coverage([f"number{MAX_NAME_PASSAGES - 1}"], "Thermelio", "en") == 1.0
    assert profiles.coverage([f"number{MAX_NAME_PASSAGES + 1}"], "Thermelio", "en") == 0.0
