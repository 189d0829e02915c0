"""The protocol, the recorded tree, and what tracing may never do to a turn."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ixinfra.config.settings import TracingConfig
from ixinfra.tracing import NO_TRACER, build_tracer, current_tracer
from ixinfra.tracing_tree import Config, RecordingTracer, Scope, SinkTracer, SpanRecord


def names(spans: list[SpanRecord]) -> list[Any]:
    return [(span.name, names(span.children)) for span in spans]


def test_a_turn_is_recorded_as_a_tree() -> None:
    tracer = RecordingTracer()
    with tracer.turn(session_id="s1", tenant_id="lite") as trace_id:
        with current_tracer().span("agent-knowledge-retriever", "agent", input={"query": "Santé"}) as agent:
            with current_tracer().span("tool-query-intent", "tool") as tool:
                with current_tracer().span("query-intent", "generation") as generation:
                    generation.update(model="m", usage={"input": 3, "output": 1}, output="Velmora Santé")
                tool.update(
                    output={"decision": "resolve", "fallback_reason": None}, metadata={"changed": True}
                )
            agent.update(output={"documents": 4})
        with tracer.span("answer-writer", "chain"):
            pass

    (turn,) = tracer.turns
    assert (turn.trace_id, turn.session_id, turn.tenant_id) == (trace_id, "s1", "lite")
    tree = [
        ("agent-knowledge-retriever", [("tool-query-intent", [("query-intent", [])])]),
        ("answer-writer", []),
    ]
    assert names(turn.spans) == tree
    tool = turn.spans[0].children[0]
    assert tool.output == {"decision": "resolve", "fallback_reason": None}
    assert tool.children[0].usage == {"input": 3, "output": 1}
    assert turn.spans[0].start_ms <= tool.start_ms <= (tool.end_ms or -1) <= (turn.spans[0].end_ms or -1)
    assert {span.session_id for span in (turn.spans[0], tool, tool.children[0])} == {"s1"}


def test_tasks_and_gather_nest_under_the_span_that_started_them() -> None:
    async def main() -> RecordingTracer:
        tracer = RecordingTracer()

        async def search(name: str) -> None:
            with tracer.span(name, "retriever"):
                await asyncio.sleep(0)

        with tracer.turn(), tracer.span("agent", "agent"):
            early = asyncio.create_task(search("early"))
            await asyncio.gather(search("a"), search("b"))
            await early
            await asyncio.to_thread(lambda: tracer.span("thread").__enter__())
        return tracer

    (turn,) = asyncio.run(main()).turns
    ((root, inside),) = names(turn.spans)
    assert root == "agent"
    assert sorted(name for name, _ in inside) == ["a", "b", "early", "thread"]


@pytest.mark.parametrize("cause", ["superseded", "redirected", "client_gone", "deadline"])
@pytest.mark.parametrize("how", ["said by the span", "said by the cancellation"])
async def test_a_cancelled_span_is_neither_an_error_nor_a_success(cause: Any, how: str) -> None:
    tracer = RecordingTracer()
    started = asyncio.Event()

    async def search() -> None:
        with tracer.span("search", "retriever") as span:
            started.set()
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                if how == "said by the span":
                    span.cancel(cause)
                raise

    with tracer.turn():
        task = asyncio.create_task(search())
        await started.wait()
        task.cancel(cause if how == "said by the cancellation" else None)
        with pytest.raises(asyncio.CancelledError):
            await task
    (span,) = tracer.turns[0].spans
    assert (span.status, span.cancel_cause, span.level) == ("cancelled", cause, "DEFAULT")
    assert span.metadata == {"cancelled": True, "cancel_cause": cause}
    assert span.end_ms is not None


async def test_a_cancellation_without_a_cause_means_that_the_client_is_gone() -> None:
    tracer = RecordingTracer()

    async def search() -> None:
        with tracer.span("search"):
            await asyncio.sleep(30)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(search(), 0.01)
    assert tracer.turns[0].spans[0].cancel_cause == "client_gone"


def test_an_exception_leaves_its_class_name_and_nothing_else() -> None:
    tracer = RecordingTracer()
    with pytest.raises(ValueError, match=r"a@example\.com"), tracer.span("tool"):
        raise ValueError("écrivez à a@example.com")
    with tracer.span("handled") as span:
        span.fail("the visitor said a@example.com")
    with tracer.span("reason") as span:
        span.fail("timeout")
    assert [turn.spans[0].error for turn in tracer.turns] == ["ValueError", "error", "timeout"]
    assert {turn.spans[0].level for turn in tracer.turns} == {"ERROR"}
    assert "example.com" not in repr(tracer.turns)


def test_spans_without_a_turn_share_the_trace_of_their_root() -> None:
    tracer = RecordingTracer()
    with tracer.span("root"), tracer.span("child"):
        pass
    (turn,) = tracer.turns
    (root,) = turn.spans
    assert root.trace_id == root.children[0].trace_id == turn.trace_id
    assert root.start_ms <= root.children[0].start_ms


def test_an_inner_turn_adds_to_the_outer_one() -> None:
    tracer = RecordingTracer()
    with (
        tracer.turn(session_id="s1") as outer,
        tracer.turn(tenant_id="lite") as inner,
        tracer.span("x") as span,
    ):
        assert inner == outer
        assert (span.session_id, span.tenant_id) == ("s1", "lite")  # type: ignore[attr-defined]  # a SpanRecord
    assert current_tracer() is NO_TRACER


def test_a_later_node_continues_the_trace() -> None:
    tracer = RecordingTracer()
    with tracer.turn() as first, tracer.span("agent-knowledge-retriever"):
        pass
    with tracer.turn(trace_id=first) as second, tracer.span("answer-writer"):
        pass
    assert first == second
    assert [span.name for span in tracer.turns[0].spans] == ["agent-knowledge-retriever", "answer-writer"]
    assert len(tracer.take()) == 1
    assert tracer.turns == []


@pytest.mark.parametrize("part", ["metadata", "configurable"])
def test_nodes_of_a_named_run_share_a_trace(part: str) -> None:
    tracer = RecordingTracer()
    ids = []
    for run in ("run-1", "run-1", "run-2"):
        with tracer.turn(config={part: {"run_id": run}}) as trace_id:
            ids.append(trace_id)
    assert ids[0] == ids[1] != ids[2]
    assert all(len(bytes.fromhex(trace_id)) == 16 for trace_id in ids)


class BrokenSink:
    """Fails at the step it is told to."""

    def __init__(self, step: str) -> None:
        self._step = step

    def _maybe(self, step: str) -> None:
        if step == self._step:
            raise RuntimeError("exporter is broken")

    def outer_trace_id(self, config: Config) -> str:
        self._maybe("outer_trace_id")
        return ""

    def enter(self, scope: Scope, config: Config) -> Any:
        self._maybe("enter")
        return lambda: self._maybe("undo")

    def start(self, span: SpanRecord, parent: Any) -> Any:
        self._maybe("start")
        return span

    def end(self, span: SpanRecord, handle: Any) -> None:
        self._maybe("end")

    def leave(self, handle: Any) -> None:
        self._maybe("leave")

    def close(self, timeout_s: float) -> None:
        self._maybe("close")


@pytest.mark.parametrize("step", ["outer_trace_id", "enter", "undo", "start", "end", "leave", "close"])
def test_a_sink_that_raises_neither_stops_nor_repeats_the_work(
    step: str, caplog: pytest.LogCaptureFixture
) -> None:
    """g05: the work is done once, its result stands, and nobody is told."""
    caplog.set_level("INFO")
    tracer = SinkTracer([BrokenSink(step)])
    runs = 0
    with tracer.turn(session_id="s"), tracer.span("a") as span:
        runs += 1
        span.update(output={"n": runs})
    tracer.close()
    assert runs == 1
    assert caplog.records == []


class BrokenRedactor:
    """Fails on every span."""

    def span(self, span: SpanRecord) -> SpanRecord:
        raise RuntimeError

    def text(self, text: str) -> str:
        return text


def test_a_span_that_cannot_be_redacted_is_exported_without_its_facts() -> None:
    exported: list[SpanRecord] = []

    class Sink(BrokenSink):
        def end(self, span: SpanRecord, handle: Any) -> None:
            exported.append(span)

    with SinkTracer([Sink("")], BrokenRedactor()).span("a", input="secret") as span:
        span.update(output="secret", metadata={"k": "secret"}, model="secret")
    assert exported[0].name == "a"
    assert "secret" not in repr(exported)


@pytest.mark.parametrize("step", ["start", "end", "leave"])
def test_a_sink_that_raises_does_not_hide_the_exception_of_the_work(step: str) -> None:
    tracer = SinkTracer([BrokenSink(step)])
    with pytest.raises(KeyError, match="mine"), tracer.turn(), tracer.span("a"):
        raise KeyError("mine")


async def test_a_generator_closed_from_another_task_leaves_no_trace_of_its_turn() -> None:
    tracer = RecordingTracer()

    async def stream() -> AsyncIterator[int]:
        with tracer.turn(session_id="s"), tracer.span("held across a yield"):
            yield 1

    held: list[AsyncIterator[int]] = []

    async def client() -> None:
        held.append(stream())
        await anext(held[0])

    await asyncio.create_task(client())
    await held[0].aclose()  # type: ignore[attr-defined]  # an async generator
    assert current_tracer() is NO_TRACER
    (span,) = tracer.turns[0].spans
    assert (span.status, span.end_ms is not None) == ("cancelled", True)


def test_no_tracer_takes_everything_and_keeps_nothing() -> None:
    with (
        NO_TRACER.turn(session_id="s", config={}) as trace_id,
        NO_TRACER.span("a", "tool", input="x") as span,
    ):
        span.update(output=1, metadata={"k": 1}, model="m", usage={"input": 1})
        span.fail(ValueError("x"))
        span.cancel("deadline")
        assert trace_id == ""
        assert current_tracer() is NO_TRACER
    NO_TRACER.close()


@pytest.mark.parametrize("exporter", [("none",), ("langfuse",)])
def test_without_keys_there_is_no_tracer_and_no_noise(
    exporter: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert build_tracer(TracingConfig(exporter=exporter), environ={}) is NO_TRACER
    assert caplog.records == []


def test_half_a_pair_of_keys_is_named(caplog: pytest.LogCaptureFixture) -> None:
    canary = "pk-lf-canary"
    assert (
        build_tracer(TracingConfig(exporter=("langfuse",)), environ={"LANGFUSE_PUBLIC_KEY": canary})
        is NO_TRACER
    )
    (record,) = caplog.records
    assert "LANGFUSE_SECRET_KEY" in record.getMessage()
    assert canary not in record.getMessage()


def test_without_keys_neither_the_sdk_nor_a_socket_is_touched() -> None:
    """g01, g02: no connection, no warning, no import that a turn would pay for."""
    script = """
import socket, sys
def refuse(*args, **kwargs): raise AssertionError("network")
socket.socket.connect = socket.create_connection = refuse
from ixinfra.config.settings import TracingConfig
from ixinfra.tracing import build_tracer
tracer = build_tracer(TracingConfig(exporter=("langfuse",)), environ={})
with tracer.turn(session_id="s", tenant_id="t"), tracer.span("a", "agent", input="x") as span:
    span.update(output="y")
tracer.close()
loaded = [name for name in sys.modules if name.split(".")[0] in ("langfuse", "opentelemetry")]
assert not loaded, loaded
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_case_is_tested_somewhere() -> None:
    """The docstring of the test that shows a case names it."""
    tests = Path(__file__).parents[2]
    cases = map(json.loads, (tests / "cases/tracing.jsonl").read_text(encoding="utf-8").splitlines())
    named = {
        case
        for path in tests.rglob("test_tracing*.py")
        for case in re.findall(r"\bg\d\d\b", path.read_text("utf-8"))
    }
    assert {case["id"] for case in cases} - named == set()
