"""Query understanding and working memory inside the real graph, and what they change by default: nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeRetriever, HashEmbedder, ScriptedModel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from openai_server import answer, openai_server
from typer.testing import CliRunner

from ixchat.commands.app import app
from ixchat.graph import build_chat_graph, open_tenant
from ixchat.nodes.knowledge_retriever import Deps, retrieve
from ixchat.state import ChatContext
from ixchat.utils.local.resolver import LocalResolver
from ixchat.utils.memory_recall import recall_from_store, working_memory_from
from ixchat.utils.memory_rewriter import WorkingMemory, memory_resolver
from ixchat.utils.resolution import Turn
from ixevaluation.dataset import load_set
from ixinfra.config.loader import get_config
from ixinfra.config.settings import ENVIRONMENTS, Settings
from ixinfra.tracing_tree import RecordingTracer
from ixrag.lightrag.langgraph_retriever import LightRAGRetriever
from ixrag.query import QueryContext, QueryUnderstandingPipeline
from ixrag.query.retriever import UnderstandingRetriever
from ixrag.sample import sample_corpus

SETS = ["v1", "elliptic", "reference"]


def test_no_environment_asks_for_other_forms_by_default() -> None:
    for name in ENVIRONMENTS:
        settings = get_config(name)
        assert settings.query_rewriter.strategy == "messages"
        for tenant in settings.tenants.values():
            assert (tenant.passage_forms, tenant.graph_forms) == ((), ())


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("rag_mode", ["naive", "mix"])
async def test_every_bundled_turn_is_searched_as_before(name: str, rag_mode: Any) -> None:
    local = LocalResolver(sample_corpus().entities)
    plain, wrapped = FakeRetriever(rag_mode=rag_mode), FakeRetriever(rag_mode=rag_mode)
    nothing = UnderstandingRetriever(
        wrapped, lambda _channels: None, QueryUnderstandingPipeline(), {}, QueryContext("acme")
    )
    before = Deps(
        plain,
        text_resolver=local.search_query,
        keyword_resolver=local.keyword_query,
        reference_resolver=local.reference,
        short_reply_deadline_s=60,
        reference_deadline_s=60,
    )
    after = replace(before, retriever=nothing)
    for item in load_set(name).items:
        await retrieve(item.turn(), before)
        await retrieve(item.turn(), after)

    assert plain.calls == wrapped.calls
    assert len(plain.calls) >= len(load_set(name).items)


def with_forms(tmp_path: Path, model: dict[str, Any] | None = None, **tenant: Any) -> Settings:
    settings = get_config("test")
    changed = settings.tenants["advanced"].model_copy(update=tenant)
    (tmp_path / "advanced.csv").write_text("term,synonym\npaie,salaire\n", encoding="utf-8")
    understanding = settings.query_understanding.model_copy(
        update={"glossary_dir": tmp_path, "timeout_s": 20.0}
    )
    models = settings.models
    if model is not None:
        route = models.query_understanding.model_copy(update=model)
        models = models.model_copy(update={"query_understanding": route})
    return settings.model_copy(
        update={
            "models": models,
            "query_understanding": understanding,
            "lightrag": settings.lightrag.model_copy(
                update={"working_dir": tmp_path, "cosine_threshold": -1.0}
            ),
            "tenants": {**settings.tenants, "advanced": changed},
        }
    )


async def test_forms_are_searched_on_a_real_knowledge_base(tmp_path: Path) -> None:
    settings = with_forms(tmp_path, passage_forms=("glossary", "decomposer"), graph_forms=("decomposer",))
    tracer = RecordingTracer()
    tenant = await open_tenant(settings, "advanced", embedder=HashEmbedder(dim=256), tracer=tracer)
    try:
        with tracer.turn(tenant_id="advanced"):
            turn = Turn("Combien coûte la paie et comment l'exporter au comptable ?")
            retrieval = await retrieve(turn, tenant.deps)
    finally:
        await tenant.close()

    (search,) = retrieval.searches
    forms = search.report.facts["understanding"]["forms"]
    assert [(form["component"], form["channels"], form["failed"]) for form in forms] == [
        ("decomposer", ["dense", "graph"], None),
        ("decomposer", ["dense", "graph"], None),
        ("glossary", ["dense"], None),
    ]
    assert all(form["documents"] for form in forms)
    assert retrieval.documents
    kinds = [document.metadata["kind"] for document in retrieval.documents]
    assert kinds == sorted(kinds, key=["chunk", "entity", "relation"].index)
    json.dumps(retrieval.record)
    (root,) = tracer.turns[0].spans
    (span,) = [child for child in root.children if child.name == "tool-lightrag-retrieval"]
    assert [child.name for child in span.children] == ["query.understand"]


async def test_the_mean_vector_of_made_up_answers_is_what_lightrag_searches(tmp_path: Path) -> None:
    pytest.importorskip("langchain_openai", reason="the openai extra is not installed")
    passage = sample_corpus().passages[7]
    async with openai_server(answer(passage.content)) as server:
        model = {"model": "openai:any", "base_url": server.openai_url, "timeout_s": 10.0}
        settings = with_forms(tmp_path, model, passage_forms=("hyde",))
        embedder = HashEmbedder(dim=256)
        tenant = await open_tenant(settings, "advanced", embedder=embedder, tracer=RecordingTracer())
        try:
            assert isinstance(tenant.deps.retriever, UnderstandingRetriever)
            dense = tenant.deps.retriever.search_in(frozenset({"dense"}))
            assert isinstance(dense, LightRAGRetriever)
            searched: list[str] = []
            asks = embedder.query

            async def watch(texts: Any) -> Any:
                searched.extend(texts)
                return await asks(texts)

            embedder.query = watch  # type: ignore[method-assign]  # a probe on a test's own embedder
            retrieval = await retrieve(Turn("zzz"), tenant.deps)
            passages = await dense.ainvoke("zzz")
        finally:
            await tenant.close()

    (form,) = retrieval.searches[0].report.facts["understanding"]["forms"]
    assert (form["component"], form["failed"]) == ("hyde", None)
    assert passage.content[:40] in form["text"]
    assert searched
    assert not any(passage.content[:40] in text for text in searched)  # its vector was given, not computed
    own = [document.metadata.get("passage_id") for document in passages]
    fused = [document.metadata.get("passage_id") for document in retrieval.documents]
    assert fused.index(passage.id) < min(own.index(passage.id) if passage.id in own else 99, 14)


async def test_memory_of_the_store_reaches_the_text_path() -> None:
    store = InMemoryStore()
    await store.aput(
        ("working_memory", "acme"), "thread-1", {"summary": "Wants a refund.", "facts": {"plan": "Pro"}}
    )
    await store.aput(("working_memory", "other"), "thread-2", {"summary": "Somebody else's."})
    model = ScriptedModel(script=["refund deadline plan Pro"])
    retriever = FakeRetriever(rag_mode="naive")
    deps = Deps(
        retriever, text_resolver=memory_resolver(model, recall_from_store(), enabled=True), tenant_id="acme"
    )
    graph = build_chat_graph(deps, checkpointer=InMemorySaver())
    graph.store = store
    messages = [HumanMessage("Hello"), AIMessage("Shall I look up the deadline?"), HumanMessage("Yes")]
    for thread_id in ("thread-1", "thread-2"):
        await graph.ainvoke(
            {"messages": messages}, {"configurable": {"thread_id": thread_id}}, context=ChatContext("acme")
        )

    assert retriever.queries == ["refund deadline plan Pro", "Yes"]
    assert len(model.asked) == 1
    assert "- plan: Pro" in str(model.asked[0][0].content)


async def test_outside_a_run_there_is_no_memory() -> None:
    assert (await recall_from_store()(Turn("q", tenant_id="acme"))).is_empty


@pytest.mark.parametrize(
    ("value", "memory"),
    [
        ({}, WorkingMemory()),
        ({"summary": 7, "facts": "x"}, WorkingMemory()),
        ({"summary": "s", "facts": {"a": 1, "b": None, "c": ""}, "other": 1}, WorkingMemory("s", {"a": "1"})),
    ],
)
def test_any_stored_value_is_read(value: dict[str, object], memory: WorkingMemory) -> None:
    assert working_memory_from(value) == memory


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("What does payroll cost and how do I export it?", 2),
        ("Combien coûte la paie et comment l'exporter ?", 2),
        ("¿Cuánto cuesta la nómina y cómo se exporta?", 2),
        ("Quanto costano le paghe e come si esportano?", 2),
        ("Was kostet das Lohnmodul und wie exportiere ich es?", 2),
    ],
)
def test_the_command_understands_five_languages(query: str, parts: int) -> None:
    terms = ["--glossary-term", "cost", "--glossary-synonyms", "price, fee", "--env", "test"]
    result = CliRunner().invoke(app, ["understand", query, "--no-hyde", "--json", *terms])

    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["original_text"] == query
    assert len(found["sub_queries"]) == parts
    assert [search["text"] for search in found["searches"]["dense"]] == [query, *found["sub_queries"]]
    assert found["expansion_terms"] == ({"cost": ["price", "fee"]} if "cost " in query else {})


def test_the_command_prints_a_page_and_says_what_is_missing() -> None:
    result = CliRunner().invoke(app, ["understand", "what is a shift pool", "--env", "test"])

    assert result.exit_code == 0, result.output
    assert "lexical index" in result.stdout
    assert "names no chat" in result.stdout
