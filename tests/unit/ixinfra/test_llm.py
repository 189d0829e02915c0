"""A call to a model: on time, one of two outcomes, nothing leaked, nothing left behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypedDict

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import START, StateGraph

from ixinfra.errors import ModelError
from ixinfra.llm import Completion, complete, model_id, stream_text, text_of
from ixinfra.tracing_tree import RecordingTracer

SECRET = "my phone is 06 12 34 56 78"
ASK = [HumanMessage(SECRET)]
Act = Callable[[], Awaitable[Any]]


class Model(BaseChatModel):
    """Answers with what `act` returns; `pieces` are what it streams."""

    act: Any = None
    pieces: Sequence[str | Exception] = ()

    @property
    def _llm_type(self) -> str:
        return "test"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        answer = await self.act()
        message = answer if isinstance(answer, AIMessage) else AIMessage(answer)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        if self.act:
            await self.act()
        for piece in self.pieces:
            await asyncio.sleep(0)
            if isinstance(piece, Exception):
                raise piece
            chunk = ChatGenerationChunk(message=AIMessageChunk(piece))
            if run_manager:
                await run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk


def says(answer: str | AIMessage) -> Model:
    async def act() -> str | AIMessage:
        return answer

    return Model(act=act, pieces=[answer] if isinstance(answer, str) else [])


def raises(error: BaseException) -> Model:
    async def act() -> str:
        raise error

    return Model(act=act)


class Stubborn:
    """Refuses to be cancelled until `release` is set, and answers then."""

    def __init__(self) -> None:
        self.release, self.cancels, self.ended = asyncio.Event(), 0, asyncio.Event()

    async def __call__(self) -> str:
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.cancels += 1
        self.ended.set()
        return "RESOLVE: too late"


# Text


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(" KEEP\n", "KEEP", id="plain"),
        pytest.param([{"type": "text", "text": "KE"}, {"type": "text", "text": "EP"}], "KEEP", id="blocks"),
        pytest.param(["KE", {"type": "text", "text": "EP"}], "KEEP", id="strings and blocks"),
        pytest.param(
            [{"type": "thinking", "thinking": "hm", "text": "hm"}, {"type": "text", "text": "KEEP"}],
            "KEEP",
            id="thinking block",
        ),
        pytest.param(
            [{"type": "reasoning", "summary": []}, {"type": "text", "text": "KEEP"}], "KEEP", id="reasoning"
        ),
        pytest.param([{"type": "image_url", "image_url": "data:"}], "", id="image"),
        pytest.param([{"type": "text", "text": None}, {}], "", id="blocks without text"),
        pytest.param("<think>RESOLVE: Solvea</think>\nKEEP", "KEEP", id="think tags"),
        pytest.param("<THINKING>a</THINKING>KEEP", "KEEP", id="other think tags"),
        pytest.param("<think>a</think>KE<think>b</think>EP", "KEEP", id="two thoughts"),
        pytest.param("<think>RESOLVE: Solvea", "", id="cut while thinking"),
        pytest.param("RESOLVE: Solvea</think>KEEP", "KEEP", id="opened by the template"),
        pytest.param("<think>a<think>b</think>KEEP", "KEEP", id="opened twice"),
        pytest.param("a < b and <b>bold</b>", "a < b and <b>bold</b>", id="other tags stay"),
    ],
)
def test_text_of_any_content(content: Any, expected: str) -> None:
    assert text_of(AIMessage(content)) == expected


def test_a_long_run_of_think_tags_is_read_in_linear_time() -> None:
    started = time.process_time()
    assert text_of(AIMessage("<think>" * 50_000 + "</think>" * 50_000 + "KEEP")) == "KEEP"
    assert time.process_time() - started < 2


# Outcomes


async def test_a_completion_says_who_answered_and_what_it_took() -> None:
    answer = AIMessage(
        "KEEP",
        usage_metadata={"input_tokens": 12, "output_tokens": 3, "total_tokens": 15},
        response_metadata={"model_name": "mini-2026-03-01", "model_provider": "openai"},
    )
    completion = await complete(says(answer), ASK)
    assert completion == Completion(
        "KEEP", "mini-2026-03-01", "openai", {"input": 12, "output": 3, "total": 15}, completion.elapsed_ms
    )
    assert 0 < completion.elapsed_ms < 60_000


async def test_a_model_that_counts_nothing_has_no_usage() -> None:
    completion = await complete(says(""), ASK)
    assert (completion.text, completion.model, completion.usage) == ("", "Model", {})


class ReadTimeout(Exception):  # noqa: N818  # a client's name, not ours
    """As the clients of providers name theirs."""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(ValueError(SECRET), "model_error", id="any exception"),
        pytest.param(asyncio.CancelledError(SECRET), "model_error", id="the call cancels itself"),
        pytest.param(TimeoutError(SECRET), "timeout", id="own timeout"),
        pytest.param(ReadTimeout(SECRET), "timeout", id="the client's timeout"),
    ],
)
async def test_every_failure_is_a_model_error_without_its_text(error: BaseException, reason: str) -> None:
    with pytest.raises(ModelError) as caught:
        await complete(raises(error), ASK)
    assert caught.value.reason == reason
    assert SECRET not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


async def test_the_status_of_a_refusal_is_named() -> None:
    error = ValueError(SECRET)
    error.status_code = 429  # type: ignore[attr-defined]  # as clients of providers do
    with pytest.raises(ModelError, match="Model failed: ValueError, status 429"):
        await complete(raises(error), ASK)


# Deadlines and cancellation


async def test_a_model_that_ignores_cancellation_does_not_hold_its_caller() -> None:
    stubborn = Stubborn()
    with pytest.raises(ModelError) as caught:
        await asyncio.wait_for(complete(Model(act=stubborn), ASK, timeout_s=0.01), 5)
    assert caught.value.reason == "timeout"
    assert stubborn.cancels == 1
    stubborn.release.set()
    await asyncio.wait_for(stubborn.ended.wait(), 5)


async def test_the_limit_of_the_route_holds_where_the_caller_names_none() -> None:
    model = Model(act=asyncio.Event().wait, metadata={"ix_timeout_s": 0.01})
    with pytest.raises(ModelError, match=r"within 0\.01 s"):
        await asyncio.wait_for(complete(model, ASK), 1.5)


async def test_a_model_that_fails_while_cancelled_is_a_timeout() -> None:
    async def act() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("clean-up failed")

    with pytest.raises(ModelError) as caught:
        await complete(Model(act=act), ASK, timeout_s=0.01)
    assert caught.value.reason == "timeout"


async def test_cancellation_passes_and_reaches_the_model() -> None:
    started, cleaned_up = asyncio.Event(), []

    async def act() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned_up.append(True)
        return ""

    before = asyncio.all_tasks()
    call = asyncio.create_task(complete(Model(act=act), ASK, timeout_s=60))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert cleaned_up == [True]
    assert asyncio.all_tasks() == before


async def test_cancellation_passes_a_model_that_ignores_it() -> None:
    stubborn = Stubborn()
    call = asyncio.create_task(complete(Model(act=stubborn), ASK, timeout_s=60))
    await asyncio.sleep(0.01)
    call.cancel("redirected")
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(call, 5)
    stubborn.release.set()
    await asyncio.wait_for(stubborn.ended.wait(), 5)


# Spans


async def test_the_generation_span_has_model_parameters_usage_and_output() -> None:
    tracer = RecordingTracer()
    answer = AIMessage("KEEP", usage_metadata={"input_tokens": 12, "output_tokens": 3, "total_tokens": 15})
    with tracer.turn():
        await complete(says(answer), ASK, name="reference-model")
    (span,) = tracer.turns[0].spans
    assert (span.name, span.kind, span.status, span.output) == ("reference-model", "generation", "ok", "KEEP")
    assert span.input == [{"role": "human", "content": SECRET}]
    assert span.usage == {"input": 12, "output": 3, "total": 15}


async def test_a_failed_span_says_why_and_a_cancelled_one_is_no_failure() -> None:
    tracer = RecordingTracer()
    with tracer.turn():
        with pytest.raises(ModelError):
            await complete(Model(act=asyncio.Event().wait), ASK, timeout_s=0.01)
        with pytest.raises(ModelError):
            await complete(raises(ValueError(SECRET)), ASK)
        call = asyncio.create_task(complete(Model(act=asyncio.Event().wait), ASK))
        await asyncio.sleep(0)
        call.cancel("superseded")
        await asyncio.gather(call, return_exceptions=True)
    spans = tracer.turns[0].spans
    assert [(span.status, span.error) for span in spans[:2]] == [
        ("error", "timeout"),
        ("error", "model_error"),
    ]
    assert (spans[2].status, spans[2].cancel_cause) == ("cancelled", "superseded")


# The host's stream


class State(TypedDict, total=False):
    text: str


class Watcher(AsyncCallbackHandler):
    """Counts what a host's handler sees."""

    def __init__(self) -> None:
        self.calls = 0

    async def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.calls += 1


async def tokens_seen_by_host(node: Callable[[State], Awaitable[State]]) -> tuple[list[str], int]:
    """What a host that streams `messages` receives from a graph of that node, and model calls it sees."""
    graph = StateGraph(State).add_node("node", node).add_edge(START, "node").compile()
    watcher = Watcher()
    config: Any = {"callbacks": [watcher]}
    stream = graph.astream({"text": ""}, config, stream_mode="messages")
    return [str(message.content) async for message, _ in stream], watcher.calls


async def test_a_resolvers_tokens_stay_out_of_the_hosts_stream() -> None:
    model = Model(act=says("KEEP").act, pieces=["KE", "EP"])

    async def resolver(state: State) -> State:
        return {"text": (await complete(model, ASK)).text}

    async def careless(state: State) -> State:
        return {"text": text_of(await model.ainvoke(ASK))}

    assert await tokens_seen_by_host(resolver) == ([], 0)
    seen, calls = await tokens_seen_by_host(careless)
    assert "".join(seen) == "KEEP"
    assert calls == 1


async def test_the_answers_tokens_are_in_the_hosts_stream() -> None:
    model = Model(pieces=["Good ", "day"])

    async def answer(state: State) -> State:
        return {"text": "".join([piece async for piece in stream_text(model, ASK)])}

    seen, calls = await tokens_seen_by_host(answer)
    assert "".join(seen) == "Good day"
    assert calls == 1


# Streaming


async def pieces_of(model: BaseChatModel, timeout_s: float = 5) -> list[str]:
    return [piece async for piece in stream_text(model, ASK, timeout_s=timeout_s)]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        pytest.param(["Good ", "day"], ["Good ", "day"], id="as they come"),
        pytest.param([""], [], id="nothing"),
        pytest.param(["<th", "ink>a", "b</thi", "nk>Good", " day"], ["Good", " day"], id="split think tags"),
        pytest.param(["a <", "b"], ["a ", "<b"], id="a tag that is none"),
        pytest.param(["a <"], ["a ", "<"], id="ends like a tag"),
        pytest.param(["<think>never ends"], [], id="cut while thinking"),
    ],
)
async def test_text_is_yielded_while_it_is_written(pieces: list[str], expected: list[str]) -> None:
    assert await pieces_of(Model(pieces=pieces)) == expected


async def test_a_stream_that_breaks_keeps_what_was_written() -> None:
    received: list[str] = []

    async def read() -> None:
        async for piece in stream_text(Model(pieces=["Good ", ValueError(SECRET)]), ASK):
            received.append(piece)  # noqa: PERF401  # what came before the failure is the point

    with pytest.raises(ModelError) as caught:
        await read()
    assert (received, caught.value.reason) == (["Good "], "model_error")
    assert SECRET not in str(caught.value)


async def test_a_stream_that_hangs_is_a_timeout() -> None:
    with pytest.raises(ModelError) as caught:
        await asyncio.wait_for(pieces_of(Model(act=asyncio.Event().wait), timeout_s=0.01), 5)
    assert caught.value.reason == "timeout"


async def test_leaving_the_stream_early_stops_the_model() -> None:
    before, tracer = asyncio.all_tasks(), RecordingTracer()
    with tracer.turn():
        async with aclosing(stream_text(Model(pieces=["a"] * 1000), ASK)) as stream:
            async for _ in stream:
                break
    assert asyncio.all_tasks() == before
    (span,) = tracer.turns[0].spans
    assert span.status == "cancelled"


async def test_a_streamed_answer_is_one_span() -> None:
    tracer = RecordingTracer()
    with tracer.turn():
        await pieces_of(Model(pieces=["Good ", "day"]))
    (span,) = tracer.turns[0].spans
    assert (span.kind, span.status, span.output) == ("generation", "ok", "Good day")


def test_a_model_has_one_name_for_caches() -> None:
    assert model_id(Model()) == "model:Model"
    assert model_id(Model(metadata={"ix_provider": "openai"})) == "openai:Model"
