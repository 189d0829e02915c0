"""Hand-written stand-ins with the protocols of the real parts."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import numpy as np
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from numpy.typing import NDArray
from pydantic import Field

from ixchat.utils.resolution import Resolution, Resolver, Turn
from ixinfra.config.settings import RagMode
from ixrag.words import words

T = TypeVar("T")


class FakeRetriever:
    """An engine whose searches are scripted: how long each takes, what it finds, how it misbehaves.

    Each call takes the next script; the last one repeats. A script is a list of passages to find, or
    an exception to raise.
    """

    def __init__(
        self,
        *scripts: Sequence[str] | Exception,
        rag_mode: RagMode = "mix",
        delay_s: float = 0.0,
        ignores_cancel_for_s: float = 0.0,
        cleanup_s: float = 0.0,
        raises_in_cancel: bool = False,
    ) -> None:
        self.scripts = list(scripts) or [["a passage"]]
        self.mode = rag_mode
        self.delay_s = delay_s
        self.ignores_cancel_for_s = ignores_cancel_for_s
        self.cleanup_s = cleanup_s
        self.raises_in_cancel = raises_in_cancel
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.cancelled = 0
        self.cleaned_up = 0

    @property
    def rag_mode(self) -> RagMode:
        return self.mode

    @property
    def queries(self) -> list[str]:
        return [query for query, _ in self.calls]

    async def ainvoke(self, input: str, **kwargs: Any) -> list[Document]:
        script = self.scripts[min(len(self.calls), len(self.scripts) - 1)]
        self.calls.append((input, kwargs))
        try:
            await asyncio.sleep(self.delay_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            if self.raises_in_cancel:
                raise RuntimeError("clean-up failed") from None
            if self.cleanup_s:
                await asyncio.sleep(self.cleanup_s)
            self.cleaned_up += 1
            if not self.ignores_cancel_for_s:
                raise
            await asyncio.sleep(self.ignores_cancel_for_s)
        if isinstance(script, Exception):
            raise script
        return [Document(text, metadata={"kind": "chunk", "source": f"{text}.md"}) for text in script]


class ScriptedModel(BaseChatModel):
    """A chat model that gives the next answer of its script, or raises it; the last one repeats."""

    script: list[Any] = Field(default_factory=lambda: ["ok"])
    name_on_bill: str = "scripted-1"
    delay_s: float = 0.0
    asked: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _get_ls_params(self, stop: list[str] | None = None, **_kwargs: Any) -> Any:
        return {"ls_provider": "scripted", "ls_model_name": self.name_on_bill}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **_kwargs: Any,
    ) -> ChatResult:
        raise NotImplementedError("ix asks models asynchronously")

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **_kwargs: Any,
    ) -> ChatResult:
        step = self.script[min(len(self.asked), len(self.script) - 1)]
        self.asked.append(messages)
        await asyncio.sleep(self.delay_s)
        if isinstance(step, BaseException):
            raise step
        usage = {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15}
        return ChatResult(generations=[ChatGeneration(message=AIMessage(step, usage_metadata=usage))])


def resolver_that(
    answer: Callable[[Turn], Resolution] | Exception,
    *,
    delay_s: float = 0.0,
    ignores_cancel_for_s: float = 0.0,
) -> Resolver:
    """A resolver that takes `delay_s` seconds and then answers, or raises."""

    async def resolve(turn: Turn) -> Resolution:
        try:
            await asyncio.sleep(delay_s)
        except asyncio.CancelledError:
            if not ignores_cancel_for_s:
                raise
            await asyncio.sleep(ignores_cancel_for_s)
        if isinstance(answer, Exception):
            raise answer
        return answer(turn)

    return resolve


def resolves_to(name: str) -> Callable[[Turn], Resolution]:
    """A verdict that appends a name."""
    return lambda turn: Resolution(f"{turn.query} — {name}", "resolve", trace={"entity": name})


def keeps(turn: Turn) -> Resolution:
    """The verdict KEEP."""
    return Resolution(turn.query, "keep")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer instead of waiting: seconds cost nothing, and exact
    times can be asserted however busy the machine is."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        select = self._selector.select

        def jump(timeout: float | None = None) -> Any:
            if timeout:
                self._now_s += timeout
            return select(0 if timeout is not None else None)

        self._selector.select = jump

    def time(self) -> float:
        return self._now_s


def run_in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on a `VirtualTimeLoop`."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


class HashEmbedder:
    """Vectors from the words of a text alone: equal words, near texts. Same in every process.

    Args:
        delay_s: How long each call takes.
        model_id: What an index built with it records.
    """

    def __init__(self, dim: int = 64, *, delay_s: float = 0.0, model_id: str = "hash") -> None:
        self.dim = dim
        self.model_id = model_id
        self.delay_s = delay_s
        self.calls: list[tuple[str, list[str]]] = []
        self.running = 0
        self.cancelled = 0

    async def query(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return await self._embed("query", texts)

    async def passage(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return await self._embed("passage", texts)

    async def _embed(self, kind: str, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls.append((kind, list(texts)))
        self.running += 1
        try:
            await asyncio.sleep(self.delay_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in words(text):
                row[zlib.crc32(word.folded.encode()) % self.dim] += 1.0
            row[0] += 1e-3  # a text without words has a direction, too
            row /= np.linalg.norm(row)
        return vectors
