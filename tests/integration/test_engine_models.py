"""What the hybrid engine asks of a chat model, over real HTTP, and what becomes of a search when it fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes import HashEmbedder
from openai_server import CUT, GARBAGE, HANG, LoopbackServer, Reply, answer, openai_server, status
from search_fakes import HashTerms
from small_base import opened

from ixchat.engine import open_engine
from ixchat.nodes.deps import Deps
from ixchat.nodes.knowledge_retriever import retrieve
from ixchat.utils.history import turn_from
from ixinfra.config.settings import EngineConfig, LightRAGConfig, Settings, TenantConfig
from ixinfra.errors import ConfigError

pytest.importorskip("langchain_openai", reason="the openai extra is not installed")

QUERY = "payroll export"  # two words: the gate wants more of them
WORDINGS = '{"queries": ["send hours to payroll", "wage file download", "payroll interface"]}'


class HashModel(HashEmbedder, HashTerms):
    """All vectors from hashed words."""


def settings_for(folder: Path, server: LoopbackServer | None, **engine: Any) -> Settings:
    route = {"model": "openai:any", "base_url": server.openai_url, "timeout_s": 20.0} if server else {}
    return Settings(
        models={"query_understanding": route},
        lightrag=LightRAGConfig(working_dir=folder),
        engine=EngineConfig(**{"deadline_s": 20.0, "patience_s": 20.0, "variants_timeout_s": 10.0, **engine}),
        tenants={"shop": TenantConfig(tier="lite", knowledge_base="orvelle", retriever="hybrid")},
    )  # type: ignore[arg-type]  # pydantic reads the route from a dict


@asynccontextmanager
async def tenant(folder: Path, server: LoopbackServer | None, **engine: Any) -> AsyncIterator[Deps]:
    embedder = HashModel()
    async with opened(folder, embedder=embedder) as base:
        engine_open = await open_engine(settings_for(folder, server, **engine), "shop", base, embedder)
        yield Deps(engine_open.retriever, gate=engine_open.gate, tenant_id="shop")
        await engine_open.close()


async def facts_of(deps: Deps, query: str = QUERY) -> dict[str, Any]:
    retrieval = await retrieve(turn_from(query, tenant_id="shop"), deps)
    assert retrieval.documents
    assert retrieval.record["reason"] == "expand"
    facts: dict[str, Any] = retrieval.record["channels"]["facts"]
    return facts


def sources(facts: dict[str, Any]) -> list[str]:
    return [probe["source"] for probe in facts["probes"]]


def by_prompt(body: dict[str, Any]) -> Reply:
    return answer(WORDINGS if "search queries" in str(body["messages"]) else "Hours are sent to payroll.")


async def test_three_other_wordings_are_searched_beside_the_message_and_remembered(tmp_path: Path) -> None:
    async with openai_server(by_prompt) as server, tenant(tmp_path, server) as deps:
        first = await facts_of(deps)
        again = await facts_of(deps, "payroll  Export")

        assert sources(first) == ["query"] * 3 + ["rewriter"] * 6
        assert [first["cache"], again["cache"]] == [{"rewrites": "absent"}, {"rewrites": "hit"}]
        assert sources(again) == sources(first)
        assert len(server.requests) == 1
        schema = server.requests[0].body["response_format"]["json_schema"]["schema"]
        assert schema["properties"]["queries"]["maxItems"] == 3


@pytest.mark.parametrize("variants", [1, 2])
async def test_the_messages_own_words_are_among_so_many_variants(tmp_path: Path, variants: int) -> None:
    async with openai_server(by_prompt) as server, tenant(tmp_path, server, variants=variants) as deps:
        facts = await facts_of(deps)

        assert sources(facts) == ["query"] * 3 + ["rewriter"] * 2 * (variants - 1)
        assert len(server.requests) == variants - 1


async def test_hyde_is_off_unless_asked_for_and_then_one_dense_probe(tmp_path: Path) -> None:
    async with openai_server(by_prompt) as server, tenant(tmp_path, server, hyde=True) as deps:
        facts = await facts_of(deps)

        made_up = [probe for probe in facts["probes"] if probe["source"] == "hyde"]
        assert [(probe["channel"], probe["state"]) for probe in made_up] == [("dense", "found")]
        assert facts["index_calls"] == 10
    assert EngineConfig().hyde is False


async def test_hyde_without_a_model_stops_the_start_and_names_the_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"models\.query_understanding\.model"):
        async with tenant(tmp_path, None, hyde=True):
            pass


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(HANG, id="hang"),
        pytest.param(status(429), id="429"),
        pytest.param(status(500), id="500"),
        pytest.param(CUT, id="cut"),
        pytest.param(GARBAGE, id="garbage"),
    ],
)
async def test_a_model_that_fails_costs_its_wordings_alone(tmp_path: Path, reply: Reply) -> None:
    async with (
        openai_server(reply) as server,
        tenant(tmp_path, server, hyde=True, variants_timeout_s=0.3) as deps,
    ):
        facts = await facts_of(deps)

        assert facts["forms_failed"] == ["hyde", "rewriter"]
        assert sources(facts) == ["query"] * 3


async def test_a_tenant_without_quota_asks_no_model(tmp_path: Path) -> None:
    async with openai_server(by_prompt) as server, tenant(tmp_path, server, model_calls_a_minute=0) as deps:
        facts = await facts_of(deps)

        assert (facts["forms"], sources(facts), server.requests) == ("quota", ["query"] * 3, [])


async def test_tokens_are_counted_as_the_server_counts_them(tmp_path: Path) -> None:
    async with openai_server(by_prompt) as server, tenant(tmp_path, server, model_tokens_a_minute=17) as deps:
        first = await facts_of(deps)  # fifteen tokens
        second = await facts_of(deps, "stock count")

        assert (first.get("forms"), second["forms"]) == (None, "quota")


def test_variants_have_45_ms_unless_configured() -> None:
    assert EngineConfig().variants_timeout_s == 0.045
