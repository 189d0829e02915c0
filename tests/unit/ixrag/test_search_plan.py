"""What a search sends and how its answer is read, without LightRAG's stores."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ixrag.lightrag.langgraph_retriever import (
    LightRAGRetriever,
    SearchPlan,
    lift,
    plan_search,
    searchable,
)
from ixrag.lightrag.manifest import Catalog, PassageInfo
from ixrag.lightrag.results import to_documents, used_keywords
from ixrag.names import NameIndex

TEMPLATE = "{company}: {query}"
CATALOG = Catalog(names=(), passages={"chunk-1": PassageInfo(id="p1", title="T", source="a.pdf", lang="en")})


def plan(query: str = "price of it", ll: Any = None, hl: Any = None, **changes: Any) -> SearchPlan:
    given: dict[str, Any] = {"mode": "mix", "company_name": "", "template": TEMPLATE, "names": NameIndex()}
    return plan_search(query, ll, hl, **{**given, **changes})


@pytest.mark.parametrize(
    ("ll", "hl", "source", "keywords", "dropped"),
    [
        pytest.param(["a"], ["b"], "supplied", (("a",), ("b",)), (), id="both"),
        pytest.param(["a"], None, "local", (("price",), ("price",)), ("single_keyword_list",), id="ll alone"),
        pytest.param([], ["b"], "local", (("price",), ("price",)), ("single_keyword_list",), id="hl alone"),
        pytest.param(
            [" "], ["b"], "local", (("price",), ("price",)), ("single_keyword_list",), id="blank ll"
        ),
        pytest.param([], [], "local", (("price",), ("price",)), (), id="empty lists"),
        pytest.param("abc", ("b",), "supplied", (("abc",), ("b",)), (), id="a lone string is one keyword"),
        pytest.param(["a", "", "c "], ["b"], "supplied", (("a", "c"), ("b",)), (), id="blanks left out"),
    ],
)
def test_both_lists_or_neither(
    ll: Any, hl: Any, source: str, keywords: Any, dropped: tuple[str, ...]
) -> None:
    made = plan(ll=ll, hl=hl)
    assert (made.keyword_source, made.dropped) == (source, dropped)
    assert (made.ll_keywords, made.hl_keywords) == keywords


def test_extraction_is_left_to_lightrag_where_it_has_a_model() -> None:
    made = plan(names=None)
    assert (made.keyword_source, made.ll_keywords, made.hl_keywords) == ("lightrag", (), ())


@pytest.mark.parametrize(
    ("query", "company", "template", "text"),
    [
        ("Ok", "Orvelle", TEMPLATE, "Orvelle: Ok"),
        ("Ok", "", TEMPLATE, "“Ok”"),
        ("Ok", "Orvelle", None, "“Ok”"),
        ("{query} {company}", "Orvelle", TEMPLATE, "Orvelle: {query} {company}"),
        ("  Oui \n", "", None, "Oui"),
        ("\u200b", "Orvelle", TEMPLATE, ""),
    ],
)
def test_the_text_is_bound_and_long_enough(query: str, company: str, template: str | None, text: str) -> None:
    assert plan(query, company_name=company, template=template).text == text


@given(st.text())
def test_lightrag_never_refuses_what_is_sent(query: str) -> None:
    from lightrag.query_validation import validate_rag_query

    text = plan(query).text
    assert bool(text) == bool(searchable(query))
    if text:
        validate_rag_query(text)
        text.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "lifted"), [("5", "“5”"), ("é", "“é”"), ("本", "“本”"), ("日本", "日本"), ("abc", "abc")]
)
def test_only_short_texts_are_lifted(text: str, lifted: str) -> None:
    assert lift(text) == lifted


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"status": "failure", "data": {}, "metadata": {"failure_reason": "no_results"}},
        {"status": "failure", "data": {"chunks": [], "entities": [], "relationships": []}},
        {"status": "success", "data": {"chunks": []}, "metadata": {}},
        {"status": "success", "data": None, "metadata": None},
    ],
)
def test_every_form_of_nothing_is_an_empty_list(raw: dict[str, Any]) -> None:
    assert to_documents(raw, CATALOG) == []
    assert used_keywords(raw) == ([], [])


def test_a_chunk_the_catalog_does_not_know_keeps_the_file_name_of_lightrag() -> None:
    raw = {"data": {"chunks": [{"content": "c", "file_path": "x.md", "chunk_id": "chunk-9"}]}}
    [document] = to_documents(raw, CATALOG, "acme")
    assert document.metadata == {
        "kind": "chunk",
        "rank": 1,
        "chunk_id": "chunk-9",
        "source": "x.md",
        "tenant": "acme",
    }


def test_entities_and_relations_name_the_passages_they_come_from() -> None:
    raw = {
        "data": {
            "entities": [{"entity_name": "E", "entity_type": "t", "description": "d", "source_id": "chunk-1<SEP>chunk-9", "file_path": "x"}],
            "relationships": [{"src_id": "E", "tgt_id": "F", "description": "r", "keywords": "k, l", "source_id": "", "file_path": "x"}],
        }
    }  # fmt: skip
    entity, relation = to_documents(raw, CATALOG, "acme")
    assert (entity.id, entity.page_content) == ("entity:E", "E (t): d")
    assert entity.metadata["chunk_ids"] == ["chunk-1", "chunk-9"]
    assert (entity.metadata["passage_ids"], entity.metadata["source"]) == (["p1"], "a.pdf")
    assert (relation.id, relation.page_content) == ("relation:E|F", "E – F: r")
    assert relation.metadata["names"] == ["E", "F"]
    assert (relation.metadata["chunk_ids"], relation.metadata["source"]) == ([], "x")
    assert {document.metadata["tenant"] for document in (entity, relation)} == {"acme"}


def test_keyword_arguments_are_declared_in_both_signatures() -> None:
    """LangChain hands a keyword to a method only if that very method declares it."""
    for method in (LightRAGRetriever._get_relevant_documents, LightRAGRetriever._aget_relevant_documents):
        assert {"ll_keywords", "hl_keywords", "conversation_history", "k"} <= set(method.__kwdefaults__ or ())
