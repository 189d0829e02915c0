from __future__ import annotations

import asyncio

import pytest
from fakes import run_in_virtual_time
from hypothesis import example, given
from hypothesis import strategies as st

from ixrag.query.cache import CacheKey, MemoryCache, NoopCache, RedisCache, cache_key


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class FakeRedis:
    """A client whose calls can fail, hang or answer with the wrong type."""

    def __init__(
        self, failure: Exception | None = None, *, hangs: bool = False, answer: object = None
    ) -> None:
        self.failure, self.hangs, self.answer = failure, hangs, answer
        self.calls = 0
        self.closed = False

    async def get(self, name: str) -> object:
        await self._called()
        return self.answer

    async def set(self, name: str, value: bytes, *, px: int) -> object:
        await self._called()
        return True

    async def aclose(self) -> None:
        self.closed = True

    async def _called(self) -> None:
        self.calls += 1
        if self.hangs:
            await asyncio.sleep(3600)
        if self.failure is not None:
            raise self.failure


def key(tenant_id: str = "acme", *parts: str | int) -> CacheKey:
    made = cache_key(tenant_id, "rewrites", *parts)
    assert made is not None
    return made


@pytest.mark.parametrize("tenant_id", ["", "  ", "\u2003"])
def test_without_a_tenant_there_is_no_key(tenant_id: str) -> None:
    assert cache_key(tenant_id, "rewrites", "q") is None
    with pytest.raises(ValueError, match="tenant"):
        CacheKey(tenant_id, "rewrites", "d")


@given(st.lists(st.text(st.characters()), max_size=3), st.lists(st.text(st.characters()), max_size=3))
def test_keys_are_equal_exactly_when_the_parts_are(left: list[str], right: list[str]) -> None:
    assert (key("acme", *left) == key("acme", *right)) is (left == right)
    str(key("acme", *left)).encode()


@given(st.text(st.characters(), min_size=1), st.text(st.characters(), min_size=1))
@example("\ud800", "\ud801")  # no encoder tells them apart
def test_no_two_tenants_share_a_key(left: str, right: str) -> None:
    made = [cache_key(tenant_id, "rewrites", "q") for tenant_id in (left, right)]

    if None not in made:
        assert (str(made[0]) == str(made[1])) is (left == right)


def test_a_key_names_its_tenant_and_hides_the_query() -> None:
    assert str(key("a:b", "export payroll")).startswith("ix:rewrites:a%3Ab:")
    assert "payroll" not in str(key("a:b", "export payroll"))


async def test_memory_forgets_after_the_time_to_live() -> None:
    clock = Clock()
    cache = MemoryCache(clock=clock)
    await cache.put(key(), b"v", ttl_s=10)

    clock.now_s = 9.9
    assert (await cache.get(key())).value == b"v"
    clock.now_s = 10.1
    assert (await cache.get(key())).found == "absent"


async def test_memory_keeps_what_was_used_last() -> None:
    cache = MemoryCache(2)
    for part in (1, 2):
        await cache.put(key("acme", part), b"v", ttl_s=10)
    await cache.get(key("acme", 1))
    await cache.put(key("acme", 3), b"v", ttl_s=10)

    assert [(await cache.get(key("acme", part))).found for part in (1, 2, 3)] == ["hit", "absent", "hit"]
    assert len(cache) == 2


STEPS = st.lists(
    st.tuples(st.sampled_from(["get", "put"]), st.integers(0, 4), st.sampled_from([0.5, 1.0, 2.0])),
    max_size=30,
)


@given(STEPS, st.integers(1, 3))
async def test_memory_never_gives_what_it_should_have_dropped(
    steps: list[tuple[str, int, float]], room: int
) -> None:
    """Against a list of everything that ever happened, read backwards."""
    clock = Clock()
    cache = MemoryCache(room, clock=clock)
    history: list[tuple[str, int, float]] = []  # what was used, and until when it lives
    for what, part, ttl_s in steps:
        clock.now_s += 0.25
        if what == "put":
            await cache.put(key("acme", part), str(clock.now_s).encode(), ttl_s=ttl_s)
            history.append(("put", part, clock.now_s + ttl_s))
            continue
        found = await cache.get(key("acme", part))
        last_put = next((until for kind, p, until in reversed(history) if kind == "put" and p == part), 0.0)
        assert found.value is None or clock.now_s < last_put
        if found.value is not None:
            history.append(("use", part, last_put))
        elif clock.now_s < last_put:  # it was pushed out: `room` others were used since
            since: set[int] = set()
            for _, other, _ in reversed(history):
                if other == part:
                    break
                since.add(other)
            assert len(since) >= room
    assert len(cache) <= room


def test_memory_needs_room_for_one() -> None:
    with pytest.raises(ValueError, match="max_entries"):
        MemoryCache(0)


async def test_noop_remembers_nothing() -> None:
    await NoopCache().put(key(), b"v", ttl_s=10)

    assert (await NoopCache().get(key())).found == "absent"


@pytest.mark.parametrize("failure", [ConnectionError("redis://:secret@host"), RuntimeError("odd"), OSError()])
async def test_an_outage_is_a_miss_with_a_reason(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    cache = RedisCache(FakeRedis(failure))

    found = await cache.get(key())
    await cache.put(key(), b"v", ttl_s=10)

    assert (found.value, found.found) == (None, "unavailable")
    assert type(failure).__name__ in caplog.text
    assert "secret" not in caplog.text


async def test_a_server_that_failed_is_left_alone_for_a_while() -> None:
    clock, client = Clock(), FakeRedis(ConnectionError())
    cache = RedisCache(client, rest_s=5, clock=clock)
    await cache.get(key())
    await cache.get(key())
    await cache.put(key(), b"v", ttl_s=10)
    assert client.calls == 1

    clock.now_s, client.failure = 5.1, None
    assert (await cache.get(key())).found == "absent"


def test_a_server_that_hangs_costs_the_timeout_once() -> None:
    async def look_up_twice() -> float:
        cache = RedisCache(FakeRedis(hangs=True), timeout_s=0.1)
        started = asyncio.get_running_loop().time()
        assert (await cache.get(key())).found == "unavailable"
        assert (await cache.get(key())).found == "unavailable"
        return asyncio.get_running_loop().time() - started

    assert run_in_virtual_time(look_up_twice()) == pytest.approx(0.1)


async def test_an_answer_that_is_no_bytes_is_corrupt() -> None:
    assert (await RedisCache(FakeRedis(answer="text")).get(key())).found == "corrupt"


async def test_cancellation_passes_a_cache() -> None:
    task = asyncio.create_task(RedisCache(FakeRedis(hangs=True), timeout_s=60).get(key()))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_closing_closes_the_client() -> None:
    client = FakeRedis()
    await RedisCache(client).close()

    assert client.closed
