"""Routes against a server on loopback that speaks the providers' protocols: what is really sent, what comes
back when the server misbehaves, and what a cancelled call leaves behind."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from openai_server import CUT, GARBAGE, HANG, LoopbackServer, Reply, answer, openai_server, status, tool_call

from ixinfra.config.settings import ModelRoute
from ixinfra.errors import ModelError
from ixinfra.llm import build_chat_model, complete, stream_text
from ixinfra.tracing_tree import RecordingTracer
from ixrag.query.rewriter import schema_of

SECRET = "my phone is 06 12 34 56 78"
ASK = [SystemMessage("Answer KEEP."), HumanMessage(SECRET)]
PROVIDERS = ["openai", "mistralai", "ollama"]


def route_to(server: LoopbackServer, provider: str, **values: Any) -> ModelRoute:
    address = server.url if provider == "ollama" else server.openai_url
    return ModelRoute(**{"model": f"{provider}:tiny", "base_url": address, "timeout_s": 5.0, **values})


@asynccontextmanager
async def model_of(
    server: LoopbackServer, provider: str, *, streaming: bool = False, **values: Any
) -> AsyncIterator[BaseChatModel]:
    """The model of a route to the server; its connections are closed afterwards."""
    model: Any = build_chat_model(route_to(server, provider, **values), streaming=streaming)
    try:
        yield model
    finally:
        await http_client(model, provider).aclose()


# What reaches the server


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_answer_comes_back_with_usage_and_names(provider: str) -> None:
    tracer = RecordingTracer()
    async with openai_server(answer("RESOLVE: Velmora Shift")) as server, model_of(server, provider) as model:
        with tracer.turn():
            completion = await complete(model, ASK)
    assert completion.text == "RESOLVE: Velmora Shift"
    assert completion.provider == provider
    assert completion.usage == {"input": 12, "output": 3, "total": 15}
    (span,) = tracer.turns[0].spans
    assert (span.usage, span.metadata["provider"]) == (completion.usage, provider)
    assert span.model == completion.model
    assert len(server.requests) == 1


@pytest.mark.parametrize("provider", ["openai", "ollama"])
async def test_the_model_named_is_the_one_that_answered(provider: str) -> None:
    async with openai_server(answer("KEEP")) as server, model_of(server, provider) as model:
        assert (await complete(model, ASK)).model == "loopback-1"


async def test_limits_and_reasoning_of_an_openai_route_are_sent() -> None:
    async with (
        openai_server() as server,
        model_of(server, "openai", max_tokens=40, temperature=0.0, reasoning_effort="none") as model,
    ):
        await complete(model, ASK)
    body = server.requests[0].body
    assert server.requests[0].path == "/v1/chat/completions"
    assert {
        key: body[key] for key in ("model", "max_completion_tokens", "temperature", "reasoning_effort")
    } == {
        "model": "tiny",
        "max_completion_tokens": 40,
        "temperature": 0.0,
        "reasoning_effort": "none",
    }
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert not body.get("stream")


QUERIES = '{"queries": ["pay slips", "wage file"]}'


@pytest.mark.parametrize(
    ("provider", "reply", "where"),
    [
        ("openai", answer(QUERIES), ("response_format", "json_schema", "schema")),
        ("mistralai", tool_call("queries", QUERIES), ("tools", 0, "function", "parameters")),
        ("ollama", answer(QUERIES), ("format",)),
    ],
)
async def test_a_schema_is_sent_as_the_provider_takes_it(
    provider: str, reply: Reply, where: tuple[str | int, ...]
) -> None:
    schema = schema_of(3)
    async with openai_server(reply) as server, model_of(server, provider) as model:
        completion = await complete(model, [HumanMessage("payroll")], schema=schema)
        sent: Any = server.requests[0].body
    for step in where:
        sent = sent[step]
    assert sent["properties"] == schema["properties"]
    assert sent["required"] == ["queries"]
    assert json.loads(completion.text) == json.loads(QUERIES)
    assert completion.usage == {"input": 12, "output": 3, "total": 15}


async def test_limits_of_a_mistral_route_are_sent() -> None:
    async with openai_server() as server, model_of(server, "mistralai", max_tokens=40) as model:
        await complete(model, ASK)
    body = server.requests[0].body
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("tiny", 40, 0.0)
    assert "reasoning_effort" not in body
    assert not body.get("stream")


async def test_limits_and_reasoning_of_an_ollama_route_are_sent() -> None:
    async with (
        openai_server() as server,
        model_of(server, "ollama", max_tokens=40, reasoning_effort="none") as model,
    ):
        await complete(model, ASK)
    body = server.requests[0].body
    assert (body["model"], body["think"]) == ("tiny", False)
    assert body["options"] == {"num_predict": 40, "temperature": 0.0}


async def test_reasoning_is_not_mentioned_where_the_route_leaves_it_open() -> None:
    async with openai_server() as server, model_of(server, "openai") as model:
        await complete(model, ASK)
    assert "reasoning_effort" not in server.requests[0].body


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_server_of_ones_own_is_sent_a_key_only_when_the_route_names_it(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "MISTRAL_API_KEY", "TEAM_KEY"):
        monkeypatch.setenv(name, "sk-sesame")
    async with (
        openai_server() as server,
        model_of(server, provider) as model,
        model_of(server, provider, api_key_env="TEAM_KEY") as trusting,
    ):
        await complete(model, ASK)
        await complete(trusting, ASK)
    without, with_key = (request.headers.get("authorization", "") for request in server.requests)
    assert without in ("", "Bearer none")
    assert with_key == "Bearer sk-sesame"


# What a misbehaving server costs


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        pytest.param(status(429), "model_error", id="429"),
        pytest.param(status(500), "model_error", id="500"),
        pytest.param(status(401), "model_error", id="401"),
        pytest.param(GARBAGE, "model_error", id="garbage"),
        pytest.param(CUT, "model_error", id="cut"),
        pytest.param(HANG, "timeout", id="hang"),
        pytest.param(answer("RESOLVE: late", delay_s=30), "timeout", id="slow first byte"),
    ],
)
async def test_a_misbehaving_server_is_one_request_and_one_reason(
    provider: str, reply: Reply, reason: str
) -> None:
    timeout_s = 0.2 if reason == "timeout" else 20.0
    async with openai_server(reply, answer("a retry")) as server:
        async with model_of(server, provider, timeout_s=timeout_s) as model:
            with pytest.raises(ModelError) as caught:
                await complete(model, ASK)
        assert caught.value.reason == reason
        assert len(server.requests) == 1
        assert SECRET not in str(caught.value)


async def test_a_refused_connection_is_a_model_error() -> None:
    async with openai_server() as server:
        pass
    async with model_of(server, "openai") as model:
        with pytest.raises(ModelError) as caught:
            await complete(model, ASK)
    assert caught.value.reason == "model_error"


async def test_a_retry_happens_where_the_route_asks_for_it() -> None:
    async with (
        openai_server(status(429), answer("KEEP")) as server,
        model_of(server, "openai", max_retries=1, timeout_s=20.0) as model,
    ):
        assert (await complete(model, ASK)).text == "KEEP"
    assert len(server.requests) == 2


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_slow_answer_within_the_limit_counts(provider: str) -> None:
    async with openai_server(answer("KEEP", delay_s=0.05)) as server, model_of(server, provider) as model:
        completion = await complete(model, ASK)
    assert completion.text == "KEEP"
    assert completion.elapsed_ms >= 50


# Streams


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_answer_streams_in_pieces_with_usage(provider: str) -> None:
    tracer = RecordingTracer()
    async with (
        openai_server(answer("Good day to you")) as server,
        model_of(server, provider, streaming=True) as model,
    ):
        with tracer.turn():
            pieces = [piece async for piece in stream_text(model, ASK)]
    assert "".join(pieces) == "Good day to you"
    assert len(pieces) > 1
    assert tracer.turns[0].spans[0].usage == {"input": 12, "output": 3, "total": 15}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("reply", [status(500), GARBAGE, CUT])
async def test_a_broken_stream_is_a_model_error(provider: str, reply: Reply) -> None:
    async with openai_server(reply) as server, model_of(server, provider, streaming=True) as model:
        with pytest.raises(ModelError) as caught:
            async for _ in stream_text(model, ASK):
                pass
    assert caught.value.reason == "model_error"


# Cancellation


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_cancelling_a_call_closes_its_connection(provider: str) -> None:
    async with openai_server(HANG) as server, model_of(server, provider) as model:
        call = asyncio.create_task(complete(model, ASK))
        await until(lambda: len(server.requests) == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: server.open_connections == 0)
        assert server.requests[0].abandoned


@pytest.mark.slow
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_500_cancelled_calls_leave_the_pool_whole(provider: str) -> None:
    rng = random.Random(7)
    async with openai_server(HANG) as server, model_of(server, provider, timeout_s=30.0) as model:
        pool = http_client(model, provider)._transport._pool
        if provider == "openai":
            pool._max_connections = 10  # calls fight over places, so that a lost one shows
        else:
            assert pool._max_connections > 10_000  # their client would lose places: nobody may have to wait
        for _ in range(25):
            calls = [asyncio.create_task(complete(model, ASK)) for _ in range(20)]
            await asyncio.sleep(rng.random() * 0.02)
            for call in rng.sample(calls, len(calls)):
                call.cancel()
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} == {asyncio.CancelledError}
        # On a busy machine httpcore loses some of those that were being opened, and leaves them open.
        lost = 0 if provider == "openai" else 500 // 10
        await until(lambda: server.open_connections <= lost)
        assert len(pool.connections) <= lost
        server.script = [answer("KEEP")]
        completions = await asyncio.gather(*(complete(model, ASK) for _ in range(20)))
        assert [completion.text for completion in completions] == ["KEEP"] * 20


async def until(true: Callable[[], bool]) -> None:
    """Wait for a condition of the server, which learns of a closed connection a little later."""
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110  # the state is the server's
            await asyncio.sleep(0.005)


def http_client(model: Any, provider: str) -> Any:
    clients = {"openai": "root_async_client", "mistralai": "async_client", "ollama": "_async_client"}
    client = getattr(model, clients[provider])
    return client if provider == "mistralai" else client._client
