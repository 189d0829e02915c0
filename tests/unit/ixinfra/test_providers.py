"""From a route to a chat model: the arguments each provider gets, and the errors at start."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from langchain_core.load import dumps

from ixinfra.config.settings import ModelRoute
from ixinfra.errors import ConfigError, MissingExtraError
from ixinfra.providers import build_chat_model

KEYS = {"OPENAI_API_KEY": "sk-open", "MISTRAL_API_KEY": "sk-mistral", "TEAM_KEY": "sk-team"}


def build(model: str, *, environ: dict[str, str] | None = None, **values: Any) -> Any:
    route = ModelRoute(model=model, **values)
    return build_chat_model(route, environ=KEYS if environ is None else environ, where="models.answer")


def error_of(model: str, **values: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        build(model, **values)
    return str(caught.value)


def test_addresses_come_from_the_route_and_not_from_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_API_BASE",
        "OPENAI_BASE_URL",
        "MISTRAL_BASE_URL",
        "OLLAMA_HOST",
        "LANGSMITH_GATEWAY",
    ):
        monkeypatch.setenv(name, "http://elsewhere.invalid")
    assert str(build("openai:gpt-5.4-mini").root_async_client.base_url) == "https://api.openai.com/v1/"
    assert str(build("mistralai:x").async_client.base_url) == "https://api.mistral.ai/v1/"
    assert str(build("ollama:x")._async_client._client.base_url) == "http://localhost:11434"
    assert (
        str(build("openai:x", base_url="http://gpu:8000/v1").root_async_client.base_url)
        == "http://gpu:8000/v1/"
    )


def test_each_client_is_told_not_to_retry_in_its_own_words() -> None:
    assert build("openai:x").max_retries == 0
    assert build("mistralai:x").max_retries == 1  # attempts
    assert build("mistralai:x", max_retries=2).max_retries == 3
    assert "max_retries: provider 'ollama' cannot retry" in error_of("ollama:x", max_retries=1)


def test_each_client_is_given_the_limit_of_the_route() -> None:
    assert build("openai:x", timeout_s=1.5).request_timeout == 1.5
    assert build("mistralai:x", timeout_s=1.5).async_client.timeout.read == 1.5
    assert build("ollama:x", timeout_s=1.5)._async_client._client.timeout.read == 1.5


def test_the_reference_routes_can_be_built() -> None:
    reference = build("openai:gpt-5.4-mini", reasoning_effort="none", max_tokens=64)
    assert (reference.reasoning_effort, reference.temperature, reference.max_tokens) == ("none", 0.0, 64)
    assert build("mistralai:ministral-3b-latest", timeout_s=1.0).max_tokens == 64


@pytest.mark.parametrize(
    ("effort", "expected"), [("none", False), ("low", "low"), ("high", "high"), (None, None)]
)
def test_reasoning_of_ollama_is_a_switch_or_a_level(effort: Any, expected: bool | str | None) -> None:
    assert build("ollama:x", reasoning_effort=effort).reasoning == expected


@pytest.mark.parametrize(
    ("model", "values", "expected"),
    [
        pytest.param(
            "opnai:x", {}, "unknown provider 'opnai'; did you mean 'openai'?", id="misspelt provider"
        ),
        pytest.param(
            "mistralai:x", {"reasoning_effort": "low"}, "leave it empty", id="mistral does not reason"
        ),
        pytest.param(
            "ollama:x", {"reasoning_effort": "minimal"}, "expected one of ['none', 'low'", id="ollama level"
        ),
        pytest.param("mistralai:x", {"temperature": 1.7}, "temperature must be in the range", id="too hot"),
        pytest.param("local:rules", {}, "'local:rules' is not a chat model", id="no model at all"),
    ],
)
def test_a_route_that_cannot_work_stops_the_start(model: str, values: dict[str, Any], expected: str) -> None:
    message = error_of(model, **values)
    assert message.startswith("models.answer")
    assert expected in message


@pytest.mark.parametrize(
    ("model", "values", "variable"),
    [
        ("openai:gpt-5.4-mini", {}, "OPENAI_API_KEY"),
        ("mistralai:x", {}, "MISTRAL_API_KEY"),
        ("openai:x", {"base_url": "http://gpu:8000/v1", "api_key_env": "TEAM_KEY"}, "TEAM_KEY"),
        ("ollama:x", {"api_key_env": "TEAM_KEY"}, "TEAM_KEY"),
    ],
)
@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_key_stops_the_start_and_names_the_variable(
    model: str, values: dict[str, Any], variable: str, value: str | None
) -> None:
    environ = {} if value is None else {variable: value}
    message = error_of(model, environ=environ, **values)
    assert f"set the environment variable {variable}" in message
    assert message.startswith(f"models.answer: {model!r}")


def test_a_named_key_is_the_one_used() -> None:
    model = build("openai:x", base_url="http://gpu:8000/v1", api_key_env="TEAM_KEY")
    assert model.openai_api_key.get_secret_value() == "sk-team"
    assert build("openai:x", base_url="http://gpu:8000/v1").openai_api_key.get_secret_value() == "none"


@pytest.mark.parametrize("model", ["openai:x", "mistralai:x", "ollama:x"])
def test_no_key_in_a_repr(model: str) -> None:
    built = build(model, api_key_env="TEAM_KEY")
    assert "sk-team" not in f"{built!r} {built} {dumps(built)}"


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'ixchat\[models\]'.*langchain-groq"):
        build("groq:x")
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ixchat\[mistral\]'"):
        build("mistralai:x")


def test_only_a_streaming_model_may_stream() -> None:
    route = ModelRoute(model="ollama:x")
    assert build_chat_model(route).disable_streaming is True
    assert build_chat_model(route, streaming=True).disable_streaming is False
