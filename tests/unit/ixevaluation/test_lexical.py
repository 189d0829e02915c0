import math

import pytest

from ixevaluation.dataset import Passage
from ixevaluation.lexical import LexicalIndex, LexicalRetriever
from ixrag.documents import Retriever, WordSearch, search_report

PASSAGES = [
    Passage(id="plan", text="The planner builds schedules for restaurant teams."),
    Passage(id="pay", text="Payroll exports run every month. Payroll needs a contract."),
    Passage(id="badge", text="The badge clock records working hours of each team."),
    Passage(id="health", text="Care homes plan their teams with the planner."),
]


def test_scores_equal_the_formula() -> None:
    """Lucene BM25 by hand: idf * tf / (tf + k1 * (1 - b + b * length / mean length))."""
    index = LexicalIndex(PASSAGES)
    lengths = {p.id: len(index.words(p.text)) for p in PASSAGES}
    mean_length = sum(lengths.values()) / len(lengths)
    idf = math.log(1 + (4 - 1 + 0.5) / (1 + 0.5))
    expected = idf * 2 / (2 + 1.5 * (1 - 0.75 + 0.75 * lengths["pay"] / mean_length))
    ((found, score),) = index.search("payrolls")
    assert found == "pay"
    assert score == pytest.approx(expected, rel=1e-5)


def test_inflected_forms_meet_and_stop_words_do_not_count() -> None:
    index = LexicalIndex(PASSAGES)
    assert {doc for doc, _ in index.search("scheduling the restaurants")} == {"plan"}


@pytest.mark.parametrize("query", ["", "the of and", "zzz qqq", "?"])
def test_a_query_without_a_known_word_finds_nothing(query: str) -> None:
    assert LexicalIndex(PASSAGES).search(query) == []


def test_cut_is_respected_even_beyond_the_number_of_passages() -> None:
    index = LexicalIndex(PASSAGES)
    assert len(index.search("team planner", k=2)) == 2
    assert len(index.search("team planner", k=99)) == 3


def test_rarity_is_that_of_the_rarest_known_word() -> None:
    index = LexicalIndex(PASSAGES)
    assert index.rarity("team payroll") == index.rarity("payroll") > index.rarity("team") > 0
    assert index.rarity("zzz") == 0


@pytest.mark.parametrize(
    ("lang", "query"), [("fr", "les plannings"), ("de", "Dienstpläne"), ("es", "los turnos")]
)
def test_other_languages_have_their_own_stemmer(lang: str, query: str) -> None:
    texts = {"fr": "Le planning du mois.", "de": "Der Dienstplan im Monat.", "es": "El turno del mes."}
    index = LexicalIndex([Passage(id="x", text=texts[lang])], lang=lang)
    assert [doc for doc, _ in index.search(query)] == ["x"]


async def test_it_is_a_retriever_and_reports_what_it_searched() -> None:
    retriever: Retriever = LexicalRetriever(LexicalIndex(PASSAGES), rag_mode="naive", top_k=2)
    with search_report() as report:
        documents = await retriever.ainvoke("payroll export", ll_keywords=["badge"], hl_keywords=["hours"])
    assert retriever.rag_mode == "naive"
    assert [d.metadata["source"] for d in documents] == ["pay"]
    assert documents[0].metadata["rank"] == 1
    assert report.vector_text == "payroll export"


def test_an_index_over_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one passage"):
        LexicalIndex([])


async def test_words_beside_a_query_count_as_much_as_they_weigh() -> None:
    index = LexicalIndex(PASSAGES)
    alone = dict(index.search("team", k=9))
    beside = dict(index.search("team", k=9, beside={"payroll": 0.5}))
    assert beside["pay"] == pytest.approx(0.5 * dict(index.search("payroll"))["pay"])
    assert {key: beside[key] for key in alone} == pytest.approx(alone)
    found = await LexicalRetriever(index).ainvoke("team", missing_words={"payroll": 5.0})
    assert found[0].metadata["source"] == "pay"


async def test_what_an_answer_says_is_found_among_the_passages() -> None:
    retriever = LexicalRetriever(LexicalIndex(PASSAGES))
    assert isinstance(retriever, WordSearch)
    texts = await retriever.said_in(["Payroll runs monthly.", "zzz"], 1)
    assert texts == [["Payroll exports run every month. Payroll needs a contract."], []]
