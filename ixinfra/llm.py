"""One call to a chat model: bounded in time, traced, and either a `Completion` or a `ModelError`."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, BaseMessageChunk
from langchain_core.runnables import RunnableConfig
from langgraph.constants import TAG_NOSTREAM

from ixinfra.errors import ModelError
from ixinfra.providers import DEADLINE_KEY, PROVIDER_KEY, build_chat_model
from ixinfra.spending import begin_call
from ixinfra.structured import called_with, held_to
from ixinfra.tracing import Span, current_tracer

__all__ = [
    "Completion",
    "ModelFailure",
    "build_chat_model",
    "complete",
    "model_id",
    "stream_text",
    "text_of",
    "without_thinking",
]

ModelFailure = Literal["timeout", "model_error"]

DEFAULT_TIMEOUT_S = 2.0  # for a model that was not built from a route and a caller that names no limit
REAP_S = 0.05  # how long a cancelled call may clean up before it is dropped
TEXT_BLOCKS = ("text", "output_text")
THINK_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
PARTIAL_TAG = re.compile(r"<[/a-z]{0,9}$", re.IGNORECASE)

Messages = Sequence[AnyMessage] | Sequence[BaseMessage]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered.

    Attributes:
        text: The answer without reasoning blocks, stripped; may be empty.
        model: Name the server says it used, else the one that was asked for.
        provider: Name of the provider, such as `openai`; "" where the model does not say.
        usage: Tokens as `input`, `output`, `total`; empty where the server does not count.
        elapsed_ms: Wall time of the call.
    """

    text: str
    model: str = ""
    provider: str = ""
    usage: Mapping[str, int] = field(default_factory=dict)
    elapsed_ms: float = 0.0


async def complete(
    model: BaseChatModel,
    messages: Messages,
    *,
    timeout_s: float | None = None,
    name: str = "chat-model",
    metadata: Mapping[str, Any] | None = None,
    schema: Mapping[str, Any] | None = None,
) -> Completion:
    """Ask the model once, inside a `generation` span.

    No callback of the host sees the call: its tokens stay out of the host's stream, and its cost is
    counted once.

    Args:
        model: Any LangChain chat model.
        messages: What is sent.
        timeout_s: Hard limit; the model may ignore it, the caller still gets its answer in time.
            Default: the limit of the route the model was built from, else `DEFAULT_TIMEOUT_S`.
        name: Name of the span.
        metadata: JSON facts for the span, such as the kind of question.
        schema: JSON schema that the answer is held to, where the model can be (`ixinfra.structured`); its
            text is then JSON, but read it tolerantly all the same.

    Raises:
        ModelError: Nothing usable came back; `reason` says why, the text holds no message content.
    """
    limit_s = _limit(model, timeout_s)
    config: RunnableConfig = {"tags": [TAG_NOSTREAM], "callbacks": [], "run_name": name}
    with current_tracer().span(name, "generation", input=_as_json(messages), metadata=metadata) as span:
        asked = _describe(model, span)
        bill = begin_call(sum(len(str(message.content)) for message in messages))
        started = time.perf_counter()
        try:
            message = await _within(limit_s, _invoke(model, messages, config, schema))
        except Exception as error:
            failure = _model_error(error, asked, limit_s)
            span.fail(failure.reason)
        else:
            elapsed_ms = (time.perf_counter() - started) * 1000
            text = text_of(message) or (called_with(message) if schema else "")
            completion = Completion(text, *_answered_by(message, asked), _usage(message), elapsed_ms)
            bill.settle(counted=completion.usage.get("total", 0), answer_chars=len(text))
            span.update(output=completion.text, model=completion.model, usage=completion.usage)
            return completion
    raise failure


async def stream_text(
    model: BaseChatModel,
    messages: Messages,
    *,
    timeout_s: float | None = None,
    name: str = "chat-model",
    whole: list[BaseMessageChunk] | None = None,
) -> AsyncIterator[str]:
    """Like `complete`, but yields the text while it is written, for the answer a visitor reads.

    The host's callbacks do see this call, so its tokens appear in the host's `messages` stream.
    Leaving the loop early cancels the call. `timeout_s` bounds the whole answer.

    Args:
        model: Any LangChain chat model.
        messages: What is sent.
        timeout_s: As for `complete`.
        name: Name of the span.
        whole: Holds, as soon as text comes, the message so far as the model sent it. A node that returns
            its answer under this message's id does not show it twice in the `messages` stream.

    Raises:
        ModelError: As `complete`; text yielded before stays valid.
    """
    limit_s = _limit(model, timeout_s)
    pieces: asyncio.Queue[str | None] = asyncio.Queue()
    # The span lives in a task of its own: a generator may be closed from another context.
    heard: list[BaseMessageChunk] = [] if whole is None else whole
    writer = asyncio.create_task(_write(model, messages, pieces, heard, limit_s=limit_s, name=name))
    writer.add_done_callback(lambda _: pieces.put_nowait(None))
    try:
        while (piece := await pieces.get()) is not None:
            yield piece
        await writer
    finally:
        await _stop(writer)


async def _invoke(
    model: BaseChatModel, messages: Messages, config: RunnableConfig, schema: Mapping[str, Any] | None
) -> BaseMessage:
    held = held_to(model, schema) if schema else None
    if held is None:
        return await model.ainvoke(list(messages), config)
    answer: Any = await held.ainvoke(list(messages), config)
    message: BaseMessage = answer["raw"]
    return message


def text_of(message: BaseMessage) -> str:
    """The text of a message of any shape, stripped; reasoning, images and tool calls are left out."""
    return without_thinking(_joined(message.content)).strip()


def model_id(model: BaseChatModel) -> str:
    """`provider:name` of a model, for keys of caches and records."""
    name, provider = _identity(model)
    return f"{provider}:{name}" if provider else name


async def _write(
    model: BaseChatModel,
    messages: Messages,
    pieces: asyncio.Queue[str | None],
    whole: list[BaseMessageChunk],
    *,
    limit_s: float,
    name: str,
) -> None:
    with current_tracer().span(name, "generation", input=_as_json(messages)) as span:
        asked = _describe(model, span)
        try:
            await _within(limit_s, _collect(model, messages, pieces, whole, name))
        except Exception as error:
            failure = _model_error(error, asked, limit_s)
            span.fail(failure.reason)
        else:
            for message in whole:
                span.update(
                    output=text_of(message), model=_answered_by(message, asked)[0], usage=_usage(message)
                )
            return
    raise failure


async def _collect(
    model: BaseChatModel,
    messages: Messages,
    pieces: asyncio.Queue[str | None],
    whole: list[BaseMessageChunk],
    name: str,
) -> None:
    text, shown = "", ""
    async for chunk in model.astream(list(messages), {"run_name": name}):
        whole[:] = [whole[0] + chunk] if whole else [chunk]
        text += _joined(chunk.content)
        visible = without_thinking(PARTIAL_TAG.sub("", text))
        if visible != shown:
            pieces.put_nowait(visible.removeprefix(shown))
            shown = visible
    if (rest := without_thinking(text)) != shown:
        pieces.put_nowait(rest.removeprefix(shown))


async def _within(limit_s: float, call: Coroutine[Any, Any, T]) -> T:
    """The call's result, or TimeoutError after `limit_s`, whatever the call does about cancellation."""
    task = asyncio.create_task(call)
    try:
        done, _ = await asyncio.wait({task}, timeout=limit_s)
    except asyncio.CancelledError:
        await _stop(task)
        raise
    if not done:
        await _stop(task)
        raise TimeoutError
    if task.cancelled():
        raise RuntimeError("the call cancelled itself")
    return task.result()


async def _stop(task: asyncio.Task[Any]) -> None:
    task.cancel()
    task.add_done_callback(_look_at_outcome)
    await asyncio.wait({task}, timeout=REAP_S)


def _look_at_outcome(task: asyncio.Task[Any]) -> None:
    """Otherwise the loop reports an exception nobody retrieved."""
    if not task.cancelled():
        task.exception()


def _limit(model: BaseChatModel, timeout_s: float | None) -> float:
    if timeout_s is not None:
        return timeout_s
    return float((model.metadata or {}).get(DEADLINE_KEY, DEFAULT_TIMEOUT_S))


def _identity(model: BaseChatModel) -> tuple[str, str]:
    facts = {**model._get_ls_params(), **(model.metadata or {})}
    name = facts.get("ls_model_name") or type(model).__name__
    return str(name), str(facts.get(PROVIDER_KEY) or facts.get("ls_provider") or "")


def _describe(model: BaseChatModel, span: Span) -> tuple[str, str]:
    """Put the model and its parameters on the span; its name and provider come back."""
    name, provider = _identity(model)
    facts = model._get_ls_params()
    parameters = {"temperature": facts.get("ls_temperature"), "max_tokens": facts.get("ls_max_tokens")}
    known = {key: value for key, value in parameters.items() if value is not None}
    span.update(model=name, model_parameters=known, metadata={"provider": provider})
    return name, provider


def _answered_by(message: BaseMessage, asked: tuple[str, str]) -> tuple[str, str]:
    facts = message.response_metadata
    name = facts.get("model_name") or facts.get("model") or asked[0]
    return str(name), str(facts.get("model_provider") or asked[1])


def _usage(message: BaseMessage) -> dict[str, int]:
    counts = message.usage_metadata if isinstance(message, AIMessage) else None
    if not counts:
        return {}
    return {
        "input": counts["input_tokens"],
        "output": counts["output_tokens"],
        "total": counts["total_tokens"],
    }


def _model_error(error: Exception, asked: tuple[str, str], limit_s: float) -> ModelError:
    """Only class and status of the failure: its text may repeat what a visitor wrote."""
    kind = type(error)
    if any("Timeout" in base.__name__ for base in kind.__mro__):
        return ModelError(f"{asked[0]} gave no answer within {limit_s:g} s", reason="timeout")
    status = getattr(error, "status_code", None) or getattr(
        getattr(error, "response", None), "status_code", None
    )
    known = status if isinstance(status, int) else None
    what = kind.__name__ if known is None else f"{kind.__name__}, status {known}"
    return ModelError(f"{asked[0]} failed: {what}", reason="model_error", status=known)


def _as_json(messages: Messages) -> list[dict[str, Any]]:
    return [{"role": message.type, "content": message.content} for message in messages]


def _joined(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(_block_text(block) for block in content)


def _block_text(block: object) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, dict) and block.get("type", "text") in TEXT_BLOCKS:
        text = block.get("text")
        return text if isinstance(text, str) else ""
    return ""


def without_thinking(text: str) -> str:
    """Drop `<think>…</think>`; an unclosed one to the end, and all before a stray closing tag, whose
    opening tag was part of the model's prompt template."""
    kept: list[str] = []
    position, thinking = 0, False
    for tag in THINK_TAG.finditer(text):
        if not tag[1] and not thinking:
            kept.append(text[position : tag.start()])
        elif tag[1] and not thinking:
            kept.clear()
        thinking = not tag[1]
        position = tag.end()
    return "".join(kept) + ("" if thinking else text[position:])
