from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ixchat.utils.history import plain_text, recent_turns
from ixchat.utils.local import LocalResolver
from ixchat.utils.names import is_company
from ixchat.utils.resolution import Message, Turn
from ixrag.words import folded


@dataclass(frozen=True, slots=True)
class Entity:
    name: str
    type: str = "product"
    aliases: tuple[str, ...] = ()


ENTITIES = [Entity("Pointavel"), Entity("Paiemine"), Entity("Premium", "plan")]
RESOLVER, LEARNED = LocalResolver(ENTITIES), LocalResolver(ENTITIES, learned=True)


def turn(query: str, *history: str, company: str = "Lumeo") -> Turn:
    roles = ("user", "assistant") * len(history)
    return Turn(query, [Message(role, text) for role, text in zip(roles, history, strict=False)], company)


SECTOR = ("Quels sont vos tarifs ?", "Ils dépendent du secteur. Quel est votre secteur d'activité ?")
EXAMPLE = ("Vous équipez des cliniques ?", "Oui. Souhaitez-vous que je vous partage un exemple de client ?")
DEMO = ("Vous avez une badgeuse ?", "Pointavel fait cela. Voulez-vous une démonstration ?")

REPLIES = [
    pytest.param("Santé", SECTOR, "Santé tarifs", ("Santé",), ("tarifs",), id="answer keeps the request"),
    pytest.param("Oui", EXAMPLE, "exemple client", ("exemple", "client"), ("exemple", "client"), id="yes takes the offer"),
    pytest.param("oui volontiers", DEMO, "démonstration Pointavel", ("Pointavel",), ("démonstration",), id="offer and the name around it"),
    pytest.param("👍", DEMO, "démonstration Pointavel", ("Pointavel",), ("démonstration",), id="a sign is a yes"),
    pytest.param("5 à 10 ans", ("Archiver avec Paiemine", "Pendant combien de temps ?"), "5 à 10 ans Paiemine Archiver", ("Paiemine", "5 à 10 ans"), ("Archiver",), id="own words as written"),
    pytest.param("Gesundheitswesen, 200 Mitarbeiter", ("Was kostet Premium?", "In welcher Branche sind Sie tätig?"), "Gesundheitswesen 200 Mitarbeiter Premium kostet", ("Premium", "Gesundheitswesen", "200 Mitarbeiter"), ("kostet",), id="two details"),
    pytest.param("Sì, grazie", ("Avete clienti nella ristorazione?", "Le mando un esempio di cliente?"), "esempio cliente", ("esempio", "cliente"), ("esempio", "cliente"), id="italian yes"),
    pytest.param("yes please", ("Do you have an API?", "Would you like to see its documentation?"), "documentation", ("documentation",), ("documentation",), id="english yes"),
    pytest.param("Business", ("What plans do you have?", "Which one interests you?"), "Business plans", ("Business",), ("plans",), id="a choice"),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "history", "query", "ll", "hl"), REPLIES)
async def test_a_short_reply_becomes_what_the_conversation_asks_for(
    reply: str, history: tuple[str, ...], query: str, ll: tuple[str, ...], hl: tuple[str, ...]
) -> None:
    text = await RESOLVER.search_query(turn(reply, *history))
    keywords = await RESOLVER.keyword_query(turn(reply, *history))
    assert (text.query, text.decision, text.fallback) == (query, "resolve", None)
    assert (keywords.ll_keywords, keywords.hl_keywords) == (ll, hl)
    assert keywords.query == reply


@pytest.mark.parametrize(
    ("reply", "history", "reason"),
    [
        pytest.param("Santé", (), "first_turn", id="first turn"),
        pytest.param("Combien ?", SECTOR, "gate_declined", id="a question"),
        pytest.param("Non", DEMO, "none", id="declined offer"),
        pytest.param("Merci beaucoup", DEMO, "none", id="thanks"),
        pytest.param("ok merci", ("Une badgeuse ?", "Pointavel fait cela."), "empty", id="yes to nothing"),
    ],
)
async def test_the_visitors_words_stand_with_a_reason(
    reply: str, history: tuple[str, ...], reason: str
) -> None:
    text = await RESOLVER.search_query(turn(reply, *history))
    keywords = await RESOLVER.keyword_query(turn(reply, *history))
    assert (text.query, text.fallback) == (reply, reason)
    assert (keywords.query, keywords.fallback, keywords.retriever_kwargs) == (reply, reason, {})


async def test_evidence_points_at_the_words_it_came_from() -> None:
    asked = turn("Oui", *DEMO)
    resolution = await RESOLVER.search_query(asked)
    for fact in resolution.trace["evidence"]:
        assert asked.messages[fact["message"]].content[fact["start"] : fact["end"]] == fact["term"]
    assert (resolution.trace["model"], resolution.trace["provider"]) == ("local:rules", "local")


async def test_a_reference_is_appended_in_the_spelling_of_the_history() -> None:
    asked = turn("Quelles enseignes l'ont déjà installé ?", "Une badgeuse ?", "**pointavel** fait cela.")
    resolution = await RESOLVER.reference(asked)
    assert resolution.query == "Quelles enseignes l'ont déjà installé ? — pointavel"
    assert resolution.trace["entity"] == "pointavel"
    evidence = resolution.trace["evidence"]
    assert asked.messages[evidence["message"]].content[evidence["start"] : evidence["end"]] == "pointavel"
    assert resolution.trace["reason"] == "one_candidate"


async def test_a_question_about_the_company_is_kept() -> None:
    asked = turn("Combien de bureaux avez-vous en France ?", *DEMO)
    resolution = await RESOLVER.reference(asked)
    assert (resolution.query, resolution.decision, resolution.fallback) == (asked.query, "keep", None)


TEXT = st.one_of(
    st.text(max_size=60),
    st.lists(
        st.sampled_from(
            [
                "oui",
                "non",
                "Pointavel",
                "**Paiemine**",
                "et",
                "it",
                "l'ont",
                "«",
                "x",
                "»",
                "vous",
                "Premium",
                "?",
                ".",
                "👍",
                "\u200b",
            ]
        )
    ).map(" ".join),
)


@given(TEXT, st.lists(TEXT, max_size=5), st.sampled_from(["", "Lumeo", "Pointavel"]))
async def test_nothing_is_added_that_the_conversation_does_not_hold(
    query: str, history: list[str], company: str
) -> None:
    asked = turn(query, *[text for text in history if text.strip()], company=company)
    held = f" {folded(' '.join([query, company, *(message.content for message in asked.messages)]))} "
    reference = await RESOLVER.reference(asked)
    text = await RESOLVER.search_query(asked)
    keywords = await RESOLVER.keyword_query(asked)
    if reference.query != query:
        message, _, name = reference.query.rpartition(" — ")
        assert message == query
        assert any(name in said.content for said in asked.messages)
    if text.query != query:
        assert len(text.query.split()) <= 8
        assert set(folded(text.query).split()) <= set(held.split())
    for term in (*keywords.ll_keywords, *keywords.hl_keywords):
        assert set(folded(term).split()) <= set(held.split())
    assert keywords.query == query


LEANING = st.sampled_from(
    [
        "Quelles enseignes l'ont déjà installé ?",
        "Et pour les restaurants ?",
        "Does it work offline?",
        "How big are they?",
    ]
)
PIECES = st.sampled_from(
    ["Pointavel", "**Paie**mine", "Pointa\u200bvel", "LE Premium", "l'Atelier", "[Pointavel](https://x.example/Paiemine)", "Lumeo",
     "E\u0301lan Pro", "« Tranquillité »", "•", "\n- ", "RESOLVE: Paiemine", "it is", "nous avons", "we have", ".", "info@pointavel.example"]
)  # fmt: skip
SAID = st.lists(PIECES, min_size=1, max_size=8).map(" ".join)


@given(
    LEANING | TEXT,
    st.lists(SAID, min_size=1, max_size=6),
    st.sampled_from([RESOLVER, LEARNED, LocalResolver()]),
)
async def test_a_reference_is_the_message_or_the_message_and_a_span_of_the_last_two_exchanges(
    query: str, history: list[str], resolver: LocalResolver
) -> None:
    asked = turn(query, *history)
    resolution = await resolver.reference(asked)
    if resolution.query == query:
        return
    place = resolution.trace["evidence"]
    shown = plain_text(asked.messages[place["message"]].content[place["start"] : place["end"]])
    assert resolution.query == f"{query} — {shown}"
    assert asked.messages[place["message"]] in recent_turns(asked.messages)
    assert not is_company(shown, asked.company_name)
    assert "://" not in shown
    assert folded(shown) not in folded(query)
