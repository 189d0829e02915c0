"""Searches on real LightRAG: what is sent to each channel, what comes back, how often a model is asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from fakes import HashEmbedder, ScriptedModel
from langchain_core.documents import Document
from small_base import opened

from ixinfra.config.settings import RagMode
from ixinfra.errors import RetrievalError
from ixrag.documents import SearchReport, search_report
from ixrag.lightrag.knowledge_base import KnowledgeBase
from ixrag.lightrag.langgraph_retriever import LightRAGRetriever

GRAPH_MODES: list[RagMode] = ["local", "global", "hybrid", "mix"]
KEYWORDS = json.dumps({"low_level_keywords": ["Lumquat"], "high_level_keywords": ["stock"]})
BOTH = {"ll_keywords": ["Brodal"], "hl_keywords": ["payroll"]}


@pytest.fixture
def embedder() -> HashEmbedder:
    return HashEmbedder()


@pytest.fixture
async def base(tmp_path: Path, embedder: HashEmbedder) -> AsyncIterator[KnowledgeBase]:
    async with opened(tmp_path, embedder=embedder) as base:
        embedder.calls.clear()
        yield base


async def search(
    base: KnowledgeBase, query: str, mode: RagMode = "mix", company: str = "", **kwargs: Any
) -> tuple[list[Document], SearchReport]:
    retriever = LightRAGRetriever(knowledge_base=base, rag_mode=mode, tenant_id="acme", company_name=company)
    with search_report() as report:
        return await retriever.ainvoke(query, **kwargs), report


def kinds(documents: list[Document]) -> list[str]:
    return [document.metadata["kind"] for document in documents]


async def test_passages_come_first_then_entities_then_relations_each_ranked(base: KnowledgeBase) -> None:
    documents, report = await search(base, "Brodal payroll", **BOTH)
    found = kinds(documents)
    assert found == sorted(found, key=["chunk", "entity", "relation"].index)
    for kind in ("chunk", "entity", "relation"):
        ranks = [d.metadata["rank"] for d in documents if d.metadata["kind"] == kind]
        assert ranks == list(range(1, len(ranks) + 1))
    assert [report.facts[key] for key in ("chunks", "entities", "relations")] == [
        found.count(kind) for kind in ("chunk", "entity", "relation")
    ]
    assert all(report.facts[key] > 0 for key in ("chunks", "entities", "relations"))


async def test_a_passage_says_where_it_comes_from(base: KnowledgeBase) -> None:
    documents, _ = await search(base, "sells Brodal for 3 euros a month", "naive")
    assert documents[0].page_content == "Orvelle sells Brodal for 3 euros a month."
    assert documents[0].metadata == {
        "kind": "chunk",
        "rank": 1,
        "chunk_id": documents[0].id,
        "passage_id": "brodal-price",
        "source": "prices.pdf",
        "title": "",
        "lang": "en",
        "tenant": "acme",
    }


async def test_an_entity_brings_every_passage_about_it(base: KnowledgeBase) -> None:
    documents, _ = await search(
        base, "what is it", "local", ll_keywords=["Brodal Planning tool"], hl_keywords=["x"]
    )
    brodal = next(d for d in documents if d.metadata.get("name") == "Brodal")
    assert brodal.page_content.startswith("Brodal (product): Planning tool")
    assert brodal.metadata["passage_ids"] == ["brodal", "brodal-price"]
    assert {"brodal", "brodal-price"} <= {d.metadata.get("passage_id") for d in documents}


@pytest.mark.parametrize("mode", ["naive", *GRAPH_MODES])
async def test_supplied_keywords_ask_no_model(tmp_path: Path, mode: RagMode) -> None:
    model = ScriptedModel()
    async with opened(tmp_path, keyword_model=model) as base:
        await search(base, "Brodal", mode, **BOTH)
    assert model.asked == []


@pytest.mark.parametrize(
    ("mode", "ll", "hl", "source"),
    [
        ("naive", [], [], ""),
        ("local", ["Brodal"], [], "supplied"),
        ("global", [], ["payroll"], "supplied"),
        ("hybrid", ["Brodal"], ["payroll"], "supplied"),
        ("mix", ["Brodal"], ["payroll"], "supplied"),
    ],
)
async def test_each_mode_embeds_the_query_and_the_lists_it_reads(
    base: KnowledgeBase, embedder: HashEmbedder, mode: RagMode, ll: list[str], hl: list[str], source: str
) -> None:
    _, report = await search(base, "what about it", mode, **BOTH)
    assert (report.ll_keywords, report.hl_keywords, report.keyword_source) == (ll, hl, source)
    assert {kind for kind, _ in embedder.calls} == {"query"}
    assert {text for _, texts in embedder.calls for text in texts} == {"what about it", *ll, *hl}
    assert len(embedder.calls) == 1  # one batch: no channel is searched twice


async def test_naive_mode_says_that_it_had_no_use_for_keywords(base: KnowledgeBase) -> None:
    _, report = await search(base, "what about it", "naive", **BOTH)
    assert report.facts["dropped"] == ["keywords"]


@pytest.mark.parametrize("mode", GRAPH_MODES)
@pytest.mark.parametrize("alone", [{"ll_keywords": ["Lumquat"]}, {"hl_keywords": ["stock"]}])
async def test_one_list_alone_is_dropped(
    base: KnowledgeBase, mode: RagMode, alone: dict[str, list[str]]
) -> None:
    _, report = await search(base, "tell me about Brodal payroll", mode, **alone)
    assert report.keyword_source == "local"
    assert report.facts["dropped"] == ["single_keyword_list"]
    assert report.ll_keywords in ([], ["Brodal"])
    assert report.hl_keywords in ([], ["Brodal", "payroll"])
    assert report.ll_keywords or report.hl_keywords


async def test_history_is_dropped_and_recorded(base: KnowledgeBase, embedder: HashEmbedder) -> None:
    history = [{"role": "user", "content": "Zanzibar"}]
    documents, report = await search(base, "Brodal", conversation_history=history)
    assert documents
    assert report.facts["dropped"] == ["conversation_history"]
    assert "Zanzibar" not in str(embedder.calls)


@pytest.mark.parametrize(
    "query", ["Ok", "5", "é", "本", "Oui", "👍", "\ud800", "a\0b", "<b>hi</b>", "x" * 10_000]
)
@pytest.mark.parametrize("mode", ["naive", "mix"])
async def test_any_text_can_be_searched(base: KnowledgeBase, query: str, mode: RagMode) -> None:
    documents, report = await search(base, query, mode)
    assert documents
    assert "reason" not in report.facts


@pytest.mark.parametrize("query", ["", "   ", "\u200b\u200d", "\n\t\u00a0", "\0"])
@pytest.mark.parametrize("mode", ["naive", "mix"])
async def test_a_blank_query_finds_nothing_and_says_why(
    base: KnowledgeBase, embedder: HashEmbedder, query: str, mode: RagMode
) -> None:
    documents, report = await search(base, query, mode, **BOTH)
    assert documents == []
    assert report.facts["reason"] == "empty_query"
    assert embedder.calls == []


async def test_the_company_is_bound_for_the_keyword_model_alone(tmp_path: Path) -> None:
    model, embedder = ScriptedModel(script=[KEYWORDS]), HashEmbedder()
    async with opened(
        tmp_path, embedder=embedder, keyword_model=model, company_binding="{query} ({company})"
    ) as base:
        embedder.calls.clear()
        _, report = await search(base, "Where are your offices?", company="Orvelle")
    assert "Where are your offices? (Orvelle)" in str(model.asked[0][-1].content)
    assert [texts for _, texts in embedder.calls] == [["Where are your offices?", "Lumquat", "stock"]]
    assert report.vector_text == "Where are your offices?"
    assert report.facts["sent"] == "Where are your offices? (Orvelle)"


async def test_neither_template_nor_company_can_be_filled_from_the_query(tmp_path: Path) -> None:
    async with opened(tmp_path, company_binding="{query} ({company})") as base:
        _, report = await search(base, "Where are your {offices}?", company="Orvelle {x}")
    assert report.facts["sent"] == "Where are your {offices}? (Orvelle {x})"
    assert report.ll_keywords == ["offices"]


async def test_nothing_found_is_an_empty_list_with_a_reason(tmp_path: Path) -> None:
    async with opened(tmp_path, cosine_threshold=0.999) as base:
        for mode in ("naive", "local", "global", "hybrid", "mix"):
            documents, report = await search(base, "zanzibar", mode, ll_keywords=["q"], hl_keywords=["r"])
            assert (documents, report.facts["reason"]) == ([], "nothing_found")


async def test_a_budget_too_small_for_passages_still_brings_the_graph(tmp_path: Path) -> None:
    async with opened(tmp_path, max_total_tokens=1) as base:
        documents, report = await search(base, "Brodal payroll", **BOTH)
    assert report.facts["chunks"] == 0
    assert set(kinds(documents)) == {"entity", "relation"}


async def test_k_bounds_what_is_returned(base: KnowledgeBase) -> None:
    retriever = LightRAGRetriever(knowledge_base=base, k=2)
    assert len(await retriever.ainvoke("Brodal")) == 2
    assert len(await retriever.ainvoke("Brodal", k=1)) == 1


async def test_search_mode_changes_the_search_but_not_the_tier(base: KnowledgeBase) -> None:
    retriever = LightRAGRetriever(knowledge_base=base, rag_mode="mix", search_mode="naive")
    assert retriever.rag_mode == "mix"
    assert set(kinds(await retriever.ainvoke("Brodal"))) == {"chunk"}


@pytest.mark.parametrize("mode", GRAPH_MODES)
async def test_a_keyword_model_is_asked_once_when_nothing_is_supplied(tmp_path: Path, mode: RagMode) -> None:
    model = ScriptedModel(script=[KEYWORDS])
    async with opened(tmp_path, keyword_model=model) as base:
        _, report = await search(base, "how do I count what is on the shelf", mode)
    assert len(model.asked) == 1
    assert report.keyword_source == "lightrag"
    assert report.ll_keywords == ([] if mode == "global" else ["Lumquat"])
    assert report.hl_keywords == ([] if mode == "local" else ["stock"])


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (ScriptedModel(script=[RuntimeError("no")]), "model_error"),
        (ScriptedModel(script=[KEYWORDS], delay_s=30), "timeout"),
    ],
)
async def test_a_dead_keyword_model_costs_its_deadline_not_the_search(
    tmp_path: Path, model: ScriptedModel, reason: str
) -> None:
    async with opened(tmp_path, keyword_model=model, keyword_timeout_s=0.05) as base:
        documents, report = await search(base, "does Brodal know about payroll and hours")
    assert documents
    assert (report.keyword_source, report.facts["keyword_failure"]) == ("local", reason)
    assert (report.ll_keywords, report.hl_keywords) == (["Brodal"], ["Brodal", "payroll", "hours"])


@pytest.mark.parametrize("answer", ["", "I cannot help with that.", "[]", "{}", "{broken"])
async def test_a_keyword_model_that_says_nothing_gives_nothing_not_an_error(
    tmp_path: Path, answer: str
) -> None:
    async with opened(tmp_path, keyword_model=ScriptedModel(script=[answer])) as base:
        documents, report = await search(
            base, "a question that is longer than fifty characters, as LightRAG counts"
        )
    assert (documents, report.facts["reason"]) == ([], "nothing_found")


async def test_a_slow_engine_is_given_up_at_the_deadline(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    async with opened(tmp_path, embedder=embedder, query_timeout_s=0.1) as base:
        embedder.delay_s = 60
        with search_report() as report, pytest.raises(RetrievalError) as raised:
            await LightRAGRetriever(knowledge_base=base).ainvoke("Brodal")
        assert raised.value.reason == report.facts["reason"] == "timeout"
        embedder.delay_s = 0
        assert await LightRAGRetriever(knowledge_base=base).ainvoke("Brodal")
    assert embedder.running == 0


async def test_an_engine_that_fails_is_unavailable_and_keeps_the_query_to_itself(tmp_path: Path) -> None:
    class Broken(HashEmbedder):
        async def query(self, texts: Any) -> Any:
            raise ConnectionError(f"could not embed {texts}")

    async with opened(tmp_path, embedder=Broken()) as base:
        with pytest.raises(RetrievalError) as raised:
            await LightRAGRetriever(knowledge_base=base).ainvoke("a secret question")
    assert raised.value.reason == "unavailable"
    assert "secret" not in f"{raised.value!r} {raised.value.__cause__!r}"


@pytest.mark.parametrize("mode", ["naive", *GRAPH_MODES])
async def test_a_search_does_no_blocking_call_in_the_loop(base: KnowledgeBase, mode: RagMode) -> None:
    retriever = LightRAGRetriever(knowledge_base=base, rag_mode=mode)
    with blockbuster_ctx():
        assert await retriever.ainvoke("Brodal payroll")


async def test_invoke_in_a_running_loop_names_ainvoke(base: KnowledgeBase) -> None:
    with pytest.raises(RetrievalError, match="ainvoke"):
        LightRAGRetriever(knowledge_base=base).invoke("Brodal")


async def test_invoke_in_a_thread_searches_in_the_loop_of_the_base(base: KnowledgeBase) -> None:
    retriever = LightRAGRetriever(knowledge_base=base)
    documents = await asyncio.to_thread(retriever.invoke, "Brodal payroll", **BOTH)
    assert [d.id for d in documents] == [d.id for d in await retriever.ainvoke("Brodal payroll", **BOTH)]


async def test_another_loop_searches_in_the_loop_of_the_base(base: KnowledgeBase) -> None:
    retriever = LightRAGRetriever(knowledge_base=base)

    def elsewhere() -> tuple[list[Document], SearchReport]:
        with search_report() as report:
            return asyncio.run(retriever.ainvoke("Brodal payroll", **BOTH)), report

    documents, report = await asyncio.to_thread(elsewhere)
    assert documents
    assert report.keyword_source == "supplied"


def test_invoke_works_where_no_loop_runs(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        manager = opened(tmp_path)
        base = runner.run(manager.__aenter__())
        assert LightRAGRetriever(knowledge_base=base).invoke("Brodal")
        runner.run(manager.__aexit__(None, None, None))
        with pytest.raises(RetrievalError) as raised:
            LightRAGRetriever(knowledge_base=base).invoke("Brodal")
    assert raised.value.reason == "closed"
