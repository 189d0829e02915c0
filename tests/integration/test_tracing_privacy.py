"""What may not leave the process, looked for in the bytes that left it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from io import StringIO
from typing import Any, get_args
from uuid import uuid4

import pytest
from otlp_server import OtlpServer, otlp_server

from ixinfra.config.settings import TracingConfig
from ixinfra.tracing import SpanKind, Tracer, build_tracer

EXPORTERS = [("langfuse",), ("otlp",), ("otlp", "langfuse"), ("console", "langfuse")]
MAIL, NAME, PHONE = "zoe.martin@example.com", "Zoé Martin", "+33 6 12 34 56 78"
MESSAGE = f"Je suis {NAME}, écrivez à {MAIL} ou {PHONE}"


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError(MESSAGE)

    __str__ = __repr__


@pytest.fixture
def server() -> Iterator[OtlpServer]:
    with otlp_server() as running:
        yield running


@pytest.fixture(params=EXPORTERS, ids="+".join)
def export(request: pytest.FixtureRequest, server: OtlpServer) -> Callable[..., str]:
    """Runs a turn through real exporters and gives everything they sent or printed as one text."""

    def run(work: Callable[[Tracer], None], *, mask: Any = None, visitor_text: bool = True) -> str:
        config = TracingConfig(
            exporter=request.param, otlp_endpoint=f"{server.url}/v1/traces", visitor_text=visitor_text
        )
        name = uuid4().hex
        keys = {
            "LANGFUSE_PUBLIC_KEY": f"pk-{name}",
            "LANGFUSE_SECRET_KEY": f"sk-canary-{name}",
            "LANGFUSE_BASE_URL": server.url,
        }
        with redirect_stderr(StringIO()) as console:
            tracer = build_tracer(config, mask=mask, environ=keys)
            with tracer.turn(session_id=f"session of {MAIL}", tenant_id="lite", user_id=MAIL):
                work(tracer)
            tracer.close(10)
        return server.text() + console.getvalue()

    return run


def turn_full_of_visitor_text(tracer: Tracer) -> None:
    """Visitor text everywhere a span can hold it, every kind of span, every way to end."""
    for kind in get_args(SpanKind):
        with tracer.span(f"span-{kind}", kind, input={"query": MESSAGE, "history": [MESSAGE]}) as span:
            span.update(
                output={
                    "decision": "keep",
                    "entity": NAME,
                    "resolved_query": MESSAGE,
                    MAIL: 1,
                    "fallback_reason": None,
                },
                metadata={"note": MESSAGE, "nested": {"deep": [MESSAGE]}, "object": Unprintable()},
                model=f"model of {MAIL}",
                model_parameters={"stop": MESSAGE},
            )
    for error in (ValueError(MESSAGE), type(f"Error_{MAIL}", (Exception,), {})(MESSAGE)):
        with pytest.raises(Exception, match=r"."), tracer.span("tool-query-reference", "tool"):
            raise error
    with tracer.span("handled", "tool") as span:
        span.fail(MESSAGE)
    with tracer.span("handled", "tool") as span:
        span.fail(ValueError(MESSAGE))


def redact(text: str) -> str:
    for secret in (MAIL, NAME, PHONE):
        text = text.replace(secret, "***")
    return text


def test_the_mask_reaches_every_text(export: Callable[..., str]) -> None:
    """g11: status messages, keys, ids and exceptions included."""
    sent = export(turn_full_of_visitor_text, mask=redact)
    assert "span-generation" in sent
    assert "Je suis ***, écrivez à *** ou ***" in sent
    assert [secret for secret in (MAIL, NAME, PHONE) if secret in sent] == []


def test_a_mask_that_raises_hides_the_text(export: Callable[..., str]) -> None:
    def broken(text: str) -> str:
        raise RuntimeError(text)

    sent = export(turn_full_of_visitor_text, mask=broken)
    assert "span-generation" in sent
    assert "[masking failed]" in sent
    assert [secret for secret in (MAIL, NAME, PHONE, "écrivez") if secret in sent] == []


def test_with_the_visitor_text_switch_off_only_lengths_and_decisions_leave(
    export: Callable[..., str],
) -> None:
    def work(tracer: Tracer) -> None:
        with tracer.span("tool-query-reference", "tool", input=MESSAGE) as span:
            span.update(
                output={
                    "decision": "keep",
                    "entity": NAME,
                    "resolved_query": MESSAGE,
                    "fallback_reason": None,
                },
                metadata={
                    "changed": False,
                    "model": "gpt-5.4-mini",
                    "model_note": MESSAGE,
                    "rejected": MESSAGE,
                },
            )
        with tracer.span(
            "query-reference", "generation", input=[{"role": "user", "content": MESSAGE}]
        ) as span:
            span.update(output=MESSAGE, model="gpt-5.4-mini")

    sent = export(work, visitor_text=False)
    assert re.search(r'"decision":\s?"keep"', sent)
    assert "gpt-5.4-mini" in sent
    assert f"[{len(MESSAGE)} characters]" in sent
    assert [secret for secret in (NAME, PHONE, "Je suis", "écrivez") if secret in sent] == []


def test_with_the_switch_on_the_text_is_there(export: Callable[..., str]) -> None:
    """Guards the three tests above: they would pass if nothing were sent at all."""
    sent = export(turn_full_of_visitor_text)
    assert MESSAGE in sent
    assert "Traceback" not in sent


def test_exception_texts_do_not_leave(export: Callable[..., str]) -> None:
    failure = ConnectionError("https://key:hunter2@models.example/v1?token=abc")
    failure.__cause__ = ValueError(MESSAGE)

    def work(tracer: Tracer) -> None:
        with pytest.raises(ConnectionError), tracer.span("tool-query-intent", "tool"):
            raise failure

    sent = export(work)
    assert "ConnectionError" in sent
    assert [secret for secret in (NAME, "hunter2", "token=abc", "Traceback") if secret in sent] == []


def test_no_canary_in_logs_or_spans(export: Callable[..., str], caplog: pytest.LogCaptureFixture) -> None:
    """g13: keys never show, at any level; visitor text never above DEBUG."""
    caplog.set_level(logging.DEBUG)
    sent = export(turn_full_of_visitor_text)
    lines = [(record.levelno, record.getMessage() + (record.exc_text or "")) for record in caplog.records]
    assert "sk-canary" not in sent
    assert [text for _, text in lines if "sk-canary" in text] == []
    loud = [text for level, text in lines if level >= logging.INFO]
    assert [text for text in loud if any(secret in text for secret in (MAIL, NAME, PHONE))] == []


def test_nothing_a_span_is_given_can_lose_the_batch(export: Callable[..., str]) -> None:
    """g16: nor raise."""

    def work(tracer: Tracer) -> None:
        recursive: dict[str, Any] = {}
        recursive["self"] = recursive
        values = [
            "\ud83d lone",
            "\x00",
            b"bytes",
            object(),
            Unprintable(),
            recursive,
            10**400,
            float("nan"),
            {1: {2: 3}},
            {MAIL},
        ]
        for number, value in enumerate(values):
            with tracer.span(
                f"value-{number}", "tool", input=value, metadata={"value": value, "\udc80": value}
            ) as span:
                span.update(output=[value], usage={"input": 10**30, "output": -1})
        with tracer.span("long", "retriever") as span:
            span.update(output={"chunks": [{"text": "x" * 100_000} for _ in range(500)]})

    sent = export(work)
    assert all(f"value-{number}" in sent for number in range(10))
    assert "[480 more]" in sent
    assert "more characters]" in sent
    assert len(sent) < 2_000_000
