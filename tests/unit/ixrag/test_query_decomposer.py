from __future__ import annotations

import pytest
from fakes import ScriptedModel
from hypothesis import given
from hypothesis import strategies as st

from ixinfra.errors import ModelError
from ixrag.query import HeuristicQueryDecomposer, LLMQueryDecomposer, QueryContext
from ixrag.query.boundaries import clauses, sentences

CTX = QueryContext("acme")


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        pytest.param(
            "describe Velmora Pulse and explain shift swapping",
            ["describe Velmora Pulse", "explain shift swapping"],
            id="en: two requests",
        ),
        pytest.param(
            "What does the payroll module cost and how do I export the hours?",
            ["What does the payroll module cost", "how do I export the hours?"],
            id="en: two questions",
        ),
        pytest.param(
            "What is a shift pool? Who may edit it? Thanks!",
            ["What is a shift pool?", "Who may edit it?"],
            id="en: sentences, and a thank-you that is none",
        ),
        pytest.param(
            "i need payroll for my shops. how much is it",
            ["i need payroll for my shops.", "how much is it"],
            id="en: small letter before a question word",
        ),
        pytest.param(
            "We want to plan the shifts but also we need the hours for payroll",
            ["We want to plan the shifts", "we need the hours for payroll"],
            id="en: but also",
        ),
        pytest.param(
            "Bonjour ! Combien coûte le module paie et est-ce qu'il gère les congés ?",
            ["Combien coûte le module paie", "est-ce qu'il gère les congés ?"],
            id="fr: and",
        ),
        pytest.param(
            "Comment ajouter un salarié, puis comment lui donner un planning ?",
            ["Comment ajouter un salarié", "comment lui donner un planning ?"],
            id="fr: then",
        ),
        pytest.param(
            "¿Cuánto cuesta el módulo de nóminas y cómo se integra con la caja?",
            ["¿Cuánto cuesta el módulo de nóminas", "cómo se integra con la caja?"],
            id="es",
        ),
        pytest.param(
            "Quanto costa il modulo paghe e come si integra con la cassa?",
            ["Quanto costa il modulo paghe", "come si integra con la cassa?"],
            id="it",
        ),
        pytest.param(
            "Was kostet das Lohnmodul und wie integriert es sich mit der Kasse?",
            ["Was kostet das Lohnmodul", "wie integriert es sich mit der Kasse?"],
            id="de",
        ),
        pytest.param(
            "给我讲讲排班模块的主要功能和价格。怎么把工时导出到薪资系统里面去？能不能先免费试用一个月？",
            [
                "给我讲讲排班模块的主要功能和价格。",
                "怎么把工时导出到薪资系统里面去？",
                "能不能先免费试用一个月？",
            ],
            id="a language without rules: sentence ends alone",
        ),
    ],
)
async def test_two_questions_are_taken_apart(query: str, parts: list[str]) -> None:
    assert await HeuristicQueryDecomposer().decompose(CTX, query) == parts


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("", id="empty"),
        pytest.param("Who pays and why?", id="short"),
        pytest.param("payroll and planning for restaurants with several sites", id="en: two things"),
        pytest.param("What is the difference between payroll and what we had before?", id="en: between"),
        pytest.param("Does it manage not only payroll but also the planning of holidays?", id="en: not only"),
        pytest.param("Il y a combien de modules dans la formule de base ?", id="fr: 'y' is no Spanish 'and'"),
        pytest.param("la paie et le planning pour un réseau de restaurants", id="fr: two things"),
        pytest.param("la nómina y los turnos para una cadena de tiendas", id="es: two things"),
        pytest.param("Cos'è il modulo paghe che è come quello di prima?", id="it: 'è' is no 'e'"),
        pytest.param(
            "Il turno è come prima per tutti i negozi della rete?", id="it: 'è' before a question word"
        ),
        pytest.param("Lohn und Schichtplanung für eine Kette von Läden", id="de: two things"),
        pytest.param(
            "Was kostet z. B. der 1. Mai für zwanzig Mitarbeiter?", id="de: abbreviation and ordinal"
        ),
        pytest.param("According to Smith et al. Table three shows the hours", id="en: et al."),
        pytest.param("The Dr. Miller clinic needs 3.5 full-time posts per ward", id="en: title and decimal"),
        pytest.param("open https://a.example/x?y=1&z=2.html#part. in the browser please", id="address"),
        pytest.param(
            "Which of your customers run it already? — Velmora Pulse", id="a name appended by a resolver"
        ),
        pytest.param("See J. R. Miller for the payroll of the third quarter", id="initials"),
        pytest.param("word " * 600, id="a pasted page"),
        pytest.param(
            "One is here. Two is here. Three is. Four is. Five is. Six is. Seven is.", id="too many"
        ),
        pytest.param(
            "What does the payroll module cost? What does the payroll module cost?", id="asked twice"
        ),
        pytest.param("What does the payroll module cost per month? Ok", id="a closing word"),
        pytest.param("The payroll module is not available in Spain, right? Ok", id="a question tag"),
        pytest.param("Do you know when and where the next training takes place?", id="two question words"),
        pytest.param(
            "How do I add an employee and give him a first schedule?", id="one request of two verbs"
        ),
        pytest.param("Does it plan the shifts and have an app for the staff?", id="a shared subject"),
        pytest.param("Il modulo calcola le ore e può esportarle in un file?", id="it: a shared subject"),
        pytest.param("What does the payroll module cost per month? ab", id="a part of two letters"),
    ],
)
async def test_one_question_is_left_alone(query: str) -> None:
    assert await HeuristicQueryDecomposer().decompose(CTX, query) == []


async def test_the_context_says_the_language_where_the_text_does_not() -> None:
    query = "módulo nóminas precio mensual y explica integración caja"

    assert await HeuristicQueryDecomposer().decompose(QueryContext("acme", "es"), query) == [
        "módulo nóminas precio mensual",
        "explica integración caja",
    ]


async def test_the_least_length_can_be_changed() -> None:
    assert await HeuristicQueryDecomposer(min_chars=5).decompose(CTX, "Who pays? And why?") == [
        "Who pays?",
        "And why?",
    ]


@given(st.text(st.characters()))
def test_sentences_are_pieces_of_the_text_in_order(text: str) -> None:
    position = 0
    for sentence in sentences(text):
        assert sentence == sentence.strip() != ""
        position = text.index(sentence, position) + len(sentence)
        for clause in clauses(sentence):
            assert clause in sentence


@given(st.text(st.sampled_from("ab .?!,;é\u0301È¿。\ud800\n")))
def test_no_word_is_lost_between_sentences(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


async def test_a_model_is_asked_for_complete_questions() -> None:
    model = ScriptedModel(
        script=["1. What does payroll cost?\n2. What does planning cost?\n3. Which is cheaper?"]
    )
    decomposer = LLMQueryDecomposer(model, max_parts=2)

    parts = await decomposer.decompose(CTX, "Which is cheaper, payroll or planning?")

    assert parts == ["What does payroll cost?", "What does planning cost?"]
    assert "at most 2" in str(model.asked[0][0].content)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("NONE", id="none"),
        pytest.param("none.", id="none as a sentence"),
        pytest.param("", id="nothing"),
        pytest.param("1. which IS cheaper, payroll or planning", id="the query again"),
    ],
)
async def test_a_model_that_splits_nothing_gives_nothing(answer: str) -> None:
    decomposer = LLMQueryDecomposer(ScriptedModel(script=[answer]))

    assert await decomposer.decompose(CTX, "Which is cheaper, payroll or planning?") == []


async def test_a_model_that_fails_is_an_error_of_the_component() -> None:
    with pytest.raises(ModelError):
        await LLMQueryDecomposer(ScriptedModel(script=[RuntimeError("down")])).decompose(CTX, "a question")
