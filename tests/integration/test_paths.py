"""Each path of a turn on real LightRAG and the sample base: what is found, what is called, what is recorded.

Embeddings are hashed words here, so that this runs in seconds; `ix demo` and the slow tests use the
real model.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from fakes import FakeRetriever, HashEmbedder, ScriptedModel
from langchain_core.messages import AIMessage, HumanMessage

from ixchat.effort import with_effort
from ixchat.graph import build_chat_graph, build_retrieval_graph, open_tenant
from ixchat.nodes.knowledge_retriever import Deps, choose, retrieve
from ixchat.nodes.record import Retrieval
from ixchat.state import ChatContext
from ixchat.tenants import OpenTenant, TenantRegistry
from ixchat.utils.history import turn_from
from ixinfra.config.loader import get_config
from ixinfra.config.settings import ReferenceRoute, Settings
from ixinfra.errors import UnknownTenantError
from ixinfra.tracing_tree import RecordingTracer, SpanRecord
from ixrag.lightrag.knowledge_base import KnowledgeBase, build_knowledge_base, open_knowledge_base
from ixrag.lightrag.langgraph_retriever import LightRAGRetriever
from ixrag.sample import SAMPLE_NAME, sample_corpus

OFFER = [
    {"role": "user", "content": "Avez-vous un outil pour prévoir l'affluence ?"},
    {"role": "assistant", "content": "Oui, **Affluvane** prévoit la fréquentation d'un magasin."},
]
QUESTION = [
    {"role": "user", "content": "Bonjour, que proposez-vous pour planifier une équipe ?"},
    {"role": "assistant", "content": "Un outil de planning. Dans quel secteur travaillez-vous ?"},
]
FOLLOW_UP = "Quelles enseignes l'ont déjà installée ?"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """One folder for the file: the index is built by the first test and opened by the others."""
    settings = get_config("test")
    # Hashed words are often orthogonal: no threshold, or a search finds nothing.
    changes = {"working_dir": tmp_path_factory.mktemp("sample"), "cosine_threshold": -1.0}
    lightrag = settings.lightrag.model_copy(update=changes)
    return settings.model_copy(update={"lightrag": lightrag})


@pytest.fixture
def tracer() -> RecordingTracer:
    return RecordingTracer()


@pytest.fixture
async def registry(settings: Settings, tracer: RecordingTracer) -> AsyncIterator[TenantRegistry]:
    embedder = HashEmbedder(dim=2048)

    async def opener(tenant_id: str) -> OpenTenant:
        return await open_tenant(settings, tenant_id, embedder=embedder, tracer=tracer)

    registry = TenantRegistry(opener)
    yield registry
    await registry.close()


def names_of(span: SpanRecord) -> Any:
    """The tree as nested (name, [children])."""
    return (span.name, [names_of(child) for child in span.children])


SEARCH = ("tool-lightrag-retrieval", [])

PATHS = [
    pytest.param("advanced", [], "Que propose Velmora ?", "raw", "first_turn", [SEARCH], id="first turn"),
    pytest.param(
        "lite",
        QUESTION,
        "Restauration",
        "intent",
        None,
        [("tool-query-intent", []), SEARCH],
        id="short reply, chunks only",
    ),
    pytest.param(
        "advanced",
        QUESTION,
        "Restauration",
        "keywords",
        None,
        [("tool-query-keywords", []), SEARCH],
        id="short reply, graph",
    ),
    pytest.param("lite", OFFER, FOLLOW_UP, "raw", "gate_declined", [SEARCH], id="follow-up, chunks only"),
    pytest.param(
        "advanced",
        QUESTION,
        "Combien de bureaux avez-vous ?",
        "reference",
        None,
        [SEARCH, ("tool-query-reference", [])],
        id="kept",
    ),
    pytest.param(
        "advanced",
        OFFER,
        FOLLOW_UP,
        "reference",
        None,
        [SEARCH, ("tool-query-reference", []), SEARCH],
        id="resolved",
    ),
]


@pytest.mark.parametrize(("tenant", "history", "message", "path", "fallback", "tree"), PATHS)
async def test_a_path_end_to_end(
    registry: TenantRegistry,
    tracer: RecordingTracer,
    tenant: str,
    history: list[dict[str, str]],
    message: str,
    path: str,
    fallback: str | None,
    tree: list[Any],
) -> None:
    async with registry.lend(tenant) as deps:
        with tracer.turn(session_id="s", tenant_id=tenant):
            retrieval = await retrieve(
                turn_from(message, history, company_name=deps.company_name, tenant_id=tenant), deps
            )
    (turn,) = tracer.take()
    (root,) = turn.spans
    assert (retrieval.path, retrieval.resolution.fallback) == (path, fallback)
    name, children = names_of(root)
    assert name == "agent-knowledge-retriever"
    assert sorted(children) == sorted(tree)
    assert retrieval.documents
    assert {document.metadata["tenant"] for document in retrieval.documents} == {tenant}
    assert json.loads(json.dumps(retrieval.record))["documents"] == len(retrieval.documents)
    kinds = {document.metadata["kind"] for document in retrieval.documents}
    assert kinds == ({"chunk"} if tenant == "lite" else {"chunk", "entity", "relation"})


async def test_a_resolved_follow_up_brings_the_product_to_both_channels(registry: TenantRegistry) -> None:
    async with registry.lend("advanced") as deps:
        turn = turn_from(FOLLOW_UP, OFFER, company_name="Velmora", tenant_id="advanced")
        resolved = await retrieve(turn, deps)
        raw = await retrieve(turn, replace(deps, enabled=False))
    channels = resolved.record["channels"]
    assert channels["vector_text"].endswith(f"{FOLLOW_UP} — Affluvane")
    assert "Affluvane" in channels["ll_keywords"]
    assert resolved.record["entity"] == "Affluvane"
    spot = resolved.record["evidence"][0]
    assert OFFER[spot["message"]]["content"][spot["start"] : spot["end"]] == "Affluvane"

    def first_entity(retrieval: Retrieval) -> str:
        return next(d.page_content for d in retrieval.documents if d.metadata["kind"] == "entity")

    assert first_entity(resolved).startswith("Affluvane")
    assert not first_entity(raw).startswith("Affluvane")


async def test_supplied_keywords_skip_lightrags_own_extraction(settings: Settings) -> None:
    embedder = HashEmbedder(dim=2048)
    model = ScriptedModel(
        script=['{"high_level_keywords": ["pricing"], "low_level_keywords": ["Planivaro"]}']
    )
    await build_knowledge_base(sample_corpus(), SAMPLE_NAME, config=settings.lightrag, embedder=embedder)
    base = await open_knowledge_base(
        SAMPLE_NAME, config=settings.lightrag, embedder=embedder, keyword_model=model
    )
    try:
        retriever = LightRAGRetriever(knowledge_base=base, rag_mode="mix", tenant_id="t")
        embedder.calls.clear()
        await retriever.ainvoke("Santé", ll_keywords=["santé"], hl_keywords=["tarifs"])
        assert len(model.asked) == 0
        assert [kind for kind, _ in embedder.calls] == ["query"]
        await retriever.ainvoke("Combien coûte Planivaro ?")
        assert len(model.asked) == 1
    finally:
        await base.close()


async def test_switched_off_means_no_model_call_and_no_keywords(registry: TenantRegistry) -> None:
    async with registry.lend("advanced") as deps:
        off = replace(deps, enabled=False)
        turn = turn_from("Santé", QUESTION, company_name="Velmora", tenant_id="advanced")
        plan = choose(turn, off)
        retrieval = await retrieve(turn, off)
    assert plan.path == "raw"
    assert retrieval.record["query"] == "Santé"
    assert retrieval.record["channels"]["keyword_source"] == "local"


async def test_twenty_concurrent_turns_of_two_tenants_stay_apart(
    registry: TenantRegistry, tracer: RecordingTracer
) -> None:
    graph = build_retrieval_graph(registry)

    async def turn(number: int) -> dict[str, Any]:
        tenant = ("lite", "advanced")[number % 2]
        messages = [*(m["content"] for m in OFFER), FOLLOW_UP]
        state = {"messages": [HumanMessage(messages[0]), AIMessage(messages[1]), HumanMessage(messages[2])]}
        return await graph.ainvoke(state, context=ChatContext(tenant, session_id=f"session-{number}"))

    results = await asyncio.gather(*(turn(number) for number in range(20)))
    for number, result in enumerate(results):
        tenant = ("lite", "advanced")[number % 2]
        assert {document.metadata["tenant"] for document in result["documents"]} == {tenant}
    turns = tracer.take()
    assert len({recorded.trace_id for recorded in turns}) == 20
    for recorded in turns:
        (root,) = recorded.spans
        expected = 1 if recorded.tenant_id == "lite" else 3
        assert len(root.children) == expected
        assert {span.session_id for span in [root, *root.children]} == {recorded.session_id}


async def test_the_chat_graph_answers_with_quotes_and_keeps_the_visitors_words(
    registry: TenantRegistry,
) -> None:
    graph = build_chat_graph(registry)
    messages = [HumanMessage(OFFER[0]["content"]), AIMessage(OFFER[1]["content"]), HumanMessage(FOLLOW_UP)]
    state = await graph.ainvoke({"messages": messages}, context=ChatContext("advanced"))
    assert [message.content for message in state["messages"][:3]] == [m.content for m in messages]
    answer = state["messages"][3].content
    assert "Affluvane" not in state["messages"][2].content
    assert state["documents"][0].metadata["source"] in answer


async def test_the_chat_graph_streams_a_models_answer(registry: TenantRegistry) -> None:
    model = ScriptedModel(script=["Deux enseignes l'utilisent [1]."])
    async with registry.lend("advanced") as deps:
        graph = build_chat_graph(replace(deps, answer_model=model))
    messages = [HumanMessage(OFFER[0]["content"]), AIMessage(OFFER[1]["content"]), HumanMessage(FOLLOW_UP)]
    state = await graph.ainvoke({"messages": messages}, context=ChatContext("advanced"))
    assert state["messages"][-1].content == "Deux enseignes l'utilisent [1]."
    prompt = model.asked[0]
    assert [message.content for message in prompt[1:]] == [message.content for message in messages]
    assert "Affluvane" not in str(prompt[3].content), "the resolved query leaked into the answer prompt"


async def test_a_model_route_lets_the_local_resolver_foresee(settings: Settings) -> None:
    route = ReferenceRoute(model="openai:small", base_url="http://127.0.0.1:9/v1", timeout_s=0.5)
    models = settings.models.model_copy(update={"query_reference": route})
    routed = settings.model_copy(update={"models": models})
    tenant = await open_tenant(routed, "advanced", embedder=HashEmbedder(dim=2048), tracer=RecordingTracer())
    try:
        turn = turn_from(FOLLOW_UP, OFFER, company_name="Velmora", tenant_id="advanced")
        full = with_effort(tenant.deps, "full")
        retrieval = await retrieve(turn, full)
        local = await retrieve(turn, with_effort(tenant.deps, "local"))
    finally:
        await tenant.close()
    assert [search.step.name for search in retrieval.searches] == ["early search", "ahead search"]
    assert retrieval.searches[1].query.endswith("— Affluvane")
    assert retrieval.resolution.fallback == "model_error", "the server refuses; the visitor's words are used"
    assert retrieval.record["query"] == FOLLOW_UP
    assert local.record["entity"] == "Affluvane"


async def test_a_store_that_loses_its_passages_costs_their_testimony_and_nothing_else(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(_base: KnowledgeBase, _most: int | None = None) -> None:
        raise OSError("secret/path/of/the/store")

    monkeypatch.setattr(KnowledgeBase, "passages", fails)
    tenant = await open_tenant(
        settings, "advanced", embedder=HashEmbedder(dim=2048), tracer=RecordingTracer()
    )
    try:
        found = await retrieve(turn_from(FOLLOW_UP, OFFER, "Velmora", "advanced"), tenant.deps)
    finally:
        await tenant.close()
    assert (found.record["entity"], found.record["model"]) == ("Affluvane", "local:learned")
    assert "OSError" in caplog.text
    assert "secret" not in caplog.text


async def test_a_slow_store_of_passages_delays_no_tenant_and_is_left_when_it_closes(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = asyncio.Event()

    async def hangs(_base: KnowledgeBase, _most: int | None = None) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    monkeypatch.setattr(KnowledgeBase, "passages", hangs)
    tenant = await open_tenant(
        settings, "advanced", embedder=HashEmbedder(dim=2048), tracer=RecordingTracer()
    )
    found = await retrieve(turn_from(FOLLOW_UP, OFFER, "Velmora", "advanced"), tenant.deps)
    assert found.record["entity"] == "Affluvane"
    assert not stopped.is_set()
    await tenant.close()
    assert stopped.is_set()


async def test_the_passages_of_a_knowledge_base_are_read_whole_or_in_part(
    settings: Settings,
) -> None:
    tenant = await open_tenant(
        settings, "advanced", embedder=HashEmbedder(dim=2048), tracer=RecordingTracer()
    )
    try:
        assert isinstance(tenant.deps.retriever, LightRAGRetriever)
        base = tenant.deps.retriever.knowledge_base
        every, some = await base.passages(), await base.passages(3)
    finally:
        await tenant.close()
    assert {info.id for info, _ in every} == {passage.id for passage in sample_corpus().passages}
    assert some == every[:3]
    assert all(text for _, text in every)


async def test_rules_first_asks_the_model_only_where_they_are_unsure(settings: Settings) -> None:
    route = ReferenceRoute(model="local+openai:small", base_url="http://127.0.0.1:9/v1", timeout_s=0.5)
    models = settings.models.model_copy(update={"query_reference": route})
    routed = settings.model_copy(update={"models": models})
    tenant = await open_tenant(routed, "advanced", embedder=HashEmbedder(dim=2048), tracer=RecordingTracer())
    try:
        sure = turn_from("Combien coûte Affluvane pour un site ?", OFFER, "Velmora", "advanced")
        kept = await retrieve(sure, tenant.deps)
        unsure = turn_from("À partir de quelle taille est-ce rentable ?", OFFER, "Velmora", "advanced")
        asked = await retrieve(unsure, tenant.deps)
    finally:
        await tenant.close()
    assert (kept.record["decision"], kept.record["asked"], kept.record["agrees"]) == ("keep", False, None)
    assert (asked.record["asked"], asked.record["local_decision"]) == (True, "keep")
    assert asked.resolution.fallback == "model_error", "nobody listens there"


@pytest.mark.parametrize(("ask_below", "asked"), [(0.0, False), (1.0, True)])
async def test_the_configuration_says_how_sure_the_rules_must_be(
    settings: Settings, ask_below: float, asked: bool
) -> None:
    route = ReferenceRoute(
        model="local+openai:small", base_url="http://127.0.0.1:9/v1", timeout_s=0.5, ask_below=ask_below
    )
    models = settings.models.model_copy(update={"query_reference": route})
    routed = settings.model_copy(update={"models": models})
    tracer = RecordingTracer()
    tenant = await open_tenant(routed, "advanced", embedder=HashEmbedder(dim=2048), tracer=tracer)
    try:
        with tracer.turn(tenant_id="advanced"):
            turn = turn_from("À partir de quelle taille est-ce rentable ?", OFFER, "Velmora", "advanced")
            await retrieve(turn, tenant.deps)
    finally:
        await tenant.close()
    (record,) = tracer.take()
    (check,) = [span for span in record.spans[0].children if span.name == "tool-query-reference"]
    assert check.metadata["asked"] is asked
    assert check.metadata.get("local_decision") == ("keep" if asked else None)


async def test_an_unknown_tenant_is_refused_by_name(registry: TenantRegistry) -> None:
    graph = build_retrieval_graph(registry)
    with pytest.raises(UnknownTenantError, match=r"'nobody'.*advanced"):
        await graph.ainvoke({"messages": [HumanMessage("Bonjour")]}, context=ChatContext("nobody"))


def test_invoke_says_to_use_ainvoke() -> None:
    graph = build_retrieval_graph(Deps(FakeRetriever()))
    with pytest.raises(TypeError, match="ainvoke"):
        graph.invoke({"messages": [HumanMessage("Bonjour")]})
