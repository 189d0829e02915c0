"""Route names, local routes, and the switch from file to turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeRetriever

from ixchat.chat_routing import ROUTE_NAMES, chat_model, is_local, route_of
from ixchat.nodes.knowledge_retriever import Deps, choose, retrieve
from ixchat.utils.resolution import Message, Resolution, Turn
from ixinfra.config.loader import get_config
from ixinfra.config.settings import ModelRoute, ModelsConfig
from ixinfra.errors import ConfigError
from ixinfra.tracing_tree import RecordingTracer

ROOT = Path(__file__).parents[3]
CASES = map(json.loads, (ROOT / "tests/cases/config.jsonl").read_text(encoding="utf-8").splitlines())
OFF = next(case for case in CASES if case["id"] == "f18")


def test_the_names_are_those_of_the_schema() -> None:
    assert set(ROUTE_NAMES) == set(ModelsConfig.model_fields)
    models = ModelsConfig()
    assert [route_of(models, name) for name in ROUTE_NAMES] == [getattr(models, name) for name in ROUTE_NAMES]


def test_a_local_route_has_no_model_and_needs_no_key() -> None:
    models = get_config("development", ROOT / "config", environ={}).models
    assert all(is_local(route_of(models, name)) for name in ROUTE_NAMES)
    assert [chat_model(models, name, environ={}) for name in ROUTE_NAMES] == [None] * len(ROUTE_NAMES)
    assert not is_local(ModelRoute(model="openai:local"))


def test_only_the_answer_is_streamed() -> None:
    models = get_config("production", ROOT / "config", environ={}).models
    keys = {"OPENAI_API_KEY": "k", "MISTRAL_API_KEY": "k"}
    built: dict[str, Any] = {name: chat_model(models, name, environ=keys) for name in ROUTE_NAMES}
    assert {name for name, model in built.items() if model and not model.disable_streaming} == {"answer"}


def test_a_missing_key_names_the_route() -> None:
    models = get_config("production", ROOT / "config", environ={}).models
    with pytest.raises(ConfigError, match=r"models\.query_reference: .*OPENAI_API_KEY"):
        chat_model(models, "query_reference", environ={})


async def test_switched_off_in_the_file_means_the_message_and_nothing_else(tmp_path: Path) -> None:
    enabled = OFF["input"]["enabled"]
    (tmp_path / "test.toml").write_text(f"[query_rewriter]\nenabled = {str(enabled).lower()}")
    config = get_config("test", tmp_path, environ={})
    calls: list[Turn] = []

    async def resolver(turn: Turn) -> Resolution:
        calls.append(turn)
        return Resolution("something else")

    retriever, tracer = FakeRetriever(), RecordingTracer()
    deps = Deps(
        retriever,
        text_resolver=resolver,
        keyword_resolver=resolver,
        reference_resolver=resolver,
        enabled=config.query_rewriter.enabled,
        tracer=tracer,
    )
    turn = Turn(OFF["input"]["message"], [Message("user", "Bonjour"), Message("assistant", "Quel secteur ?")])
    with tracer.turn():
        await retrieve(turn, deps, choose(turn, deps))
    assert len(calls) == OFF["expected"]["llm_calls"]
    assert retriever.calls == [(OFF["expected"]["retriever_query"], OFF["expected"]["retriever_kwargs"])]
    assert not [name for name in span_names(tracer.turns[0].spans) if name.startswith("tool-query")]


def span_names(spans: list[Any]) -> list[str]:
    return [name for span in spans for name in (span.name, *span_names(span.children))]
