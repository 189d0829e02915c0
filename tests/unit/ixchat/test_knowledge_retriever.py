"""The retrieval node's policy and its work, in virtual time: every duration below is exact."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from fakes import FakeRetriever, keeps, resolver_that, resolves_to, run_in_virtual_time

from ixchat.nodes.ahead import AheadBudget
from ixchat.nodes.knowledge_retriever import Deps, OneTenant, choose, retrieve
from ixchat.nodes.record import Retrieval
from ixchat.utils.resolution import KeywordQuery, Message, Resolution, Turn
from ixinfra.config.settings import RagMode
from ixinfra.errors import RetrievalError, UnknownTenantError
from ixinfra.tracing_tree import RecordingTracer, SpanRecord

HISTORY = (
    Message("user", "Quels modules proposez-vous ?"),
    Message("assistant", "Nous proposons Badgeo, un module de badgeuse."),
)
FOLLOW_UP = Turn("Quelles enseignes l'ont déjà installée ?", HISTORY, "Solvea", "solvea")
SHORT = Turn("Santé", HISTORY, "Solvea", "solvea")
RESOLVED = f"{FOLLOW_UP.query} — Badgeo"


def deps(retriever: FakeRetriever | None = None, **changes: Any) -> Deps:
    return Deps(retriever or FakeRetriever(), **{"tenant_id": "solvea", "grace_s": 0.15, **changes})


def run(turn: Turn, wiring: Deps) -> tuple[Retrieval, list[str]]:
    """Retrieve in virtual time; returns the names of the tasks that are left when it returns."""

    async def main() -> tuple[Retrieval, list[str]]:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
        retrieval = await retrieve(turn, wiring)
        left = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        await asyncio.sleep(10)
        assert reported == [], "the loop had to report an exception nobody collected"
        return retrieval, left

    return run_in_virtual_time(main())


@pytest.mark.parametrize(
    ("turn", "mode", "enabled", "path", "meanwhile"),
    [
        pytest.param(FOLLOW_UP, "mix", False, "raw", False, id="switched off"),
        pytest.param(Turn("Santé"), "mix", True, "raw", False, id="first turn"),
        pytest.param(SHORT, "naive", True, "intent", False, id="short reply, chunks only"),
        pytest.param(SHORT, "mix", True, "keywords", False, id="short reply, graph"),
        pytest.param(SHORT, "global", True, "keywords", False, id="global has a graph"),
        pytest.param(SHORT, "local", True, "keywords", False, id="local has a graph"),
        pytest.param(FOLLOW_UP, "naive", True, "raw", False, id="follow-up, chunks only"),
        pytest.param(FOLLOW_UP, "mix", True, "reference", True, id="follow-up, graph"),
        pytest.param(Turn("Santé ?", HISTORY), "mix", True, "reference", True, id="short question, graph"),
        pytest.param(Turn("   ", HISTORY), "mix", True, "raw", False, id="blank"),
        pytest.param(Turn("contact@example.com", HISTORY), "mix", True, "raw", False, id="contact details"),
        pytest.param(Turn("https://example.com/a?b=c", HISTORY), "mix", True, "raw", False, id="a URL"),
    ],
)
def test_choose(turn: Turn, mode: RagMode, enabled: bool, path: str, meanwhile: bool) -> None:
    plan = choose(turn, deps(FakeRetriever(rag_mode=mode), enabled=enabled))
    assert (plan.path, plan.search_meanwhile) == (path, meanwhile)


@pytest.mark.parametrize(
    ("turn", "changes", "fallback"),
    [
        pytest.param(SHORT, {"enabled": False}, "disabled", id="off"),
        pytest.param(Turn("Santé"), {}, "first_turn", id="first turn"),
        pytest.param(Turn("", HISTORY), {}, "gate_declined", id="nothing to resolve"),
    ],
)
def test_raw_turns_say_why(turn: Turn, changes: dict[str, Any], fallback: str) -> None:
    never = resolver_that(AssertionError("a resolver ran"))
    retriever = FakeRetriever()
    wiring = deps(retriever, text_resolver=never, keyword_resolver=never, reference_resolver=never, **changes)
    retrieval, _ = run(turn, wiring)
    assert retrieval.resolution.fallback == fallback
    assert retriever.calls == [(turn.query, {})]


def spans_of(tracer: RecordingTracer) -> list[SpanRecord]:
    """Every span, parents before children."""

    def walk(span: SpanRecord) -> list[SpanRecord]:
        return [span, *(below for child in span.children for below in walk(child))]

    return [span for turn in tracer.turns for root in turn.spans for span in walk(root)]


def test_off_leaves_no_resolver_span() -> None:
    tracer = RecordingTracer()
    run(SHORT, deps(enabled=False, tracer=tracer))
    assert [span.name for span in spans_of(tracer)] == [
        "agent-knowledge-retriever",
        "tool-lightrag-retrieval",
    ]


def test_keep_uses_the_early_search_and_adds_no_time() -> None:
    retriever = FakeRetriever(["raw"], delay_s=1.0)
    retrieval, left = run(FOLLOW_UP, deps(retriever, reference_resolver=resolver_that(keeps, delay_s=0.15)))
    assert [d.page_content for d in retrieval.documents] == ["raw"]
    assert retriever.queries == [FOLLOW_UP.query]
    assert retrieval.total_ms == pytest.approx(1000)
    assert retrieval.saved_ms == pytest.approx(150)
    assert (retrieval.resolution.decision, retrieval.resolution.fallback, left) == ("keep", None, [])


def test_resolve_cancels_the_early_search_and_adds_only_the_check() -> None:
    retriever = FakeRetriever(["raw"], ["resolved"], delay_s=1.0)
    check = resolver_that(resolves_to("Badgeo"), delay_s=0.15)
    retrieval, left = run(FOLLOW_UP, deps(retriever, reference_resolver=check))
    assert [d.page_content for d in retrieval.documents] == ["resolved"]
    assert retriever.queries == [FOLLOW_UP.query, RESOLVED]
    assert retriever.cleaned_up == 1
    assert retrieval.total_ms == pytest.approx(1150)
    assert [(s.step.name, s.fate, s.cause) for s in retrieval.searches] == [
        ("early search", "cancelled", "superseded"),
        ("second search", "used", None),
    ]
    assert left == []


def test_the_early_search_is_cancelled_on_the_verdict_not_at_the_end() -> None:
    retriever = FakeRetriever(["raw"], ["resolved"], delay_s=1.0)
    tracer = RecordingTracer()
    check = resolver_that(resolves_to("Badgeo"), delay_s=0.15)
    retrieval, _ = run(FOLLOW_UP, deps(retriever, reference_resolver=check, tracer=tracer))
    early, second = retrieval.searches
    assert early.step.ended_ms == pytest.approx(150)
    assert second.step.started_ms == pytest.approx(150)
    cancelled = [span for span in spans_of(tracer) if span.cancel_cause == "superseded"]
    assert [span.name for span in cancelled] == ["tool-lightrag-retrieval"]
    assert cancelled[0].level != "ERROR"


def test_a_check_that_hangs_costs_its_deadline_at_most() -> None:
    retriever = FakeRetriever(["raw"], delay_s=0.6)
    retrieval, left = run(FOLLOW_UP, deps(retriever, reference_resolver=resolver_that(keeps, delay_s=3600)))
    assert [d.page_content for d in retrieval.documents] == ["raw"]
    assert retrieval.total_ms == pytest.approx(2000)
    assert (retrieval.resolution.decision, retrieval.resolution.fallback) == ("error", "timeout")
    assert len(retriever.calls) == 1
    assert left == []


def test_a_check_that_hangs_adds_nothing_to_a_slower_search() -> None:
    retriever = FakeRetriever(["raw"], delay_s=5.0)
    retrieval, _ = run(FOLLOW_UP, deps(retriever, reference_resolver=resolver_that(keeps, delay_s=3600)))
    assert retrieval.total_ms == pytest.approx(5000)


def test_a_check_that_ignores_its_cancellation_is_abandoned_and_its_late_answer_unused() -> None:
    check = resolver_that(resolves_to("Badgeo"), delay_s=3600, ignores_cancel_for_s=0.5)
    retriever = FakeRetriever(["raw"], delay_s=0.1)
    retrieval, left = run(FOLLOW_UP, deps(retriever, reference_resolver=check))
    assert retriever.queries == [FOLLOW_UP.query]
    assert retrieval.total_ms <= 2151
    assert retrieval.resolution.decision == "error"
    assert "abandoned_task" in retrieval.problems
    assert left == ["ix:check"]


@pytest.mark.parametrize("error", [ConnectionError("429"), TypeError("bad"), TimeoutError()])
def test_a_check_that_raises_uses_the_early_search(error: Exception) -> None:
    retriever = FakeRetriever(["raw"], delay_s=0.6)
    check = resolver_that(error, delay_s=0.05)
    retrieval, _ = run(FOLLOW_UP, deps(retriever, reference_resolver=check))
    assert [d.page_content for d in retrieval.documents] == ["raw"]
    assert retrieval.total_ms == pytest.approx(600)
    assert retrieval.resolution.fallback == "resolver_error"
    assert retrieval.problems == [f"check:{type(error).__name__}"]


def test_a_check_that_cancels_itself_does_not_cancel_the_turn() -> None:
    async def cancels_itself(turn: Turn) -> Resolution:
        raise asyncio.CancelledError

    retrieval, _ = run(FOLLOW_UP, deps(FakeRetriever(["raw"]), reference_resolver=cancels_itself))
    assert [d.page_content for d in retrieval.documents] == ["raw"]
    assert retrieval.resolution.fallback == "resolver_error"


def test_an_early_search_that_fails_does_not_spoil_a_resolved_turn() -> None:
    retriever = FakeRetriever(RetrievalError("down", reason="unavailable"), ["resolved"], delay_s=0.05)
    check = resolver_that(resolves_to("Badgeo"), delay_s=0.15)
    retrieval, _ = run(FOLLOW_UP, deps(retriever, reference_resolver=check))
    assert [d.page_content for d in retrieval.documents] == ["resolved"]
    assert [s.fate for s in retrieval.searches] == ["failed", "used"]


def test_a_failed_resolved_search_is_followed_by_the_visitors_own_words() -> None:
    retriever = FakeRetriever(["x"], RetrievalError("down", reason="unavailable"), ["raw"], delay_s=0.5)
    check = resolver_that(resolves_to("Badgeo"), delay_s=0.15)
    retrieval, _ = run(FOLLOW_UP, deps(retriever, reference_resolver=check))
    assert retriever.queries == [FOLLOW_UP.query, RESOLVED, FOLLOW_UP.query]
    assert [d.page_content for d in retrieval.documents] == ["raw"]
    assert retrieval.resolution.fallback == "search_failed"
    assert retrieval.record["changed"] is False


def test_a_failed_resolved_search_takes_an_early_search_that_had_finished() -> None:
    retriever = FakeRetriever(["raw"], RetrievalError("down", reason="unavailable"), delay_s=0.05)
    check = resolver_that(resolves_to("Badgeo"), delay_s=0.15)
    retrieval, _ = run(FOLLOW_UP, deps(retriever, reference_resolver=check))
    assert retriever.queries == [FOLLOW_UP.query, RESOLVED]
    assert [d.page_content for d in retrieval.documents] == ["raw"]


def test_a_search_that_fails_gives_no_documents_and_a_reason() -> None:
    retriever = FakeRetriever(RetrievalError("down", reason="unavailable"))
    retrieval, _ = run(FOLLOW_UP, deps(retriever, reference_resolver=resolver_that(keeps)))
    assert (list(retrieval.documents), retrieval.outcome) == ([], "failed")
    assert retrieval.problems == ["early search:unavailable"]


def test_nothing_found_is_an_answer_and_is_not_searched_again() -> None:
    retriever = FakeRetriever([])
    retrieval, _ = run(FOLLOW_UP, deps(retriever, reference_resolver=resolver_that(keeps)))
    assert (retrieval.outcome, len(retriever.calls)) == ("nothing_found", 1)


def test_a_loser_that_ignores_its_cancellation_is_not_waited_for() -> None:
    retriever = FakeRetriever(["late"], ["resolved"], delay_s=0.5, ignores_cancel_for_s=3.0)
    check = resolver_that(resolves_to("Badgeo"), delay_s=0.1)
    retrieval, left = run(FOLLOW_UP, deps(retriever, reference_resolver=check))
    assert [d.page_content for d in retrieval.documents] == ["resolved"]
    assert retrieval.searches[1].step.ended_ms == pytest.approx(600)
    assert retrieval.searches[0].fate == "abandoned"
    assert left == ["ix:early search"]


def test_a_loser_that_raises_while_it_is_cancelled_is_collected() -> None:
    retriever = FakeRetriever(["x"], ["resolved"], delay_s=0.5, raises_in_cancel=True)
    check = resolver_that(resolves_to("Badgeo"), delay_s=0.1)
    retrieval, left = run(FOLLOW_UP, deps(retriever, reference_resolver=check))
    assert [d.page_content for d in retrieval.documents] == ["resolved"]
    assert left == []


def test_short_reply_keywords_reach_the_retriever_in_both_lists() -> None:
    retriever = FakeRetriever()

    def keywords(turn: Turn) -> Resolution:
        return KeywordQuery(turn.query, "resolve", ll_keywords=("santé", "tarifs"), hl_keywords=("prix",))

    retrieval, _ = run(SHORT, deps(retriever, keyword_resolver=resolver_that(keywords)))
    assert retriever.calls == [("Santé", {"ll_keywords": ["santé", "tarifs"], "hl_keywords": ["prix"]})]
    assert retrieval.path == "keywords"


def test_the_short_reply_resolver_has_its_own_deadline() -> None:
    retriever = FakeRetriever(delay_s=0.1)
    slow = resolver_that(keeps, delay_s=3600)
    retrieval, _ = run(SHORT, deps(retriever, keyword_resolver=slow, short_reply_deadline_s=0.4))
    assert retrieval.total_ms == pytest.approx(500)
    assert retriever.calls == [("Santé", {})]


async def _redirect_after(turn: Turn, delay_s: float, reply: str | None) -> str | None:
    await asyncio.sleep(delay_s)
    return reply


def redirect(delay_s: float, reply: str | None) -> Callable[[Turn], Coroutine[Any, Any, str | None]]:
    return lambda turn: _redirect_after(turn, delay_s, reply)


def test_a_redirect_cancels_search_and_check_with_its_cause() -> None:
    retriever = FakeRetriever(delay_s=1.0)
    tracer = RecordingTracer()
    wiring = deps(
        retriever,
        reference_resolver=resolver_that(keeps, delay_s=1.0),
        redirect=redirect(0.1, "Our support desk takes over."),
        tracer=tracer,
    )
    retrieval, left = run(FOLLOW_UP, wiring)
    assert (retrieval.outcome, retrieval.redirect) == ("redirected", "Our support desk takes over.")
    assert list(retrieval.documents) == []
    assert {span.name: span.cancel_cause for span in spans_of(tracer)} == {
        "agent-knowledge-retriever": None,
        "tool-query-reference": "redirected",
        "tool-lightrag-retrieval": "redirected",
    }
    assert left == []


def test_a_redirect_branch_that_declines_changes_nothing() -> None:
    retriever = FakeRetriever(["raw"], delay_s=0.5)
    wiring = deps(retriever, reference_resolver=resolver_that(keeps), redirect=redirect(0.1, None))
    retrieval, _ = run(FOLLOW_UP, wiring)
    assert (retrieval.outcome, retrieval.total_ms) == ("found", pytest.approx(500))


def test_a_redirect_branch_that_hangs_is_waited_for_within_its_deadline() -> None:
    retriever = FakeRetriever(["raw"], delay_s=0.5)
    wiring = deps(
        retriever,
        reference_resolver=resolver_that(keeps),
        redirect=redirect(3600, "late"),
        redirect_deadline_s=0.25,
    )
    retrieval, left = run(FOLLOW_UP, wiring)
    assert (retrieval.outcome, retrieval.total_ms) == ("found", pytest.approx(750))
    assert retrieval.problems == ["redirect:timeout"]
    assert left == []


def test_a_redirect_branch_that_raises_does_not_end_the_turn() -> None:
    async def broken(turn: Turn) -> str | None:
        raise KeyError("rules")

    wiring = deps(FakeRetriever(["raw"]), reference_resolver=resolver_that(keeps), redirect=broken)
    retrieval, _ = run(FOLLOW_UP, wiring)
    assert (retrieval.outcome, retrieval.problems) == ("found", ["redirect:KeyError"])


@pytest.mark.parametrize("cancel_after_s", [0.0, 0.05, 0.1, 0.16, 0.5, 1.1])
@pytest.mark.parametrize("mode", ["naive", "mix"])
@pytest.mark.parametrize("turn", [SHORT, FOLLOW_UP], ids=["short", "follow-up"])
def test_a_cancelled_turn_leaves_nothing_running(turn: Turn, mode: RagMode, cancel_after_s: float) -> None:
    retriever = FakeRetriever(["raw"], ["resolved"], rag_mode=mode, delay_s=1.2, cleanup_s=0.02)
    check = resolver_that(resolves_to("Badgeo"), delay_s=0.15)
    tracer = RecordingTracer()
    wiring = deps(
        retriever, text_resolver=check, keyword_resolver=check, reference_resolver=check, tracer=tracer
    )

    async def main() -> None:
        task = asyncio.create_task(retrieve(turn, wiring))
        await asyncio.sleep(cancel_after_s)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert retriever.cleaned_up == retriever.cancelled

    run_in_virtual_time(main())
    causes = {span.cancel_cause for span in spans_of(tracer) if span.cancel_cause}
    assert causes <= {"client_gone", "superseded"}


def test_every_span_of_a_resolved_turn_hangs_under_the_node() -> None:
    tracer = RecordingTracer()
    retriever = FakeRetriever(["raw"], ["resolved"], delay_s=0.2)
    check = resolver_that(resolves_to("Badgeo"), delay_s=0.1)
    run(FOLLOW_UP, deps(retriever, reference_resolver=check, tracer=tracer))
    (turn,) = tracer.turns
    (root,) = turn.spans
    children = [span.name for span in root.children]
    assert sorted(children) == ["tool-lightrag-retrieval", "tool-lightrag-retrieval", "tool-query-reference"]
    check_span = next(span for span in spans_of(tracer) if span.name == "tool-query-reference")
    assert check_span.output["decision"] == "resolve"
    assert check_span.output["entity"] == "Badgeo"
    assert check_span.output["fallback_reason"] is None
    assert check_span.output["resolved_query"] == RESOLVED
    assert check_span.metadata["changed"] is True


def test_events_tell_the_turn_in_order() -> None:
    events: list[dict[str, Any]] = []
    retriever = FakeRetriever(["raw"], ["resolved"], delay_s=1.0)
    check = resolver_that(resolves_to("Badgeo"), delay_s=0.15)
    run_in_virtual_time(retrieve(FOLLOW_UP, deps(retriever, reference_resolver=check), emit=events.append))
    assert [event["event"] for event in events] == [
        "path",
        "search_started",
        "decision",
        "search_started",
        "search_cancelled",
        "documents",
    ]


def test_the_record_is_json_and_complete() -> None:
    import json

    retriever = FakeRetriever(["raw"], ["resolved"], delay_s=1.0)
    check = resolver_that(resolves_to("Badgeo"), delay_s=0.15)
    retrieval, _ = run(FOLLOW_UP, deps(retriever, reference_resolver=check))
    record = json.loads(json.dumps(retrieval.record))
    assert record["query"] == RESOLVED
    assert record["message"] == FOLLOW_UP.query
    assert record["check_ms"] == pytest.approx(150)
    assert [search["fate"] for search in record["searches"]] == ["cancelled", "used"]
    assert record["saved_ms"] == 0


async def test_a_single_tenant_graph_refuses_another_tenant() -> None:
    with pytest.raises(UnknownTenantError, match="other"):
        async with OneTenant(deps()).lend("other"):
            pass


def foresight(name: str, **changes: Any) -> dict[str, Any]:
    """A check that names Badgeo after 0.3 s, and a guess that is there at once."""
    return {
        "reference_resolver": resolver_that(resolves_to("Badgeo"), delay_s=0.3),
        "foresee": resolver_that(resolves_to(name)),
        "ahead": AheadBudget(max_share=1.0),
        **changes,
    }


def test_a_foreseen_name_is_there_when_the_verdict_comes() -> None:
    retriever = FakeRetriever(["raw"], ["resolved"], delay_s=1.0)
    retrieval, left = run(FOLLOW_UP, deps(retriever, **foresight("Badgeo")))
    assert [d.page_content for d in retrieval.documents] == ["resolved"]
    assert retriever.queries == [FOLLOW_UP.query, RESOLVED]
    assert retrieval.total_ms == pytest.approx(1000)
    assert [(s.step.name, s.fate) for s in retrieval.searches] == [
        ("early search", "cancelled"),
        ("ahead search", "used"),
    ]
    assert retrieval.record["saved_ms"] == pytest.approx(300)
    assert retrieval.record["wasted_ms"] == pytest.approx(300)
    assert left == []


def test_a_wrong_guess_is_cancelled_on_the_verdict() -> None:
    retriever = FakeRetriever(["raw"], ["guessed"], ["resolved"], delay_s=1.0)
    retrieval, left = run(FOLLOW_UP, deps(retriever, **foresight("Planeo")))
    assert [d.page_content for d in retrieval.documents] == ["resolved"]
    assert retrieval.total_ms == pytest.approx(1300)
    assert [s.fate for s in retrieval.searches] == ["cancelled", "cancelled", "used"]
    assert left == []


def test_a_guess_is_cancelled_when_the_check_keeps() -> None:
    retriever = FakeRetriever(["raw"], ["guessed"], delay_s=1.0)
    keep = resolver_that(keeps, delay_s=0.3)
    wiring = deps(retriever, **foresight("Badgeo", reference_resolver=keep))
    retrieval, _ = run(FOLLOW_UP, wiring)
    assert [d.page_content for d in retrieval.documents] == ["raw"]
    assert retrieval.total_ms == pytest.approx(1000)
    assert [s.fate for s in retrieval.searches] == ["used", "cancelled"]
    assert wiring.ahead.running == 0


def test_a_guess_that_raises_is_no_guess() -> None:
    retriever = FakeRetriever(["raw"], ["resolved"], delay_s=1.0)
    wiring = deps(retriever, **foresight("", foresee=resolver_that(KeyError("x"))))
    retrieval, _ = run(FOLLOW_UP, wiring)
    assert [d.page_content for d in retrieval.documents] == ["resolved"]
    assert retrieval.problems == ["foresee:KeyError"]


def test_searches_ahead_stay_within_their_share_of_turns_and_slots() -> None:
    budget = AheadBudget(max_share=0.2, max_running=2)
    taken = [budget.take(wanted=True) for _ in range(100)]
    assert sum(taken) == 2, "two run, and none is started beside them"
    for _ in range(2):
        budget.give_back()
    later = 0
    for _ in range(100):
        if budget.take(wanted=True):
            later += 1
            budget.give_back()
    assert 2 + later == 40, "a fifth of two hundred turns"
    assert not any(AheadBudget(max_share=0.0).take(wanted=True) for _ in range(10))


def test_fused_keeps_what_the_visitors_own_words_find() -> None:
    retriever = FakeRetriever(["raw", "both"], ["both", "resolved"], delay_s=1.0)
    check = resolver_that(resolves_to("Badgeo"), delay_s=0.15)
    retrieval, left = run(FOLLOW_UP, deps(retriever, reference_resolver=check, fused=True))
    assert [d.page_content for d in retrieval.documents] == ["both", "resolved"]
    assert [s.fate for s in retrieval.searches] == ["fused", "used"]
    assert retrieval.total_ms == pytest.approx(1150)
    assert left == []


def test_fused_short_replies_search_both_at_once() -> None:
    retriever = FakeRetriever(["a"], ["b"], rag_mode="naive", delay_s=1.0)
    text = resolver_that(lambda turn: Resolution("Solvea santé", "resolve"), delay_s=0.15)
    retrieval, _ = run(SHORT, deps(retriever, text_resolver=text, fused=True))
    assert sorted(retriever.queries) == ["Santé", "Solvea santé"]
    assert retrieval.total_ms == pytest.approx(1150)


def test_fused_survives_a_failed_search_of_the_own_words() -> None:
    retriever = FakeRetriever(RetrievalError("down", reason="unavailable"), ["resolved"], delay_s=0.5)
    check = resolver_that(resolves_to("Badgeo"), delay_s=0.15)
    retrieval, _ = run(FOLLOW_UP, deps(retriever, reference_resolver=check, fused=True))
    assert [d.page_content for d in retrieval.documents] == ["resolved"]
