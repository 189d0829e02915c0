from dataclasses import dataclass

import pytest

from ixchat.utils.candidates import find_candidates, recent
from ixchat.utils.local.rules import Reason, Verdict, rule_on_reference
from ixchat.utils.resolution import Message, Turn
from ixrag.names import NameIndex


@dataclass(frozen=True, slots=True)
class Entity:
    name: str
    type: str = ""
    aliases: tuple[str, ...] = ()


INDEX = NameIndex([
    Entity("Lumeo", "company"),
    Entity("Pointavel", "product"),
    Entity("Paiemine", "product", ("Lumeo Paie",)),
    Entity("Scale", "plan"),
    Entity("Maison Ardente", "customer"),
    Entity("Lyon", "office"),
])  # fmt: skip


def turn(query: str, *history: str) -> Turn:
    """A turn at Lumeo; the history alternates, visitor first."""
    roles = ("user", "assistant") * len(history)
    messages = [Message(role, text) for role, text in zip(roles, history, strict=False)]
    return Turn(query, messages, "Lumeo")


BADGE = ("Vous avez une badgeuse ?", "Oui, **Pointavel** enregistre les heures.")
BOTH = ("Que vendez-vous ?", "Pointavel pour les heures, Paiemine pour la paie.")

TABLE = [
    pytest.param("Quelles enseignes l'ont déjà installé ?", BADGE, "resolve", "one_candidate", "Pointavel", id="clitic"),
    pytest.param("Et pour les restaurants ?", BADGE, "resolve", "one_candidate", "Pointavel", id="ellipsis"),
    pytest.param("Combien de bureaux avez-vous ?", BADGE, "keep", "no_marker", None, id="the company's offices"),
    pytest.param("Et vous êtes où ?", BADGE, "keep", "asks_the_company", None, id="ellipsis that asks the company"),
    pytest.param("Paiemine est-il compatible avec nos outils ?", BADGE, "keep", "names_its_subject", None, id="names another"),
    pytest.param("Et Lumeo, ça existe depuis quand ?", BADGE, "keep", "names_the_company", None, id="names the company"),
    pytest.param("Et si on parlait plutôt de tarifs ?", BADGE, "keep", "new_subject", None, id="announced shift"),
    pytest.param("Laquelle des deux gère les pauses ?", BOTH, "ambiguous", "several_meant", None, id="choice"),
    pytest.param("Ça fonctionne hors connexion ?", BOTH, "ambiguous", "several_candidates", None, id="two products"),
    pytest.param("Est-ce que c'est compatible ?", ("Bonjour", "Bonjour !"), "ambiguous", "no_candidate", None, id="nothing named"),
    pytest.param("Ça marche ?", ("Et Pointavel ?", "Pointavel et Paiemine vont ensemble."), "resolve", "shared_candidate", "Pointavel", id="the one the visitor asked about"),
    pytest.param("Ça marche ?", (*BADGE, "Et la paie ?", "Paiemine la fait."), "resolve", "latest_candidate", "Paiemine", id="the latest one"),
    pytest.param("How long did it take for them?", ("Any bakery?", "Yes, Maison Ardente has been using Pointavel."), "resolve", "one_candidate", "Maison Ardente", id="them is the customer, whatever it is"),
    pytest.param("How many staff do they have?", ("Any bakery?", "Yes, Maison Ardente has been using Pointavel."), "resolve", "one_candidate", "Maison Ardente", id="they is the customer"),
    pytest.param("Is it hard to set up?", ("Where are you?", "Our office is in Lyon."), "ambiguous", "no_candidate", None, id="an office is no thing"),
    pytest.param("How does it scale with you?", ("Is it big?", "We scale well with many users."), "keep", "names_its_subject", None, id="known cost: a plan named like a word"),
    pytest.param("Pointavel 4711", (), "keep", "unknown_language", None, id="no language"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "history", "verdict", "reason", "name"), TABLE)
def test_ruling(
    query: str, history: tuple[str, ...], verdict: Verdict, reason: Reason, name: str | None
) -> None:
    ruling = rule_on_reference(turn(query, *history), INDEX)
    found = ruling.candidate.name if ruling.candidate else None
    assert (ruling.verdict, ruling.reason, found) == (verdict, reason, name)


def test_the_alias_of_the_history_is_what_is_proposed() -> None:
    ruling = rule_on_reference(turn("Does it work offline?", "Payroll?", "Lumeo Paie does that."), INDEX)
    assert ruling.candidate is not None
    assert (ruling.candidate.text, ruling.candidate.name) == ("Lumeo Paie", "Paiemine")


def test_a_lower_case_word_of_the_assistant_is_not_a_plan() -> None:
    spoken = recent([Message("user", "Growth?"), Message("assistant", "We scale. The plan Scale helps.")])
    (candidate,) = find_candidates(spoken, INDEX, ordinary=frozenset({"scale"}))
    assert [spoken[1].text[m.start : m.end] for m in candidate.mentions] == ["Scale"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("We have **Cash Radar** here", ["Cash Radar"], id="bold"),
        pytest.param("Notre offre « Tranquillité »", ["Tranquillité"], id="quotes"),
        pytest.param("use InvoiceFlow for that", ["InvoiceFlow"], id="CamelCase"),
        pytest.param("ask for Bank Sync today", ["Bank Sync"], id="capitals inside a sentence"),
        pytest.param("Bank Sync refreshes hourly", ["Bank Sync"], id="two capitals at the start"),
        pytest.param("Transactions refresh hourly. Then wait", [], id="first words of sentences"),
    ],
)
def test_names_are_guessed_from_the_text_when_the_tenant_has_none(text: str, expected: list[str]) -> None:
    spoken = recent([Message("user", "?"), Message("assistant", text)])
    assert [candidate.text for candidate in find_candidates(spoken, NameIndex())] == expected


def test_only_the_last_two_exchanges_count() -> None:
    history = (*BADGE, "Merci", "De rien", "Une question", "Oui ?")
    assert rule_on_reference(turn("Ça coûte combien ?", *history), INDEX).reason == "no_candidate"
