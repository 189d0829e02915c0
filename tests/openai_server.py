"""A loopback server that speaks OpenAI's, Mistral's and Ollama's chat protocol and misbehaves on demand.

    async with openai_server(answer("KEEP"), status(429), HANG) as server:
        route = ModelRoute(model="openai:any", base_url=server.openai_url)

Each request takes the next reply; the last one is repeated. `server.requests` is what arrived.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["answer", "status", "garbage", "cut", "hang"]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server does with one request; `delay_s` passes before the first byte."""

    kind: Kind
    text: str = ""
    status: int = 200
    delay_s: float = 0.0
    model: str = "loopback-1"
    reasoning: str = ""
    tool: str = ""  # name of a tool that is called with `text`, instead of a text


@dataclass(slots=True)
class Request:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    abandoned: bool = False  # the client closed the connection before the reply was complete


GARBAGE = Reply("garbage")
CUT = Reply("cut", text="half an answer")
HANG = Reply("hang")


def answer(text: str, *, delay_s: float = 0.0, reasoning: str = "") -> Reply:
    """A proper answer, streamed word by word where the request asks for a stream."""
    return Reply("answer", text=text, delay_s=delay_s, reasoning=reasoning)


def tool_call(name: str, arguments: str) -> Reply:
    """A call of a tool, as a model that must call one answers."""
    return Reply("answer", text=arguments, tool=name)


def status(code: int, text: str = "the server is not well") -> Reply:
    """An error of the provider."""
    return Reply("status", status=code, text=text)


Script = Reply | Callable[[dict[str, Any]], Reply]


@dataclass(eq=False, slots=True)
class LoopbackServer:
    """The running server. `script` may be replaced at any time."""

    script: list[Script]
    requests: list[Request] = field(default_factory=list)
    port: int = 0
    open_connections: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """Root address, as Ollama's client wants it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        """Address for OpenAI's and Mistral's clients."""
        return f"{self.url}/v1"

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until the client leaves or a reply breaks it."""
        self._tasks.add(asyncio.current_task())  # type: ignore[arg-type]  # always inside a task
        self.open_connections += 1
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                request.abandoned = True
                if not await _reply(self._next(request.body), request, reader, writer):
                    break
                request.abandoned = False
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # cancelled by `stop` alone; Python 3.11 reports a cancelled connection as an error
        finally:
            self.open_connections -= 1
            writer.close()

    async def stop(self) -> None:
        """Cut every connection."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _next(self, body: dict[str, Any]) -> Reply:
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return step if isinstance(step, Reply) else step(body)


@asynccontextmanager
async def openai_server(*script: Script) -> AsyncIterator[LoopbackServer]:
    """The server in the running loop."""
    server = LoopbackServer(list(script) or [answer("ok")])
    listener = await asyncio.start_server(server.connection, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.stop()


@contextmanager
def openai_server_thread(*script: Script) -> Iterator[LoopbackServer]:
    """The server in a thread, for tests that start processes or loops of their own."""
    started: list[LoopbackServer] = []
    ready, leave = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def run() -> None:
        async with openai_server(*script) as server:
            started.append(server)
            ready.set()
            await leave.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield started[0]
    finally:
        loop.call_soon_threadsafe(leave.set)
        thread.join(10)
        loop.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(first.split(" ")[1], headers, json.loads(body or b"{}"))


async def _reply(
    reply: Reply, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Send the reply; whether the connection can take another request."""
    delay_s = None if reply.kind == "hang" else reply.delay_s
    if delay_s != 0 and await _left(reader, delay_s):
        return False
    if reply.kind == "status":
        return await _send(writer, json.dumps({"error": {"message": reply.text}}), reply.status)
    if reply.kind == "garbage":
        return await _send(writer, "<html><body>It works!</body></html>", content_type="text/html")
    parts, content_type = _parts(reply, request)
    if reply.kind == "cut":
        whole = "".join(parts).encode()
        writer.write(_head(len(whole), 200, content_type) + whole[: len(whole) // 2])
        await writer.drain()
        return False
    return await _send(writer, "".join(parts), content_type=content_type)


async def _left(reader: asyncio.StreamReader, delay_s: float | None) -> bool:
    """Wait; True as soon as the client closes its side."""
    try:
        return not await asyncio.wait_for(reader.read(1), delay_s)
    except TimeoutError:
        return False


async def _send(
    writer: asyncio.StreamWriter, text: str, code: int = 200, content_type: str = "application/json"
) -> bool:
    body = text.encode()
    writer.write(_head(len(body), code, content_type) + body)
    await writer.drain()
    return True


def _head(length: int, code: int, content_type: str) -> bytes:
    return (f"HTTP/1.1 {code} X\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n").encode()


def _parts(reply: Reply, request: Request) -> tuple[list[str], str]:
    words = [word + " " for word in reply.text.split(" ")]
    words[-1] = words[-1].removesuffix(" ")
    if request.path.endswith("/api/chat"):
        return _ollama(reply, words), "application/x-ndjson"
    if request.body.get("stream"):
        return _openai_stream(reply, words), "text/event-stream"
    return [json.dumps(_openai_body(reply))], "application/json"


USAGE = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}


def _openai_body(reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": reply.text,
        "reasoning_content": reply.reasoning or None,
    }
    if reply.tool:
        call = {"id": "t1", "type": "function", "function": {"name": reply.tool, "arguments": reply.text}}
        message |= {"content": "", "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    head = {"id": "c1", "object": "chat.completion", "created": 0, "model": reply.model}
    return {**head, "choices": [choice], "usage": USAGE}


def _openai_stream(reply: Reply, words: list[str]) -> list[str]:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 0, "model": reply.model}
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": ""},
        *({"content": word} for word in words),
    ]
    chunks = [{**head, "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    last = {
        **head,
        "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}],
        "usage": USAGE,
    }
    return [f"data: {json.dumps(chunk)}\n\n" for chunk in [*chunks, last]] + ["data: [DONE]\n\n"]


def _ollama(reply: Reply, words: list[str]) -> list[str]:
    head = {"model": reply.model, "created_at": "2026-01-01T00:00:00Z"}
    lines = [{**head, "message": {"role": "assistant", "content": word}, "done": False} for word in words]
    counts = {"prompt_eval_count": 12, "eval_count": 3}
    end = {
        **head,
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
        **counts,
    }
    return [json.dumps(line) + "\n" for line in [*lines, end]]
