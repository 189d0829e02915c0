"""The graph without a model: what is a name, what joins two of them, and how that is called."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ixrag.ingest.document import Block
from ixrag.ingest.graph import GlossaryTerm, find_graph
from ixrag.ingest.split import Cut
from ixrag.lightrag.corpus import Corpus, Entity, Passage, Relation


def cut(
    text: str,
    title: str = "",
    *,
    source: str = "a.md",
    lang: str = "",
    number: int = 1,
    **marks: tuple[str, ...],
) -> Cut:
    passage = Passage(id=f"{source}#{number}", title=title, text=text, source=source, lang=lang)
    return Cut(passage, Block(text=text, **marks))


def entities(*cuts: Cut, glossary: Iterable[GlossaryTerm] = ()) -> dict[str, Entity]:
    return {entity.name: entity for entity in find_graph(cuts, tuple(glossary))[0]}


def relations(*cuts: Cut) -> dict[tuple[str, str], Relation]:
    return {(r.source, r.target): r for r in find_graph(cuts)[1]}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(
            "We sell Brodal and Lumquat Pro to shops.", {"Brodal", "Lumquat Pro"}, id="capitals inside"
        ),
        pytest.param("Planning is easy. Our planning tool helps.", set(), id="ordinary word at the start"),
        pytest.param("The visitors come in June on a Monday.", set(), id="calendar"),
        pytest.param("Nous vendons l’outil d’Orvelle à Lyon.", {"Orvelle", "Lyon"}, id="elisions"),
        pytest.param(
            "It conforms to ISO 27001 and uses SSO.", {"ISO 27001", "SSO"}, id="acronyms and their numbers"
        ),
        pytest.param(
            "Unser Büro liegt in Wien. Die Kunden mögen Kaffee.", set(), id="German nouns say nothing"
        ),
        pytest.param(
            "Ask for the « Formule Duo » or “Night plan”.", {"Formule Duo", "Night plan"}, id="quoted"
        ),
        pytest.param("nothing here. and 2024 was good.", set(), id="no name"),
    ],
)
def test_names_by_how_they_are_written(text: str, names: set[str]) -> None:
    lang = "de" if "Büro" in text else ""
    assert set(entities(cut(text, lang=lang))) == names


def test_a_german_name_is_known_from_a_heading_and_the_text() -> None:
    text = "Dort plant Brodal die Schichten. Das Team mag Kaffee."
    assert set(entities(cut(text, "Brodal im Betrieb", lang="de"))) == {"Brodal"}


def test_a_label_says_what_a_name_is() -> None:
    found = entities(
        cut("They run shops.", "Customer: Maison Nordhem"),
        cut("Texte.", "Client : Halle Verrane", source="b.md"),
    )
    assert {name: entity.type for name, entity in found.items()} == {
        "Maison Nordhem": "customer",
        "Halle Verrane": "customer",
    }


def test_a_definition_describes_and_gives_the_kind() -> None:
    found = entities(cut("Hello. Brodal is the planning software of Orvelle. We like Brodal."))
    assert found["Brodal"].type == "product"
    assert found["Brodal"].description == "Brodal is the planning software of Orvelle."


def test_a_short_heading_without_a_name_is_a_topic() -> None:
    found = entities(
        cut("You pay by month.", "Opening hours"),
        cut("Brodal costs 3 at Brodal.", "Brodal prices", source="b.md"),
    )
    assert found["Opening hours"].type == "topic"
    assert "Brodal prices" not in found


def test_bold_words_are_names_when_they_have_a_capital() -> None:
    found = entities(cut("Try Duo today, it is very important.", terms=("Duo", "very important")))
    assert set(found) == {"Duo"}


def test_a_glossary_is_believed() -> None:
    found = entities(
        cut("you can badge in with a phone"), glossary=[GlossaryTerm("badge in", ("clock in",), "feature")]
    )
    assert found["badge in"].type == "feature"
    assert found["badge in"].aliases == ("clock in",)
    assert found["badge in"].passages == ("a.md#1",)


def test_a_name_keeps_its_passages_those_titled_with_it_first() -> None:
    found = entities(
        cut("You pay Brodal by month, and Brodal is billed.", number=1),
        cut("It plans.", "Brodal", number=2),
        cut("Nothing of it here.", number=3),
    )
    assert found["Brodal"].passages == ("a.md#2", "a.md#1")


def test_names_of_one_sentence_cooccur_and_say_where() -> None:
    found = relations(
        cut("Here Brodal exports timesheets to Fenstrel. Then Lumquat counts."),
        cut("We like Brodal.", number=2),
    )
    assert set(found) == {("Brodal", "Fenstrel")}
    relation = found["Brodal", "Fenstrel"]
    assert relation.keywords == ("cooccurs", "exports", "timesheets")
    assert relation.description == "Here Brodal exports timesheets to Fenstrel."
    assert (relation.passage, relation.weight) == ("a.md#1", 1.0)


def test_documents_that_link_join_the_names_that_head_them() -> None:
    found = relations(
        cut("Read on there.", "Brodal", source="site/plans/brodal.md", links=("../stock/lumquat.html?x=1#top", "https://x.example/")),
        cut("It counts.", "Lumquat", source="site/stock/lumquat.html", links=("missing.md", "mailto:a@b.example", "http://[bad")),
        cut("We like Brodal and we like Lumquat.\nReally.", source="site/c.md"),
    )  # fmt: skip
    assert set(found["Brodal", "Lumquat"].keywords) >= {"links", "cooccurs"}


@given(st.lists(st.text(st.sampled_from("aBcÉ zß.,:«»“”'’-\n19 店"), max_size=80), max_size=6))
def test_any_text_gives_a_corpus_that_holds_together(texts: list[str]) -> None:
    cuts = [
        cut(text or "x", text[:20], source=f"{n}.md", terms=(text[:9],), links=(text[:9],))
        for n, text in enumerate(texts)
    ]
    found, joined = find_graph(cuts)
    corpus = Corpus(tuple(one.passage for one in cuts), found, joined)
    assert {end for one in corpus.relations for end in (one.source, one.target)} <= {
        one.name for one in corpus.entities
    }
