"""From a route of the configuration to a LangChain chat model.

Addresses, retries and limits are always passed explicitly: the provider packages would otherwise take
them from variables of their own (`OPENAI_BASE_URL`, `MISTRAL_BASE_URL`, `OLLAMA_HOST`, …).
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr, ValidationError

from ixinfra.config.problems import did_you_mean
from ixinfra.config.settings import ModelRoute
from ixinfra.errors import ConfigError, MissingExtraError

DEADLINE_KEY = "ix_timeout_s"  # what a built model remembers of its route, in its metadata
PROVIDER_KEY = "ix_provider"
NO_KEY = "none"  # clients refuse to start without a key; a server of one's own ignores it


@dataclass(frozen=True, slots=True)
class Provider:
    """What the package of one provider accepts.

    Attributes:
        arguments: `(route, api key)` to the package's own keyword arguments.
        extra: Extra of this distribution that installs the package.
        key_env: Variable of the API key; "" where the provider has none or names it itself.
        reasoning: Accepted values of `reasoning_effort`; None: the package decides.
        retries: Whether the package can repeat a failed call.
    """

    arguments: Callable[[ModelRoute, SecretStr | None], dict[str, Any]]
    extra: str = "models"
    key_env: str = ""
    reasoning: tuple[str, ...] | None = None
    retries: bool = True


def build_chat_model(
    route: ModelRoute,
    *,
    streaming: bool = False,
    environ: Mapping[str, str] = os.environ,
    where: str = "model route",
) -> BaseChatModel:
    """The chat model of a route. No request is made.

    Args:
        route: Not a local one; see `ixchat.chat_routing.is_local`.
        streaming: Whether the model may be asked for a stream. Off for resolvers: a host's stream
            handler would otherwise turn their calls into streams.
        environ: Where the API key is looked up.
        where: Key of the route in the file, for error messages.

    Raises:
        ConfigError: Unknown provider, missing API key, or a value the provider does not take.
        MissingExtraError: The provider's package is not installed.
    """
    if route.provider == "local":
        raise ConfigError(f"{where}.model: {route.model!r} is not a chat model; name one as 'provider:name'")
    provider = PROVIDERS.get(route.provider, OTHER)
    _check(route, provider, where)
    key = _api_key(route, provider, environ, where)
    with warnings.catch_warnings():
        # LangChain only warns about an argument that it does not know, and sends it on.
        warnings.filterwarnings("error", message=r"WARNING! \w+ is not default parameter")
        try:
            return _make(route, provider, key, streaming=streaming)
        except ValidationError as error:
            problems = "; ".join(problem["msg"] for problem in error.errors(include_input=False))
            raise ConfigError(f"{where}: {route.model!r} cannot be built: {problems}") from None
        except (ValueError, TypeError, UserWarning) as error:
            if "Unsupported provider" in str(error):
                hint = did_you_mean(route.provider, PROVIDERS) or f"; {str(error).splitlines()[-1].strip()}"
                raise ConfigError(f"{where}.model: unknown provider {route.provider!r}{hint}") from None
            raise ConfigError(f"{where}: {route.model!r} cannot be built: {error}") from error


def _make(route: ModelRoute, provider: Provider, key: SecretStr | None, *, streaming: bool) -> BaseChatModel:
    try:
        from langchain.chat_models import init_chat_model

        model: BaseChatModel = init_chat_model(
            route.name,
            model_provider=route.provider,
            disable_streaming=not streaming,
            metadata={DEADLINE_KEY: route.timeout_s, PROVIDER_KEY: route.provider},
            **provider.arguments(route, key),
        )
    except ImportError as error:
        raise MissingExtraError(
            f"{route.model!r} needs a package that is not installed: pip install 'ixchat[{provider.extra}]' ({error})"
        ) from error
    return model


def _check(route: ModelRoute, provider: Provider, where: str) -> None:
    if route.max_retries and not provider.retries:
        raise ConfigError(f"{where}.max_retries: provider {route.provider!r} cannot retry; set it to 0")
    effort = route.reasoning_effort
    if effort is not None and provider.reasoning is not None and effort not in provider.reasoning:
        known = f"expected one of {list(provider.reasoning)}" if provider.reasoning else "leave it empty"
        raise ConfigError(
            f"{where}.reasoning_effort: provider {route.provider!r} does not take {effort!r}; {known}"
        )


def _api_key(
    route: ModelRoute, provider: Provider, environ: Mapping[str, str], where: str
) -> SecretStr | None:
    """The key of the named variable. A `base_url` never gets the provider's key unless it is named."""
    name = route.api_key_env or ("" if route.base_url else provider.key_env)
    if not name:
        return None
    if key := environ.get(name, "").strip():
        return SecretStr(key)
    raise ConfigError(f"{where}: {route.model!r} needs an API key; set the environment variable {name}")


def _openai(route: ModelRoute, key: SecretStr | None) -> dict[str, Any]:
    return {
        "base_url": route.base_url or "https://api.openai.com/v1",
        "api_key": key or SecretStr(NO_KEY),
        "temperature": route.temperature,
        "max_tokens": route.max_tokens,
        "timeout": route.timeout_s,
        "max_retries": route.max_retries,
        "stream_usage": True,
        **({"reasoning_effort": route.reasoning_effort} if route.reasoning_effort else {}),
        **({"use_responses_api": False} if route.base_url else {}),
    }


def _mistralai(route: ModelRoute, key: SecretStr | None) -> dict[str, Any]:
    import httpx

    base_url, key = route.base_url or "https://api.mistral.ai/v1", key or SecretStr(NO_KEY)
    headers = {"Authorization": f"Bearer {key.get_secret_value()}", "Accept": "application/json"}
    return {
        "base_url": base_url,
        "api_key": key,
        "async_client": httpx.AsyncClient(
            base_url=base_url, headers=headers, timeout=route.timeout_s, limits=_no_queue()
        ),
        "temperature": route.temperature,
        "max_tokens": route.max_tokens,
        "timeout": math.ceil(route.timeout_s),  # of the sync client: whole seconds
        "max_retries": route.max_retries + 1,  # it counts attempts
    }


def _ollama(route: ModelRoute, key: SecretStr | None) -> dict[str, Any]:
    effort = route.reasoning_effort
    return {
        "base_url": route.base_url or "http://localhost:11434",
        "temperature": route.temperature,
        "num_predict": route.max_tokens,
        "client_kwargs": {
            "timeout": route.timeout_s,
            "limits": _no_queue(),
            **({"auth": _bearer(key)} if key else {}),
        },
        **({"reasoning": False if effort == "none" else effort} if effort else {}),
    }


def _bearer(key: SecretStr) -> Callable[[Any], Any]:
    """Adds the key to a request. As a header it would stand in the model's `repr`."""

    def sign(request: Any) -> Any:
        request.headers["Authorization"] = f"Bearer {key.get_secret_value()}"
        return request

    return sign


def _no_queue() -> Any:
    """A pool without an upper bound. httpcore 1.0.9 loses a place for good when a call is cancelled while
    it waits for one: a provider that hangs would, after a while, cost every later call its deadline.
    """
    import httpx

    return httpx.Limits(max_connections=None, max_keepalive_connections=20)


def _any_other(route: ModelRoute, key: SecretStr | None) -> dict[str, Any]:
    optional = {"base_url": route.base_url, "api_key": key, "reasoning_effort": route.reasoning_effort}
    return {
        "temperature": route.temperature,
        "max_tokens": route.max_tokens,
        "timeout": route.timeout_s,
        "max_retries": route.max_retries,
        **{name: value for name, value in optional.items() if value},
    }


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(_openai, "openai", "OPENAI_API_KEY"),
    "mistralai": Provider(_mistralai, "mistral", "MISTRAL_API_KEY", reasoning=()),
    "ollama": Provider(_ollama, "ollama", reasoning=("none", "low", "medium", "high"), retries=False),
}
OTHER = Provider(_any_other)
