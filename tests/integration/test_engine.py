"""The hybrid engine as a tenant has it: real index, real gate, knowledge base of a few lines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import HashEmbedder
from search_fakes import HashTerms
from small_base import opened

from ixchat.effort import with_effort
from ixchat.engine import open_engine
from ixchat.nodes.deps import Resolvers
from ixchat.nodes.knowledge_retriever import Deps, retrieve
from ixchat.utils.history import turn_from
from ixchat.utils.local.resolver import LocalResolver
from ixchat.utils.resolution import keep_raw
from ixinfra.config.settings import (
    EngineConfig,
    LightRAGConfig,
    ModelsConfig,
    ReferenceRoute,
    Settings,
    TenantConfig,
    VectorDatabaseConfig,
)
from ixinfra.errors import ConfigError
from ixinfra.tracing_tree import RecordingTracer
from ixrag.search.engine import HybridRetriever

SAID = [
    ("user", "Do you have something for shifts?"),
    ("assistant", "Yes, Brodal plans the shifts of a week."),
]


class HashModel(HashEmbedder, HashTerms):
    """All vectors from hashed words."""


def settings_in(folder: Path, **engine: Any) -> Settings:
    tenant = TenantConfig(tier="lite", knowledge_base="orvelle", company_name="Orvelle", retriever="hybrid")
    return Settings(
        lightrag=LightRAGConfig(working_dir=folder),
        engine=EngineConfig(**{"deadline_s": 2.0, "patience_s": 5.0, **engine}),
        tenants={"shop": tenant},
    )


async def test_a_tenant_on_the_engine_answers_first_turns_references_and_compounds(tmp_path: Path) -> None:
    embedder = HashModel()
    async with opened(tmp_path, embedder=embedder) as base:
        said: list[str] = []
        engine = await open_engine(settings_in(tmp_path), "shop", base, embedder, said.append)
        local = LocalResolver(base.name_index)
        deps = Deps(
            engine.retriever,
            text_resolver=local.search_query,
            reference_resolver=local.reference,
            gate=engine.gate,
            tenant_id="shop",
            company_name="Orvelle",
        )

        first = await retrieve(turn_from("How much does Brodal cost per month for a restaurant?"), deps)
        assert first.documents[0].metadata["passage_id"] == "brodal-price"
        assert first.record["fallback"] == "first_turn"
        assert first.record["channels"]["facts"]["index_calls"] == 3

        follow_up = await retrieve(turn_from("How much does it cost per month?", SAID), deps)
        assert follow_up.record["query"] == "How much does it cost per month? — Brodal"
        assert follow_up.path == "reference"

        two = "Where are the offices of Orvelle in Europe? And which hours does Fenstrel send to payroll?"
        both = await retrieve(turn_from(two), deps)
        assert both.record["reason"] == "decompose"
        assert {"offices", "payroll"} <= {d.metadata["passage_id"] for d in both.documents[:3]}
        await engine.close()


async def test_each_index_call_is_a_span_under_the_engines_own(tmp_path: Path) -> None:
    embedder, tracer = HashModel(), RecordingTracer()
    async with opened(tmp_path, embedder=embedder) as base:
        engine = await open_engine(settings_in(tmp_path), "shop", base, embedder)
        local = LocalResolver(base.name_index)
        deps = Deps(engine.retriever, reference_resolver=local.reference, gate=engine.gate, tracer=tracer)
        with tracer.turn(tenant_id="shop"):
            await retrieve(turn_from("How much does it cost per month?", SAID), deps)
        await engine.close()
    (root,) = tracer.turns[0].spans
    calls = ["tool-search-bm25", "tool-search-dense", "tool-search-sparse"]
    tree = {child.name: sorted(call.name for call in child.children) for child in root.children}
    assert root.name == "agent-knowledge-retriever"
    assert tree == {"tool-query-reference": [], "tool-hybrid-retrieval": calls}
    assert [child.name for child in root.children].count("tool-hybrid-retrieval") == 2


@pytest.mark.parametrize(("effort", "forms"), [("check", True), ("local", False), ("off", False)])
async def test_a_request_may_leave_out_what_asks_a_model(tmp_path: Path, effort: str, forms: bool) -> None:
    embedder = HashModel()
    async with opened(tmp_path, embedder=embedder) as base:
        engine = await open_engine(settings_in(tmp_path), "shop", base, embedder)
        local = Resolvers(keep_raw, keep_raw, keep_raw)
        deps = with_effort(Deps(engine.retriever, gate=engine.gate, local=local), effort)
        assert isinstance(deps.retriever, HybridRetriever)
        assert bool(deps.retriever.pipelines) is forms
        await engine.close()


async def test_missing_words_move_the_word_index_alone(tmp_path: Path) -> None:
    embedder = HashModel()
    async with opened(tmp_path, embedder=embedder) as base:
        engine = await open_engine(settings_in(tmp_path), "shop", base, embedder)
        (behind,) = await engine.retriever.said_in(["Yes, Brodal plans the shifts of a week."], 1)
        assert "Brodal" in behind[0]

        words = replace(engine.retriever, channels=("bm25",))
        asked = "Where are the offices?"
        assert (await words.ainvoke(asked))[0].metadata["passage_id"] == "offices"
        led = await words.ainvoke(asked, missing_words={"Brodal": 3.0, "month": 3.0})
        assert led[0].metadata["passage_id"] == "brodal-price"
        meant = replace(engine.retriever, channels=("dense",))
        plain = [d.id for d in await meant.ainvoke(asked)]
        assert [d.id for d in await meant.ainvoke(asked, missing_words={"Brodal": 3.0})] == plain
        await engine.close()


@pytest.mark.parametrize(
    ("model", "weighs"),
    [("local:learned", True), ("local:rules", False), ("local+openai:gpt-5.4-mini", True)],
)
async def test_the_route_says_whether_words_are_weighed(tmp_path: Path, model: str, weighs: bool) -> None:
    embedder = HashModel()
    models = ModelsConfig(query_reference=ReferenceRoute(model=model))
    settings = settings_in(tmp_path).model_copy(update={"models": models})
    async with opened(tmp_path, embedder=embedder) as base:
        engine = await open_engine(settings, "shop", base, embedder)
        assert (engine.weigh is not None) is weighs
        await engine.close()


async def test_opening_again_encodes_nothing(tmp_path: Path) -> None:
    embedder = HashModel()
    async with opened(tmp_path, embedder=embedder) as base:
        engine = await open_engine(settings_in(tmp_path), "shop", base, embedder)
        await engine.close()
        embedder.calls.clear()
        engine = await open_engine(settings_in(tmp_path), "shop", base, embedder)
        assert embedder.calls == []
        assert engine.retriever.languages == {"en": 4, "fr": 1}
        await engine.close()


async def test_two_tenants_share_the_index_of_a_knowledge_base(tmp_path: Path) -> None:
    embedder = HashModel()
    async with opened(tmp_path, embedder=embedder) as base:
        one = await open_engine(settings_in(tmp_path), "shop", base, embedder)
        other = await open_engine(settings_in(tmp_path), "shop", base, embedder)
        await one.close()
        assert await other.retriever.ainvoke("Brodal shifts")
        await other.close()


async def test_the_switch_turns_every_other_form_off(tmp_path: Path) -> None:
    embedder = HashModel()
    async with opened(tmp_path, embedder=embedder) as base:
        off = settings_in(tmp_path)
        off = off.model_copy(
            update={"query_rewriter": off.query_rewriter.model_copy(update={"enabled": False})}
        )
        engine = await open_engine(off, "shop", base, embedder)
        deps = Deps(engine.retriever, gate=engine.gate, enabled=False)
        found = await retrieve(turn_from("How much does it cost per month?", SAID), deps)
        assert (found.record["fallback"], found.record["check_ms"]) == ("disabled", None)
        assert not engine.retriever.pipelines
        await engine.close()


async def test_telemetry_is_written_without_text_unless_asked_for(tmp_path: Path) -> None:
    embedder = HashModel()
    path = tmp_path / "records" / "searches.jsonl"
    async with opened(tmp_path, embedder=embedder) as base:
        engine = await open_engine(settings_in(tmp_path, telemetry_file=path), "shop", base, embedder)
        await engine.retriever.ainvoke("Brodal shifts")
        await engine.close()
    (line,) = path.read_text(encoding="utf-8").splitlines()
    assert "Brodal" not in line
    assert '"characters": 13' in line


async def test_an_embedder_without_learned_terms_and_another_store_are_refused(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    async with opened(tmp_path, embedder=embedder) as base:
        with pytest.raises(ConfigError, match="learned terms"):
            await open_engine(settings_in(tmp_path), "shop", base, embedder)
        redis = settings_in(tmp_path).model_copy(
            update={"vector_database": VectorDatabaseConfig(storage="redis", url="redis://localhost:6379")}
        )
        with pytest.raises(ConfigError, match="not in 'redis'"):
            await open_engine(redis, "shop", base, HashModel())
