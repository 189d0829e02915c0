"""`ix serve` over real sockets: uvicorn, Starlette, LangGraph; only engine and models are stand-ins."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
from fakes import FakeRetriever, keeps, resolver_that, resolves_to
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from ixchat.nodes.deps import Deps
from ixchat.serve import build_app
from ixchat.serve.server import Server
from ixchat.serve.spans import RecentSpans
from ixinfra.config.loader import get_config
from ixinfra.errors import KnowledgeBaseError, UnknownTenantError
from ixinfra.tracing import build_tracer

VISITOR = "Which retailers near Dupont Street already run it?"  # must never stand in a log
HISTORY = [
    {"role": "user", "content": "Which modules do you have?"},
    {"role": "assistant", "content": "We have Badgeo."},
]
TURN = {"tenant": "advanced", "message": VISITOR, "history": HISTORY}
KEY = "k3y-of-the-shop"


@dataclass(frozen=True)
class SomeTenants:
    """Lends what it was given, or raises it."""

    deps: Mapping[str, Deps | Exception]

    @asynccontextmanager
    async def lend(self, tenant_id: str) -> AsyncIterator[Deps]:
        lent = self.deps.get(tenant_id, UnknownTenantError(f"unknown tenant {tenant_id!r}"))
        if isinstance(lent, Exception):
            raise lent
        yield lent


def some_deps(retriever: FakeRetriever | None = None, **changes: Any) -> Deps:
    resolver = resolver_that(resolves_to("Badgeo"))
    wiring: dict[str, Any] = {"keyword_resolver": resolver, "reference_resolver": resolver}
    return Deps(retriever or FakeRetriever(), **{**wiring, **changes})


@asynccontextmanager
async def serving(
    advanced: Deps | Exception | None = None, lite: Deps | Exception | None = None, **settings: Any
) -> AsyncIterator[tuple[Server, httpx.AsyncClient]]:
    """A server on a free port, and a client of it."""
    config = get_config("test")
    config = config.model_copy(update={"serve": config.serve.model_copy(update=settings)})
    spans = RecentSpans()
    tracer = build_tracer(config.tracing, also=[spans])

    def traced(deps: Deps | Exception | None) -> Deps | Exception:
        deps = some_deps() if deps is None else deps
        return replace(deps, tracer=tracer) if isinstance(deps, Deps) else deps

    tenants = SomeTenants({"advanced": traced(advanced), "lite": traced(lite)})
    app = build_app(config, tenants, tracer=tracer, spans=spans, environ={"SHOP_KEY": KEY})
    server = Server(app, host="127.0.0.1", port=0)
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    async with httpx.AsyncClient(base_url=address, timeout=30) as client:
        try:
            yield server, client
        finally:
            server.should_exit = True
            await task


async def events(client: httpx.AsyncClient, turn: Mapping[str, Any], **headers: str) -> list[dict[str, Any]]:
    """All events of one turn."""
    async with client.stream("POST", "/turn", json=turn, headers=headers) as response:
        assert response.status_code == 200, (await response.aread()).decode()
        return [event async for event in events_of(response)]


async def events_of(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    name = ""
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield {"event": name, **json.loads(line.removeprefix("data: "))}


async def until(condition: Any) -> None:
    """Wait for something that happens soon, or fail."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in uvicorn or in a fake
            await asyncio.sleep(0.01)


async def test_a_turn_is_told_as_it_happens_and_ends_with_its_record() -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage("Two of them")]))
    retriever = FakeRetriever(["raw"], ["resolved"], delay_s=0.02)
    async with serving(some_deps(retriever, answer_model=model)) as (_, client):
        told = await events(client, {**TURN, "session": "visit-7"})
    names = [event["event"] for event in told]
    assert names[:3] == ["path", "search_started", "decision"]
    assert names[-1] == "final"
    assert "".join(event["text"] for event in told if event["event"] == "token") == "Two of them"
    final = told[-1]
    assert final["answer"] == "Two of them"
    assert final["record"]["query"] == f"{VISITOR} — Badgeo"
    assert final["documents"] == [{"kind": "chunk", "text": "resolved", "source": "resolved.md"}]
    assert [span["name"] for span in final["spans"]] == ["agent-knowledge-retriever", "answer-writer"]
    assert final["spans"][1]["started_ms"] >= final["spans"][0]["ended_ms"], "one clock for the whole turn"
    assert final["trace_id"]


async def test_the_rewriter_can_be_switched_off_for_a_turn_but_never_on() -> None:
    off = some_deps(enabled=False)
    async with serving(some_deps(), lite=off) as (_, client):
        compared = (await events(client, {**TURN, "rewriter": False}))[-1]["record"]
        configured = (await events(client, {**TURN, "tenant": "lite", "rewriter": True}))[-1]["record"]
    for record in (compared, configured):
        assert (record["path"], record["fallback"], record["query"]) == ("raw", "disabled", VISITOR)


async def test_the_page_is_told_spans_only_where_it_is_served() -> None:
    async with serving(playground=False) as (_, client):
        assert (await events(client, TURN))[-1]["spans"] == []
        assert (await client.get("/")).status_code == 404


# ---- a turn that nobody waits for any longer


async def test_a_client_that_goes_away_stops_its_turn(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    retriever = FakeRetriever(delay_s=60, cleanup_s=0.02)
    async with serving(some_deps(retriever, reference_resolver=resolver_that(keeps))) as (_, client):
        before = asyncio.all_tasks()
        async with client.stream("POST", "/turn", json=TURN) as response:
            async for event in events_of(response):
                if event["event"] == "decision":
                    break
            started = time.monotonic()
        await until(lambda: retriever.cleaned_up == 1)
        assert time.monotonic() - started < 10, "the search would have taken 60 s"
        await until(lambda: asyncio.all_tasks() - before == set())
    assert "turn stopped: client_gone" in caplog.text


async def test_a_client_that_goes_away_stops_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    closed = asyncio.Event()

    class SlowModel(GenericFakeChatModel):
        async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            try:
                for chunk in self._stream(*args, **kwargs):
                    yield chunk
                    await asyncio.sleep(0.01)
                await asyncio.sleep(60)
            finally:
                closed.set()

    model = SlowModel(messages=iter([AIMessage("Two of them")]))
    async with serving(some_deps(answer_model=model)) as (_, client):
        async with client.stream("POST", "/turn", json=TURN) as response:
            async for event in events_of(response):
                if event["event"] == "token":
                    break
        async with asyncio.timeout(10):
            await closed.wait()
    assert "turn stopped: client_gone" in caplog.text


async def test_a_client_that_goes_away_while_it_sends_harms_nobody() -> None:
    async with serving() as (server, client):
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        writer.write(
            b"POST /turn HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"
        )
        await writer.drain()
        writer.close()
        assert await reader.read() == b""
        await until(lambda: not server.server_state.tasks)
        assert (await events(client, TURN))[-1]["event"] == "final"


async def test_a_second_message_on_a_thread_stops_the_first() -> None:
    retriever = FakeRetriever(delay_s=0.05)
    first_search = FakeRetriever(delay_s=60)

    class FirstHangs(FakeRetriever):
        async def ainvoke(self, input: str, **kwargs: Any) -> Any:
            engine = retriever if first_search.calls else first_search
            return await engine.ainvoke(input, **kwargs)

    async with serving(some_deps(FirstHangs())) as (_, client):
        thread = {"tenant": "advanced", "thread": "visit-0001"}
        first = asyncio.create_task(events(client, {**thread, "message": "Do you have Badgeo?"}))
        await until(lambda: first_search.calls)
        second = await events(client, {**thread, "message": "Which retailers already run it today?"})
        assert (await first)[-1] == {"event": "error", "reason": "superseded"}
        assert first_search.cancelled == 1
        assert second[-1]["record"]["path"] == "reference", "the first message belongs to the conversation"


async def test_threads_are_kept_and_never_shared_between_tenants() -> None:
    async with serving() as (_, client):
        say = {"thread": "visit-0001", "message": "Which modules do you have today?"}
        paths = [
            (await events(client, {**say, "tenant": tenant}))[-1]["record"]["fallback"]
            for tenant in ("advanced", "lite", "advanced")
        ]
    assert paths == ["first_turn", "first_turn", None]


# ---- limits


@pytest.mark.parametrize(
    ("request_", "status", "reason"),
    [
        pytest.param({"content": b"x" * 2000}, 413, "too_large", id="too large"),
        pytest.param({"content": b"{"}, 400, "not_json", id="not JSON"),
        pytest.param(
            {"content": b"{}", "headers": {"content-type": "text/plain"}}, 415, "not_json", id="form"
        ),
        pytest.param({"json": {**TURN, "tenant": "nobody"}}, 404, "unknown_tenant", id="unknown tenant"),
        pytest.param({"json": {**TURN, "model": "x"}}, 400, "not_a_turn", id="unknown key"),
    ],
)
async def test_what_cannot_be_served_is_refused_with_a_reason(
    request_: dict[str, Any], status: int, reason: str
) -> None:
    async with serving(max_request_bytes=1024) as (_, client):
        request_ = {"headers": {"content-type": "application/json"}, **request_}
        answer = await client.post("/turn", **request_)
        assert (answer.status_code, answer.json()["reason"]) == (status, reason)
        assert (await client.get("/turn")).status_code == 405
        assert (await client.get("/nothing")).json()["reason"] == "no_such_route"


async def test_without_the_key_nothing_is_answered_but_health() -> None:
    async with serving(api_key_env="SHOP_KEY") as (_, client):
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {KEY}"}):
            refused = await client.post("/turn", json=TURN, headers=headers)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            assert (await client.get("/tenants", headers=headers)).status_code == 401
        assert (await client.get("/healthz")).status_code == 200
        assert (await events(client, TURN, authorization=f"Bearer {KEY}"))[-1]["event"] == "final"


async def test_a_client_that_asks_too_often_is_told_when_to_come_back() -> None:
    async with serving(turns_per_minute=2) as (_, client):
        for _ in range(2):
            await events(client, TURN)
        refused = await client.post("/turn", json=TURN)
    assert (refused.status_code, refused.json()["reason"]) == (429, "too_many_turns")
    assert 1 <= int(refused.headers["retry-after"]) <= 30


async def test_a_full_server_says_so_and_is_free_again_afterwards() -> None:
    retriever = FakeRetriever(delay_s=60)
    async with serving(some_deps(retriever), max_turns=1) as (server, client):
        async with client.stream("POST", "/turn", json=TURN):
            await until(lambda: retriever.calls)
            refused = await client.post("/turn", json={**TURN, "tenant": "lite"})
            assert (refused.status_code, refused.json()["reason"]) == (503, "busy")
            assert refused.headers["retry-after"] == "1"
        await until(lambda: not server.server_state.tasks)
        assert (await events(client, {**TURN, "tenant": "lite"}))[-1]["event"] == "final"


# ---- operation


async def test_ready_is_said_once_the_tenants_have_been_opened() -> None:
    broken = KnowledgeBaseError("no index in /srv/shop")
    async with serving(lite=broken) as (_, client):
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        await until_ready(client)
        ready = (await client.get("/readyz")).json()
        assert ready == {"status": "ready", "tenants": {"lite": "failed", "advanced": "open"}}
        assert (await events(client, {**TURN, "tenant": "lite"}))[-1] == {
            "event": "error",
            "reason": "unavailable",
        }


async def until_ready(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(20):
        while (await client.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - as a probe does
            await asyncio.sleep(0.01)


async def test_a_server_without_a_tenant_that_opens_is_not_ready() -> None:
    broken = KnowledgeBaseError("no index in /srv/shop")
    async with serving(broken, lite=broken) as (_, client):
        await asyncio.sleep(0.05)
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (503, "failed")


async def test_a_stopping_server_tells_its_clients_and_does_not_wait_for_them() -> None:
    retriever = FakeRetriever(delay_s=60, cleanup_s=0.02)
    async with serving(some_deps(retriever)) as (server, client):
        asking = asyncio.create_task(events(client, TURN))
        await until(lambda: retriever.calls)
        started = time.monotonic()
        server.should_exit = True
        assert (await asking)[-1] == {"event": "error", "reason": "stopping"}
    assert time.monotonic() - started < 15, "about 0.6 s on a quiet machine"
    assert retriever.cleaned_up == retriever.cancelled >= 1


@pytest.mark.parametrize(
    "advanced",
    [
        pytest.param(some_deps(FakeRetriever(ValueError(VISITOR))), id="the engine repeats the visitor"),
        pytest.param(ValueError(VISITOR), id="so does opening the tenant"),
        pytest.param(some_deps(), id="a good turn"),
    ],
)
async def test_no_log_holds_a_visitors_words_or_the_key(
    advanced: Deps | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serving(advanced, api_key_env="SHOP_KEY") as (_, client):
        await until_ready(client)
        await events(client, TURN, authorization=f"Bearer {KEY}")
        await client.get(f"/{VISITOR}")
        await client.post("/turn", content=VISITOR, headers={"content-type": "application/json"})
    records = [record for record in caplog.records if record.name.startswith(("ix", "uvicorn"))]
    assert [record for record in records if record.name.startswith("ixchat.serve")], (
        "nothing was logged at all"
    )
    told = "\n".join(
        f"{record.getMessage()} {record.exc_text or record.exc_info or ''}" for record in records
    )
    assert "Dupont" not in told
    assert KEY not in told


async def test_pages_cannot_be_framed_or_load_anything_from_elsewhere() -> None:
    async with serving() as (_, client):
        page = await client.get("/")
        policy = page.headers["content-security-policy"]
        assert page.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        for path in ("/playground.js", "/playground.css"):
            assert (await client.get(path)).status_code == 200
            assert "http" not in (await client.get(path)).text.replace("http://www.w3.org/2000/svg", "")
