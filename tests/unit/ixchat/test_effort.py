"""The effort dial: what one request may spend."""

from __future__ import annotations

import pytest
from fakes import FakeRetriever, keeps, resolver_that

from ixchat.effort import with_effort
from ixchat.nodes.deps import Deps, Resolvers
from ixchat.nodes.knowledge_retriever import choose
from ixchat.state import ChatContext, chat_context
from ixchat.utils.resolution import Message, Turn

HISTORY = (Message("user", "Vos modules ?"), Message("assistant", "Nous proposons Badgeo."))
SHORT = Turn("Santé", HISTORY)
LONG = Turn("Quelles enseignes l'ont déjà installée ?", HISTORY)
MODEL, LOCAL = resolver_that(keeps), resolver_that(keeps)


def deps(*, enabled: bool = True) -> Deps:
    return Deps(
        FakeRetriever(),
        text_resolver=MODEL,
        keyword_resolver=MODEL,
        reference_resolver=MODEL,
        local=Resolvers(LOCAL, LOCAL, LOCAL),
        foresee=LOCAL,
        enabled=enabled,
    )


@pytest.mark.parametrize("turn", [SHORT, LONG], ids=["short", "long"])
@pytest.mark.parametrize("effort", ["off", "local", "check", "full", "nonsense"])
def test_no_effort_turns_a_switched_off_rewriter_on(effort: str, turn: Turn) -> None:
    assert choose(turn, with_effort(deps(enabled=False), effort)).path == "raw"


@pytest.mark.parametrize("turn", [SHORT, LONG], ids=["short", "long"])
def test_off_keeps_the_visitors_words(turn: Turn) -> None:
    assert choose(turn, with_effort(deps(), "off")).path == "raw"


@pytest.mark.parametrize("turn", [SHORT, LONG], ids=["short", "long"])
def test_local_asks_no_model(turn: Turn) -> None:
    plan = choose(turn, with_effort(deps(), "local"))
    assert plan.resolver is LOCAL
    assert plan.foresee is None


@pytest.mark.parametrize("effort", ["check", "nonsense"])
def test_check_and_unknown_words_change_nothing(effort: str) -> None:
    wiring = deps()
    assert with_effort(wiring, effort) == wiring


def test_full_searches_every_guess_ahead() -> None:
    wiring = with_effort(deps(), "full")
    plan = choose(LONG, wiring)
    assert (plan.resolver, plan.foresee) == (MODEL, LOCAL)
    assert all(wiring.ahead.take(wanted=True) for _ in range(wiring.ahead.max_running))


def test_a_time_budget_only_shortens_deadlines() -> None:
    assert choose(LONG, with_effort(deps(), "check", 0.3)).deadline_s == 0.3
    assert choose(LONG, with_effort(deps(), "check", 60.0)).deadline_s == deps().reference_deadline_s
    assert choose(SHORT, with_effort(deps(), "local", 0.2)).deadline_s == 0.2


class HostContext:
    """A parent graph's own context type."""

    tenant_id = "acme"
    effort = "local"
    budget_s = 1
    session_id = 42


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(None, ChatContext(), id="none"),
        pytest.param({"tenant_id": "acme", "other": 1}, ChatContext("acme"), id="a dict"),
        pytest.param(HostContext(), ChatContext("acme", effort="local", budget_s=1), id="a parent's object"),
        pytest.param("acme", ChatContext(), id="something else"),
    ],
)
def test_the_runs_context_is_read_by_name(given: object, expected: ChatContext) -> None:
    assert chat_context(given) == expected
