from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ixrag.query import InMemoryGlossary, QueryContext, TenantGlossary

CTX = QueryContext("acme")
TERMS = {
    "invoice": ["bill", "statement"],
    "system": ["installation"],
    "operating system": ["OS", "platform"],
    "operating system update": ["patch"],
    "RAG": ["retrieval augmented generation"],
    "congé": ["absence"],
    "C++": ["cpp"],
    "e-mail": ["mail"],
    "工资": ["薪水"],
}


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        pytest.param("where is my INVOICE?", ["invoice"], id="case"),
        pytest.param("what is RAG used for", ["rag"], id="the key is lower case"),
        pytest.param("fragile storage", [], id="whole words only"),
        pytest.param("the Operating   System", ["operating system"], id="a phrase with other blanks"),
        pytest.param("operating-system", ["operating system"], id="a phrase with a hyphen"),
        pytest.param("an operating system update", ["operating system update"], id="the longest phrase"),
        pytest.param("operating the system", ["system"], id="half a phrase is its word"),
        pytest.param("system operating system", ["system", "operating system"], id="order of the query"),
        pytest.param("mon conge payé", ["congé"], id="missing accent"),
        pytest.param("mon conge\u0301", ["congé"], id="decomposed accent"),
        pytest.param("l'invoice, l'e-mail", ["invoice", "e-mail"], id="apostrophes"),
        pytest.param("C++ or C?", ["c++"], id="symbols"),
        pytest.param("请问工资怎么算", ["工资"], id="no spaces between words"),
        pytest.param("invoices", [], id="plurals are off"),
        pytest.param("", [], id="empty"),
        pytest.param("?!", [], id="no words"),
    ],
)
async def test_terms_are_found_as_whole_words(query: str, terms: list[str]) -> None:
    assert list(await InMemoryGlossary(TERMS).expand(CTX, query)) == terms


async def test_synonyms_keep_the_glossarys_order() -> None:
    found = await InMemoryGlossary({"invoice": ["statement", "bill", "Invoice", "BILL", " "]}).expand(
        CTX, "invoice"
    )

    assert found == {"invoice": ["statement", "bill"]}


async def test_what_is_given_out_can_be_changed_without_harm() -> None:
    glossary = InMemoryGlossary(TERMS)
    (await glossary.expand(CTX, "invoice"))["invoice"].append("x")

    assert await glossary.expand(CTX, "invoice") == {"invoice": ["bill", "statement"]}


async def test_accents_can_be_made_to_matter() -> None:
    glossary = InMemoryGlossary({"congé": ["absence"], "cote": ["rating"]}, ignore_accents=False)

    assert list(await glossary.expand(CTX, "conge CONGE\u0301 côte")) == ["congé"]


@pytest.mark.parametrize(
    ("language", "term", "query"),
    [
        ("en", "invoice", "all invoices"),
        ("en", "policies", "the policy"),
        ("en", "pay run", "the last pay runs"),
        ("fr", "congé", "les congés"),
        ("fr", "tableau", "des tableaux"),
        ("fr", "local", "nos locaux"),
        ("es", "turno", "los turnos"),
        ("es", "sucursal", "las sucursales"),
        ("it", "turno", "i turni"),
        ("it", "fattura", "le fatture"),
        ("de", "Schicht", "alle Schichten"),
        ("de", "Rechnung", "die Rechnungen"),
    ],
)
async def test_plurals_can_be_ignored(language: str, term: str, query: str) -> None:
    assert list(await InMemoryGlossary({term: ["x"]}, plurals_of=[language]).expand(CTX, query)) == [
        term.lower()
    ]
    assert await InMemoryGlossary({term: ["x"]}).expand(CTX, query) == {}


@pytest.mark.parametrize("word", ["status", "business", "analysis", "gas"])
async def test_words_that_only_look_like_plurals_are_found(word: str) -> None:
    assert list(await InMemoryGlossary({word: ["x"]}, plurals_of=["en"]).expand(CTX, word)) == [word]


def test_an_unknown_language_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown language 'xx'; expected one of"):
        InMemoryGlossary({}, plurals_of=["xx"])


async def test_a_term_without_synonyms_is_no_term() -> None:
    glossary = InMemoryGlossary({"a": [], "b": ["B"], "??": ["x"]})

    assert len(glossary) == 0


async def test_each_tenant_has_its_own_words() -> None:
    shared = InMemoryGlossary({"rag": ["shared"]})
    glossary = TenantGlossary({"acme": InMemoryGlossary({"rag": ["retrieval"]})}, shared)

    assert await glossary.expand(QueryContext("acme"), "rag") == {"rag": ["retrieval"]}
    assert await glossary.expand(QueryContext("other"), "rag") == {"rag": ["shared"]}
    assert await TenantGlossary({}).expand(QueryContext(""), "rag") == {}


WORD = st.text("ab", min_size=1, max_size=2)
PHRASE = st.lists(WORD, min_size=1, max_size=3).map(" ".join)


def by_brute_force(terms: set[str], query: str) -> list[str]:
    """Longest terms first, then the leftmost; a regular expression finds each, marks what it used."""
    found: list[tuple[int, str]] = []
    left = query
    for length in (3, 2, 1):
        spots = []
        for term in terms:
            if term.count(" ") == length - 1:
                spots += [
                    (m.start(), term) for m in re.finditer(rf"(?=(?<!\S){re.escape(term)}(?!\S))", left)
                ]
        for start, term in sorted(spots):
            if left[start : start + len(term)] == term:
                left = left[:start] + re.sub(r"\S", "_", term) + left[start + len(term) :]
                found.append((start, term))
    return list(dict.fromkeys(term for _, term in sorted(found)))


@given(st.sets(PHRASE, max_size=8), st.lists(WORD, max_size=8).map(" ".join))
async def test_the_index_finds_what_a_scan_of_all_terms_finds(terms: set[str], query: str) -> None:
    glossary = InMemoryGlossary({term: ["synonym"] for term in terms})

    assert list(await glossary.expand(CTX, query)) == by_brute_force(terms, query)


@given(
    st.dictionaries(st.text(st.characters()), st.lists(st.text(st.characters()))), st.text(st.characters())
)
async def test_any_text_is_welcome(terms: dict[str, list[str]], query: str) -> None:
    for term, synonyms in (await InMemoryGlossary(terms, plurals_of=["en", "de"]).expand(CTX, query)).items():
        assert term == term.strip().lower()
        assert synonyms


async def test_ten_thousand_terms_cost_no_more_than_ten() -> None:
    # Terms that begin alike are the worst case; the bound is a thousand times what is measured.
    glossary = InMemoryGlossary({f"common term {number}": ["x"] for number in range(10_000)})
    query = " ".join(["common term"] * 50)
    started = time.perf_counter()

    assert await glossary.expand(CTX, f"{query} 9999") == {"common term 9999": ["x"]}
    assert time.perf_counter() - started < 0.5
