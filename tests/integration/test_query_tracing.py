"""The span `query.understand`, as an OpenTelemetry backend and as Langfuse receive it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from fakes import ScriptedModel
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from otlp_server import OtlpServer, otlp_server

from ixinfra.config.settings import TracingConfig
from ixinfra.tracing import build_tracer
from ixinfra.tracing_tree import RecordingTracer
from ixrag.query import (
    HyDEGenerator,
    InMemoryGlossary,
    LLMQueryRewriter,
    QueryContext,
    QueryUnderstandingPipeline,
)

CTX = QueryContext("acme")
QUERY = "what is RAG used for?"
COUNTS = {
    "rag.tenant_id": "acme",
    "rag.query.length_chars": len(QUERY),
    "rag.query.rewrites_n": 2,
    "rag.query.sub_queries_n": 0,
    "rag.query.expansions_n": 1,
    "rag.query.hyde_docs_n": 1,
    "rag.query.hyde_vector_present": False,
    "rag.query.partial_failures_n": 0,
}


def pipeline(provider: TracerProvider | None = None, **others: Any) -> QueryUnderstandingPipeline:
    parts = {
        "rewriter": LLMQueryRewriter(ScriptedModel(script=["RAG purpose\nRAG use"])),
        "glossary": InMemoryGlossary({"rag": ["retrieval augmented generation"]}),
        "hyde": HyDEGenerator(ScriptedModel(script=["RAG answers questions."])),
    } | others
    return QueryUnderstandingPipeline(**parts, tracer_provider=provider)


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> Iterator[TracerProvider]:
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(exporter))
    yield made
    made.shutdown()


@pytest.fixture
def server() -> Iterator[OtlpServer]:
    with otlp_server() as running:
        yield running


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_host_without_a_tracer_of_ours_gets_every_attribute(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    await pipeline(provider).understand(CTX, QUERY)
    (span,) = exporter.get_finished_spans()
    found = attributes(span)

    assert span.name == "query.understand"
    assert found.pop("rag.query.elapsed_ms") > 0
    assert found == COUNTS


async def test_failures_are_counted_and_named_without_any_text(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    down = ScriptedModel(script=[RuntimeError(QUERY)])
    await pipeline(provider, hyde=HyDEGenerator(down), rewriter=LLMQueryRewriter(down)).understand(CTX, QUERY)
    (span,) = exporter.get_finished_spans()

    assert attributes(span)["rag.query.partial_failures_n"] == 2
    assert attributes(span)["rag.query.failed_components"] == "hyde,rewriter"
    assert span.events == ()
    assert "RAG" not in span.to_json()


async def test_a_cancelled_call_still_ends_its_span(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    slow = LLMQueryRewriter(ScriptedModel(delay_s=60), timeout_s=60)
    task = asyncio.create_task(pipeline(provider, rewriter=slow).understand(CTX, QUERY))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert [span.name for span in exporter.get_finished_spans()] == ["query.understand"]


async def test_the_turns_own_tree_holds_the_texts() -> None:
    tracer = RecordingTracer()
    with tracer.turn(session_id="s", tenant_id="acme"):
        await pipeline().understand(CTX, QUERY)
    (span,) = tracer.turns[0].spans

    assert (span.name, span.kind, span.input) == ("query.understand", "chain", {"query": QUERY})
    assert span.output["rewrites"] == ["RAG purpose", "RAG use"]
    assert COUNTS.items() <= span.metadata.items()
    assert sorted(child.name for child in span.children) == ["query-hyde", "query-rewrites"]


async def test_langfuse_receives_one_span_with_the_models_calls_below_it(server: OtlpServer) -> None:
    keys = {
        "LANGFUSE_PUBLIC_KEY": f"pk-{uuid4()}",
        "LANGFUSE_SECRET_KEY": "sk",
        "LANGFUSE_BASE_URL": server.url,
    }
    tracer = build_tracer(TracingConfig(exporter=("langfuse",)), environ=keys)
    with tracer.turn(session_id="s", tenant_id="acme"), tracer.span("agent-knowledge-retriever", "agent"):
        await pipeline().understand(CTX, QUERY)
    await asyncio.to_thread(tracer.close, 10)
    (roots,) = server.traces().values()
    (understand,) = [span for span in server.spans if span.name == "query.understand"]

    assert len(roots) == 1
    name, children = roots[0]
    assert name == "agent-knowledge-retriever"
    assert [child for child, _ in children] == ["query.understand"]
    assert sorted(child for child, _ in children[0][1]) == ["query-hyde", "query-rewrites"]
    assert COUNTS.items() <= understand.attributes.items()
    assert understand.langfuse("output")["expansion_terms"] == [
        {"term": "rag", "synonyms": ["retrieval augmented generation"]}
    ]


async def test_langfuse_without_visitor_text_receives_the_counts(server: OtlpServer) -> None:
    keys = {
        "LANGFUSE_PUBLIC_KEY": f"pk-{uuid4()}",
        "LANGFUSE_SECRET_KEY": "sk",
        "LANGFUSE_BASE_URL": server.url,
    }
    config = TracingConfig(exporter=("langfuse",), visitor_text=False)
    tracer = build_tracer(config, environ=keys)
    with tracer.turn(tenant_id="acme"):
        await pipeline().understand(CTX, QUERY)
    await asyncio.to_thread(tracer.close, 10)

    assert COUNTS.items() <= server.spans[0].attributes.items()
    sent = str([span.attributes for span in server.spans])
    assert not [text for text in ("RAG purpose", QUERY, "retrieval augmented", "'rag'") if text in sent]
