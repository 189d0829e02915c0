import pytest

from ixchat.utils.resolution import Message, Turn
from ixevaluation.rewriter.hygiene import find_defects, guess_language

TURN = Turn(
    "Santé",
    (
        Message("user", "Bonjour, quelles sont vos offres pour les établissements ?"),
        Message(
            "assistant", "Nous avons **Planivaro**, le planning des établissements. Quel est votre secteur ?"
        ),
    ),
    "Orvane",
)


@pytest.mark.parametrize(
    ("query", "defect"),
    [
        pytest.param("planning pour la santé dans les établisse", "truncated", id="half a known word"),
        pytest.param("planning pour la santé, les", "truncated", id="open end"),
        pytest.param("planning santé (offres", "truncated", id="unclosed bracket"),
        pytest.param("**Planivaro** pour Santé", "markdown", id="markdown"),
        pytest.param('"Planivaro Santé"', "quotes", id="whole text in quotes"),
        pytest.param("Planivaro Santé tarifs", "inflated", id="more than four times as long"),
        pytest.param("what is the planning for your health sector", "language", id="another language"),
        pytest.param("Santé avec Zorblax", "graft", id="a name nobody said"),
    ],
)
def test_each_defect_is_found(query: str, defect: str) -> None:
    assert defect in find_defects(TURN, query)


@pytest.mark.parametrize("query", ["Santé", "Orvane Santé", "Santé Planivaro", "offres Santé"])
def test_clean_texts_have_none(query: str) -> None:
    assert find_defects(TURN, query) == ()


def test_the_visitors_own_defects_are_not_the_rewriters() -> None:
    turn = Turn('"**Planivaro**"', TURN.messages, "Orvane")
    assert find_defects(turn, '"**Planivaro** Orvane"') == ()


def test_a_capital_at_the_start_of_a_sentence_is_no_name() -> None:
    assert "graft" not in find_defects(TURN, "Secteur. Santé")


def test_a_possessive_of_a_known_name_is_known() -> None:
    assert "graft" not in find_defects(TURN, "le prix de Planivaro's")


@pytest.mark.parametrize(
    ("text", "lang"),
    [
        ("Quelles sont les offres pour vous", "fr"),
        ("What are the plans for your team", "en"),
        ("¿Cuál es el precio para los equipos?", "es"),
        ("Quali sono gli orari della paga con voi", "it"),
        ("Was ist der Preis für das Team und die Kasse", "de"),
        ("Planivaro", None),
        ("", None),
    ],
)
def test_language_is_guessed_only_when_words_decide(text: str, lang: str | None) -> None:
    assert guess_language(text) == lang
