from __future__ import annotations

import pytest

from ixchat.serve import limits
from ixchat.serve.limits import TurnRate, read_api_key
from ixinfra.config.settings import ServeConfig
from ixinfra.errors import ConfigError, RefusedError


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def spend(rate: TurnRate, client: str = "10.0.0.1") -> int | None:
    """None when the turn may start, else the seconds to wait."""
    try:
        rate.spend(client)
    except RefusedError as refused:
        return refused.retry_after_s
    return None


def test_a_client_may_spend_its_minute_at_once_and_then_waits() -> None:
    clock = Clock()
    rate = TurnRate(6, clock)
    assert [spend(rate) for _ in range(6)] == [None] * 6
    assert spend(rate) == 10
    clock.now_s += 9.0
    assert spend(rate) == 1
    clock.now_s += 1.0
    assert spend(rate) is None
    assert spend(rate) == 10


def test_waiting_longer_saves_up_no_more_than_a_minute() -> None:
    clock = Clock()
    rate = TurnRate(3, clock)
    spend(rate)
    clock.now_s += 3600.0
    assert [spend(rate) for _ in range(4)] == [None, None, None, 20]


def test_one_client_never_spends_for_another() -> None:
    rate = TurnRate(1, Clock())
    assert spend(rate, "10.0.0.1") is None
    assert spend(rate, "10.0.0.2") is None
    assert spend(rate, "10.0.0.1") == 60


def test_zero_is_no_limit() -> None:
    rate = TurnRate(0, Clock())
    assert {spend(rate) for _ in range(500)} == {None}


def test_the_table_of_clients_is_bounded() -> None:
    rate = TurnRate(1, Clock())
    for number in range(limits.MAX_CLIENTS + 1):
        spend(rate, str(number))
    assert spend(rate, str(limits.MAX_CLIENTS)) == 60, "the latest client is remembered"
    assert spend(rate, "0") is None, "the first one is forgotten, and starts with a full budget"


def test_the_key_comes_from_the_variable_that_the_file_names() -> None:
    assert read_api_key(ServeConfig(), {}) is None
    assert read_api_key(ServeConfig(api_key_env="SHOP_KEY"), {"SHOP_KEY": " k3y\n"}) == b"k3y"
    with pytest.raises(ConfigError, match="'SHOP_KEY', which is not set"):
        read_api_key(ServeConfig(api_key_env="SHOP_KEY"), {"SHOP_KEY": " "})
