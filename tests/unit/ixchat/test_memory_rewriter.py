from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fakes import ScriptedModel
from hypothesis import given
from hypothesis import strategies as st

from ixchat.utils.memory_rewriter import (
    FAILED,
    MAX_QUERY_CHARS,
    WorkingMemory,
    memory_prompt,
    memory_resolver,
    parse_query,
    rewrite_with_memory,
)
from ixchat.utils.resolution import Message, Turn
from ixinfra.tracing_tree import RecordingTracer

TURN = Turn("Can I still do it for last year's?", (Message("user", "Hi"),), tenant_id="acme")
MEMORY = WorkingMemory("The visitor wants to correct a paid invoice.", {"module": "Velmora Billing"})
QUERY = "time limit to correct a paid invoice of last year in Velmora Billing"


def remembers(memory: WorkingMemory | Exception) -> Any:
    async def recall(turn: Turn) -> WorkingMemory:
        if isinstance(memory, Exception):
            raise memory
        return memory

    return recall


async def test_the_message_becomes_a_query_that_stands_alone() -> None:
    model = ScriptedModel(script=[f'"{QUERY}"\nIt depends on the plan.'])
    resolution = await memory_resolver(model, remembers(MEMORY), enabled=True)(TURN)

    assert (resolution.query, resolution.decision, resolution.fallback) == (QUERY, "resolve", None)
    assert resolution.retriever_kwargs == {}
    assert resolution.trace["kind"] == "QUERY_REWRITE"
    assert resolution.trace["model"] == "scripted-1"
    assert resolution.trace["usage"] == {"input": 12, "output": 3, "total": 15}


async def test_the_model_sees_the_memory_and_the_message() -> None:
    model = ScriptedModel()
    await rewrite_with_memory(TURN, model, MEMORY)
    system, human = (str(message.content) for message in model.asked[0])

    assert "Summary of the conversation:\nThe visitor wants to correct a paid invoice." in system
    assert "Facts:\n- module: Velmora Billing" in system
    assert human == TURN.query


@pytest.mark.parametrize(
    ("memory", "shown"),
    [
        (WorkingMemory("A summary."), "Facts:\n(nothing yet)"),
        (WorkingMemory(facts={"a": "b"}), "Summary of the conversation:\n(nothing yet)"),
        (WorkingMemory(" \n", {"a": "b"}), "Summary of the conversation:\n(nothing yet)"),
        (
            WorkingMemory("{facts} of {summary}", {"{x}": "one\ntwo"}),
            "{facts} of {summary}\n\nFacts:\n- {x}: one two",
        ),
    ],
)
def test_what_is_missing_reads_as_nothing_yet(memory: WorkingMemory, shown: str) -> None:
    assert shown in memory_prompt(memory)


def test_the_switch_has_no_default() -> None:
    with pytest.raises(TypeError, match="enabled"):
        memory_resolver(ScriptedModel(), remembers(MEMORY))  # type: ignore[call-arg]


async def test_switched_off_nothing_is_asked() -> None:
    model = ScriptedModel()
    resolution = await memory_resolver(model, remembers(OSError("recalled")), enabled=False)(TURN)

    assert (resolution.query, resolution.decision, resolution.fallback) == (TURN.query, "raw", "disabled")
    assert model.asked == []


@pytest.mark.parametrize("memory", [WorkingMemory(), WorkingMemory("  ", {})])
async def test_without_memory_the_model_is_not_asked(memory: WorkingMemory) -> None:
    model = ScriptedModel()
    resolution = await memory_resolver(model, remembers(memory), enabled=True)(TURN)

    assert (resolution.query, resolution.decision, resolution.fallback) == (TURN.query, "raw", "no_memory")
    assert model.asked == []


@pytest.mark.parametrize(
    ("answer", "fallback"),
    [
        pytest.param(RuntimeError("could not rewrite last year's"), "model_error", id="error"),
        pytest.param(TimeoutError(), "timeout", id="timeout"),
        pytest.param("", "empty", id="empty"),
        pytest.param(' \n""\n', "empty", id="empty quotes"),
        pytest.param("<think>It must be the invoice</think>", "empty", id="only thinking"),
        pytest.param("NONE", "none", id="none"),
        pytest.param("I'm sorry, I cannot help with that.", "scaffold", id="refusal"),
    ],
)
async def test_a_failure_searches_the_message_itself(
    answer: str | Exception, fallback: str, caplog: pytest.LogCaptureFixture
) -> None:
    resolution = await rewrite_with_memory(TURN, ScriptedModel(script=[answer]), MEMORY)

    assert (resolution.query, resolution.decision, resolution.fallback) == (TURN.query, "error", fallback)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert FAILED in caplog.text
    assert not any(word in caplog.text for word in ("last year", "invoice", "Billing"))


async def test_a_memory_that_cannot_be_read_searches_the_message_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    resolution = await memory_resolver(ScriptedModel(), remembers(OSError("invoice")), enabled=True)(TURN)

    assert (resolution.query, resolution.fallback) == (TURN.query, "resolver_error")
    assert f"{FAILED}: no query from working memory (OSError)" in caplog.text
    assert "invoice" not in caplog.text


async def test_a_message_that_is_clear_is_kept() -> None:
    resolution = await rewrite_with_memory(TURN, ScriptedModel(script=[TURN.query]), MEMORY)

    assert (resolution.query, resolution.decision, resolution.fallback) == (TURN.query, "keep", None)


async def test_cancellation_passes() -> None:
    resolver = memory_resolver(ScriptedModel(delay_s=60), remembers(MEMORY), enabled=True, timeout_s=60)
    task = asyncio.create_task(resolver(TURN))  # type: ignore[arg-type]
    await asyncio.sleep(0.01)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_usage_is_on_the_span_of_the_call() -> None:
    tracer = RecordingTracer()
    with tracer.turn(session_id="s", tenant_id="acme"):
        await rewrite_with_memory(TURN, ScriptedModel(script=[QUERY]), MEMORY)
    (span,) = tracer.turns[0].spans

    assert (span.name, span.kind) == ("query-rewrite", "generation")
    assert span.metadata["kind"] == "QUERY_REWRITE"
    assert span.usage == {"input": 12, "output": 3, "total": 15}


@pytest.mark.parametrize(
    ("answer", "query"),
    [
        pytest.param("\n\n  refund limit \nmore", "refund limit", id="first line that says something"),
        pytest.param("« délai de remboursement »", "délai de remboursement", id="quotes"),
        pytest.param("5 à 10 ans", "5 à 10 ans", id="a number is no list mark"),
        pytest.param("word " * 200, ("word " * 100).strip(), id="cut between words"),
        pytest.param("x" * 600, "x" * 500, id="one long word"),
        pytest.param("a" * 250 + " " + "b" * 249, "a" * 250 + " " + "b" * 249, id="exactly the limit"),
        pytest.param("a" * 250 + " " + "b" * 250, "a" * 250, id="one character too many"),
        pytest.param("", "", id="empty"),
    ],
)
def test_the_query_is_one_short_line(answer: str, query: str) -> None:
    assert parse_query(answer) == query


@given(st.text(st.characters()))
def test_any_answer_gives_one_line_within_the_limit(answer: str) -> None:
    query = parse_query(answer)

    query.encode()
    assert len(query) <= MAX_QUERY_CHARS
    assert len(query.splitlines()) <= 1


@given(st.text(st.characters()), st.dictionaries(st.text(st.characters()), st.text(st.characters())))
async def test_any_memory_and_message_are_welcome(text: str, facts: dict[str, str]) -> None:
    model = ScriptedModel(script=["a query"])
    resolution = await rewrite_with_memory(Turn(text), model, WorkingMemory(text, facts))

    assert resolution.query in (text, "a query")
