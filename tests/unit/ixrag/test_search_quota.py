"""What a tenant may ask of models in a minute, also while many searches run at once."""

from __future__ import annotations

import pytest
from fakes import ScriptedModel

from ixchat.utils.anaphora import resolve_anaphora
from ixchat.utils.history import turn_from
from ixchat.utils.rationed import rationed
from ixchat.utils.resolution import Resolution, Turn
from ixinfra.spending import Spending
from ixrag.search.quota import Quota

SAID = [("user", "Do you have a tool for stock?"), ("assistant", "Yes, Stokarel counts stock.")]


def quota(now: list[float], **limits: int) -> Quota:
    return Quota(**limits, clock=lambda: now[0])


def test_what_was_reserved_is_replaced_by_what_was_used() -> None:
    now = [0.0]
    limited = quota(now, calls=2, tokens=100)
    assert limited.take("a", 10)
    limited.settle("a", 10, Spending(0, 0))  # the answer was remembered
    assert limited.take("a", 10)
    limited.settle("a", 10, Spending(1, 95))
    assert not limited.take("a", 10)
    assert limited.take("a", 5)
    assert not limited.take("a", 0)  # two calls
    now[0] = 60.0
    assert limited.take("a", 100)


def test_searches_at_once_cannot_all_slip_through() -> None:
    limited = quota([0.0], calls=3)
    assert [limited.take("a", 1) for _ in range(5)] == [True] * 3 + [False] * 2


@pytest.mark.parametrize("limits", [{"calls": 0}, {"tokens": 0}])
def test_nought_is_none_at_all(limits: dict[str, int]) -> None:
    assert not quota([0.0], **limits).take("a", 1)


async def test_a_follow_up_beyond_the_quota_is_searched_as_it_is_and_says_why() -> None:
    model = ScriptedModel(script=["How much is Stokarel?"])

    async def resolve(turn: Turn) -> Resolution:
        return await resolve_anaphora(turn, model)

    limited = rationed(resolve, Quota(calls=1))
    turn = turn_from("How much is it?", SAID, tenant_id="acme")
    first, second = await limited(turn), await limited(turn)
    other = await limited(turn_from("How much is it?", SAID, tenant_id="other"))
    assert (first.query, first.fallback) == ("How much is Stokarel?", None)
    assert (second.query, second.decision, second.fallback) == ("How much is it?", "error", "quota")
    assert other.fallback is None
    assert len(model.asked) == 2


async def test_a_resolver_that_raises_has_used_what_it_asked() -> None:
    async def resolve(turn: Turn) -> Resolution:
        raise RuntimeError("bug")

    limited = rationed(resolve, Quota(calls=1))
    for _ in range(3):  # no model was asked, so nothing was used up
        with pytest.raises(RuntimeError):
            await limited(turn_from("How much is it?", SAID, tenant_id="acme"))
