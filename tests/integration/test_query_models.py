"""The parts that ask a model, over real HTTP, with a server that behaves well and badly."""

from __future__ import annotations

import asyncio
import time

import pytest
from openai_server import (
    CUT,
    GARBAGE,
    HANG,
    LoopbackServer,
    Reply,
    answer,
    openai_server,
    status,
)

from ixchat.utils.memory_rewriter import WorkingMemory, rewrite_with_memory
from ixchat.utils.resolution import Turn
from ixinfra.config.settings import ModelRoute
from ixinfra.errors import ModelError
from ixinfra.llm import build_chat_model
from ixrag.query import (
    HyDEGenerator,
    InMemoryGlossary,
    LLMQueryDecomposer,
    LLMQueryRewriter,
    MemoryCache,
    QueryContext,
    QueryUnderstandingPipeline,
    UnderstoodQuery,
)

pytest.importorskip("langchain_openai", reason="the openai extra is not installed")

CTX = QueryContext("acme")
QUERY = "What does payroll cost and how do I export it?"
BAD = [
    pytest.param(HANG, id="hang"),
    pytest.param(status(429), id="429"),
    pytest.param(status(500), id="500"),
    pytest.param(CUT, id="cut"),
    pytest.param(GARBAGE, id="garbage"),
]


def by_prompt(body: dict[str, object]) -> Reply:
    """What a good model answers to each of the three prompts."""
    prompt = str(body["messages"])
    if "search queries" in prompt:
        return answer("1. payroll price\n2. pay slip export")
    if "several things" in prompt:
        return answer("What does payroll cost?\nHow is payroll exported?")
    return answer("Payroll costs 4 euros a head.")


def pipeline(server: LoopbackServer, *, timeout_s: float = 5.0) -> QueryUnderstandingPipeline:
    route = ModelRoute(model="openai:any", base_url=server.openai_url, timeout_s=timeout_s, max_tokens=200)
    model = build_chat_model(route)
    return QueryUnderstandingPipeline(
        rewriter=LLMQueryRewriter(model, cache=MemoryCache()),
        decomposer=LLMQueryDecomposer(model),
        glossary=InMemoryGlossary({"payroll": ["wages"]}),
        hyde=HyDEGenerator(model),
        timeout_s=10.0,
    )


async def test_a_good_server_is_understood() -> None:
    async with openai_server(by_prompt) as server:
        understood = await pipeline(server).understand(CTX, QUERY)

        assert understood.rewrites == ["payroll price", "pay slip export"]
        assert understood.sub_queries == ["What does payroll cost?", "How is payroll exported?"]
        assert understood.hyde_documents == ["Payroll costs 4 euros a head."]
        assert len(server.requests) == 3


@pytest.mark.parametrize("reply", BAD)
async def test_a_bad_server_costs_the_models_fields_alone(reply: Reply) -> None:
    async with openai_server(reply) as server:
        started = time.perf_counter()
        understood = await pipeline(server, timeout_s=0.5).understand(CTX, QUERY)

        assert understood.metadata["partial_failures"] == ["decomposer", "hyde", "rewriter"]
        assert understood.expansion_terms == {"payroll": ["wages"]}
        assert understood.keyword_queries == [QUERY]
        assert time.perf_counter() - started < 10


async def test_the_pipelines_deadline_beats_a_longer_one_of_the_model() -> None:
    async with openai_server(HANG) as server:
        route = ModelRoute(model="openai:any", base_url=server.openai_url, timeout_s=60)
        slow = QueryUnderstandingPipeline(rewriter=LLMQueryRewriter(build_chat_model(route)), timeout_s=0.3)
        understood = await slow.understand(CTX, QUERY)

        assert understood.metadata["partial_failures"] == ["rewriter"]
        assert understood.metadata["elapsed_ms"] < 5_000
        await _eventually(lambda: server.open_connections == 0)


async def test_after_an_outage_the_next_answer_counts() -> None:
    async with openai_server(status(429), answer("pay slips")) as server:
        route = ModelRoute(model="openai:any", base_url=server.openai_url, timeout_s=5)
        wired = QueryUnderstandingPipeline(
            rewriter=LLMQueryRewriter(build_chat_model(route), cache=MemoryCache())
        )
        found: list[UnderstoodQuery] = [await wired.understand(CTX, QUERY) for _ in range(3)]

        assert [understood.rewrites for understood in found] == [[], ["pay slips"], ["pay slips"]]
        assert [understood.metadata["cache"] for understood in found] == [
            {"rewrites": "absent"},
            {"rewrites": "absent"},
            {"rewrites": "hit"},
        ]
        assert len(server.requests) == 2


QUERIES = '{"queries": ["pay slips", "wage file"]}'


async def test_a_server_that_refuses_the_schema_is_asked_without_it_from_then_on() -> None:
    async with openai_server(status(400), answer("1. pay slips\n2. wage file")) as server:
        route = ModelRoute(model="openai:any", base_url=server.openai_url, timeout_s=5)
        rewriter = LLMQueryRewriter(build_chat_model(route))
        found = [await rewriter.rewrite(CTX, query) for query in ("export payroll", "payroll exports")]

        assert found == [["pay slips", "wage file"]] * 2
        assert ["response_format" in request.body for request in server.requests] == [True, False, False]


async def test_a_server_in_trouble_is_not_taken_for_one_without_schemas() -> None:
    async with openai_server(status(429), answer(QUERIES)) as server:
        route = ModelRoute(model="openai:any", base_url=server.openai_url, timeout_s=5)
        rewriter = LLMQueryRewriter(build_chat_model(route))
        with pytest.raises(ModelError):
            await rewriter.rewrite(CTX, "export payroll")
        await rewriter.rewrite(CTX, "export payroll")

        assert ["response_format" in request.body for request in server.requests] == [True, True]


async def test_memory_is_rewritten_over_http_and_usage_comes_back() -> None:
    async with openai_server(answer('"refund limit of paid invoices"')) as server:
        route = ModelRoute(model="openai:any", base_url=server.openai_url, timeout_s=5, max_tokens=1000)
        resolution = await rewrite_with_memory(
            Turn("Can I still do it?"), build_chat_model(route), WorkingMemory("Wants a refund.")
        )

        assert (resolution.query, resolution.decision) == ("refund limit of paid invoices", "resolve")
        assert resolution.trace["usage"] == {"input": 12, "output": 3, "total": 15}
        body = server.requests[0].body
        assert body.get("max_tokens", body.get("max_completion_tokens")) == 1000


@pytest.mark.parametrize("reply", BAD)
async def test_memory_without_a_model_searches_the_message(reply: Reply) -> None:
    async with openai_server(reply) as server:
        route = ModelRoute(model="openai:any", base_url=server.openai_url, timeout_s=0.5)
        resolution = await rewrite_with_memory(
            Turn("Can I still do it?"), build_chat_model(route), WorkingMemory("Wants a refund.")
        )

        assert (resolution.query, resolution.decision) == ("Can I still do it?", "error")
        assert resolution.fallback in ("timeout", "model_error")


async def _eventually(holds: object, within_s: float = 5.0) -> None:
    assert callable(holds)
    ends = time.perf_counter() + within_s
    while not holds():
        assert time.perf_counter() < ends
        await asyncio.sleep(0.01)
