"""Real-world timings and faults of one turn (`tests/cases/turns.jsonl`), with the real reference check.

Time is virtual. The cases on LightRAG's slots, cross-talk and caches are in `tests/integration`.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeRetriever, ScriptedModel, run_in_virtual_time

from ixchat.nodes.deps import Deps
from ixchat.nodes.knowledge_retriever import retrieve
from ixchat.nodes.record import Retrieval
from ixchat.utils.query_keywords import resolve_reference
from ixchat.utils.resolution import Message, Turn
from ixinfra.errors import RetrievalError

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "cases" / "turns.jsonl").read_text(encoding="utf-8").splitlines()
]
TURN = Turn(
    "Quelles enseignes l'ont déjà installée ?",
    (
        Message("user", "Quels modules proposez-vous ?"),
        Message("assistant", "Nous proposons Badgeo, un module de badgeuse, et un tableau de bord."),
    ),
    "Solvea",
    "solvea",
)


def engine(given: dict[str, Any]) -> FakeRetriever:
    early: Any = ["early"]
    if given.get("early") == "raises":
        early = RetrievalError("down", reason="unavailable")
    if given.get("early") == "finds nothing":
        early = []
    return FakeRetriever(
        early,
        ["second"],
        delay_s=given["search_s"],
        ignores_cancel_for_s=3.0 if given.get("early") == "ignores cancel" else 0.0,
        raises_in_cancel=given.get("early") == "raises in cancel",
    )


def wiring(given: dict[str, Any], retriever: FakeRetriever) -> Deps:
    answer: Any = ConnectionError("429") if given["answer"] == "raises" else given["answer"]
    model = ScriptedModel(script=[answer], delay_s=given["check_s"])

    async def redirect(_turn: Turn) -> str:
        await asyncio.sleep(given["redirect_at_s"])
        return "A colleague takes over."

    return Deps(
        retriever,
        reference_resolver=partial(resolve_reference, model=model, timeout_s=2.0),
        redirect=redirect if "redirect_at_s" in given else None,
        tenant_id="solvea",
    )


async def play(given: dict[str, Any], deps: Deps) -> tuple[Retrieval | None, list[Any]]:
    """The retrieval, None when the turn was cancelled; and what the loop had to report."""
    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
    task = asyncio.create_task(retrieve(TURN, deps))
    if "cancel_at_s" in given:
        await asyncio.sleep(given["cancel_at_s"])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return None, reported
    retrieval = await task
    await asyncio.sleep(4)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return retrieval, reported


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_turn_goes_as_the_case_says(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    retriever = engine(given)
    retrieval, reported = run_in_virtual_time(play(given, wiring(given, retriever)))
    assert reported == []
    if retrieval is None:
        assert (expected["raises"], len(retriever.calls)) == ("CancelledError", 1)
        return
    if given.get("redirect_at_s"):
        assert retrieval.redirect is not None
        assert retrieval.searches[0].fate == "cancelled"
        return
    names = {"early": "early search", "second": "second search"}
    assert retrieval.used is not None
    assert retrieval.used.step.name == names[expected["used"]]
    assert len(retriever.calls) == expected.get("searches", 2)
    assert retrieval.total_ms <= expected.get("latency_ms_max", 10_000)
    assert retrieval.resolution.decision == expected.get("decision", retrieval.resolution.decision)
    found = [document.page_content for document in retrieval.documents]
    assert found == ([] if expected.get("documents") == 0 else [expected["used"]])
    if expected.get("early_cancelled"):
        assert retrieval.searches[0].fate == "cancelled"
