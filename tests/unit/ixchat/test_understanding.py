from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import FakeRetriever, HashEmbedder

from ixchat.effort import with_effort
from ixchat.nodes.deps import Deps, Resolvers
from ixchat.understanding import memory_text_resolver, open_cache, open_understanding
from ixchat.utils.resolution import keep_raw
from ixinfra.config.settings import QueryUnderstandingConfig, Settings
from ixinfra.errors import ConfigError
from ixrag.query import MemoryCache, QueryContext, QueryUnderstandingPipeline, RedisCache
from ixrag.query.retriever import UnderstandingRetriever

EMBEDDER = HashEmbedder(dim=8)
LOOPBACK = {"model": "openai:any", "base_url": "http://127.0.0.1:9/v1"}


def settings(tenant: dict[str, Any] | None = None, **sections: Any) -> Settings:
    base = {"tier": "advanced", "knowledge_base": "velmora", "language": "fr"}
    return Settings.model_validate({"tenants": {"acme": base | (tenant or {})}, **sections})


def test_a_tenant_that_wants_nothing_has_no_understanding() -> None:
    assert open_understanding(settings(), "acme", EMBEDDER) is None


def test_the_switch_of_the_rewriter_is_the_only_switch() -> None:
    off = settings({"passage_forms": ["decomposer"]}, query_rewriter={"enabled": False})

    assert open_understanding(off, "acme", EMBEDDER) is None


async def test_questions_are_split_without_a_model() -> None:
    opened = open_understanding(settings({"passage_forms": ["decomposer"]}), "acme", EMBEDDER)
    assert opened is not None
    understood = await opened.pipeline.understand(opened.ctx, "Combien coûte la paie et comment l'exporter ?")

    assert understood.sub_queries == ["Combien coûte la paie", "comment l'exporter ?"]
    assert opened.ctx == QueryContext("acme", "fr")
    assert opened.wanted == {"dense": ("decomposer",), "graph": ()}
    await opened.close()


def test_a_tenant_without_a_graph_searches_no_graph_forms() -> None:
    lite = settings({"tier": "lite", "graph_forms": ["decomposer"]})

    assert open_understanding(lite, "acme", EMBEDDER) is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"passage_forms": ["rewriter"]}, "tenants.acme wants 'rewriter', which needs a chat model"),
        ({"passage_forms": ["hyde"]}, "tenants.acme wants 'hyde', which needs a chat model"),
        (
            {"graph_forms": ["glossary"]},
            "tenants.acme wants 'glossary': set query_understanding.glossary_dir",
        ),
    ],
)
def test_a_component_that_cannot_work_stops_the_start(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        open_understanding(settings(wrong), "acme", EMBEDDER)

    assert message in str(error.value)


async def test_a_glossary_is_the_tenants_own(tmp_path: Path) -> None:
    (tmp_path / "acme.csv").write_text("term,synonym\npaie,salaire\n", encoding="utf-8")
    wired = settings({"graph_forms": ["glossary"]}, query_understanding={"glossary_dir": str(tmp_path)})
    opened = open_understanding(wired, "acme", EMBEDDER)
    assert opened is not None

    assert (await opened.pipeline.understand(opened.ctx, "la paie")).expansion_terms == {"paie": ["salaire"]}


def test_every_component_can_be_wired_with_a_model() -> None:
    pytest.importorskip("langchain_openai", reason="the openai extra is not installed")
    wired = settings(
        {"passage_forms": ["rewriter", "decomposer", "hyde"]}, models={"query_understanding": LOOPBACK}
    )

    assert open_understanding(wired, "acme", EMBEDDER) is not None


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"cache": "none"}, type(None)),
        ({"cache": "memory"}, MemoryCache),
        ({"cache": "redis", "cache_url": "redis://127.0.0.1:1"}, RedisCache),
    ],
)
def test_the_cache_is_the_configured_one(config: dict[str, Any], kind: type) -> None:
    assert type(open_cache(QueryUnderstandingConfig.model_validate(config))) is kind


def test_a_password_comes_from_its_variable() -> None:
    config = QueryUnderstandingConfig(
        cache="redis", cache_url="redis://user@127.0.0.1:1/2", cache_password_env="CACHE_PASSWORD"
    )
    with pytest.raises(ConfigError, match="set the environment variable CACHE_PASSWORD"):
        open_cache(config, {})
    cache = open_cache(config, {"CACHE_PASSWORD": "p@ss/word"})

    assert isinstance(cache, RedisCache)
    client: Any = cache._client
    arguments = client.connection_pool.connection_kwargs
    assert (arguments["username"], arguments["password"], arguments["db"]) == ("user", "p@ss/word", 2)
    assert "p@ss" not in repr(cache)


def test_an_address_that_is_no_redis_address_stops_the_start() -> None:
    config = QueryUnderstandingConfig(cache="redis", cache_url="http://127.0.0.1:1")

    with pytest.raises(ConfigError, match=r"query_understanding\.cache_url: 'http://127\.0\.0\.1:1'"):
        open_cache(config)


def test_memory_needs_a_chat_model() -> None:
    with pytest.raises(ConfigError, match=r"set models\.query_rewriter\.model"):
        memory_text_resolver(settings(query_rewriter={"strategy": "memory"}))


def test_memory_gets_room_to_think() -> None:
    pytest.importorskip("langchain_openai", reason="the openai extra is not installed")

    assert callable(memory_text_resolver(settings(models={"query_rewriter": LOOPBACK})))


@pytest.mark.parametrize(("effort", "searches_forms"), [("off", False), ("local", False), ("check", True)])
def test_an_effort_without_models_searches_no_forms(effort: str, searches_forms: bool) -> None:
    own = FakeRetriever()
    around = UnderstandingRetriever(
        own, lambda _: own, QueryUnderstandingPipeline(), {}, QueryContext("acme")
    )
    deps = with_effort(Deps(around, local=Resolvers(keep_raw, keep_raw, keep_raw)), effort)

    assert (deps.retriever is around) is searches_forms
    assert (deps.retriever is own) is not searches_forms
