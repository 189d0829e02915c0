"""Lending tenants: opened once, kept while used, closed when idle and too many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from fakes import FakeRetriever, run_in_virtual_time

from ixchat.nodes.knowledge_retriever import Deps
from ixchat.tenants import OpenTenant, TenantRegistry
from ixinfra.errors import KnowledgeBaseError


class Opener:
    """Opens tenants in 0.1 s and keeps count."""

    def __init__(self, *, failures: int = 0) -> None:
        self.failures = failures
        self.opened: list[str] = []
        self.closed: list[str] = []

    async def __call__(self, tenant_id: str) -> OpenTenant:
        self.opened.append(tenant_id)
        await asyncio.sleep(0.1)
        if self.failures:
            self.failures -= 1
            raise KnowledgeBaseError("no index")

        async def close() -> None:
            await asyncio.sleep(0.1)
            self.closed.append(tenant_id)

        return OpenTenant(Deps(FakeRetriever(), tenant_id=tenant_id), close)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_in_virtual_time(main())


def test_a_tenant_is_opened_once_for_turns_that_come_together() -> None:
    opener = Opener()
    registry = TenantRegistry(opener)

    async def turn() -> str:
        async with registry.lend("a") as deps:
            return deps.tenant_id

    async def main() -> None:
        assert await asyncio.gather(*(turn() for _ in range(20))) == ["a"] * 20
        await registry.close()

    run(main)
    assert (opener.opened, opener.closed) == (["a"], ["a"])


def test_the_least_recently_used_idle_tenant_is_closed() -> None:
    opener = Opener()
    registry = TenantRegistry(opener, max_open=2)

    async def main() -> None:
        for tenant_id in ["a", "b", "a", "c"]:
            async with registry.lend(tenant_id):
                pass
        await asyncio.sleep(1)
        assert opener.closed == ["b"]
        assert registry.open_ids == ["a", "c"]
        await registry.close()

    run(main)


def test_a_tenant_in_use_is_never_closed() -> None:
    opener = Opener()
    registry = TenantRegistry(opener, max_open=1)

    async def main() -> None:
        async with registry.lend("a"):
            async with registry.lend("b"):
                assert opener.closed == []
            await asyncio.sleep(1)
            assert opener.closed == ["b"]
        assert registry.open_ids == ["a"]
        await registry.close()

    run(main)


def test_a_tenant_that_is_being_closed_is_opened_again_only_afterwards() -> None:
    opener = Opener()
    registry = TenantRegistry(opener, max_open=1)

    async def main() -> None:
        async with registry.lend("a"):
            pass
        async with registry.lend("b"):
            pass
        async with registry.lend("a"):
            assert opener.closed[0] == "a"
        await registry.close()

    run(main)
    assert opener.opened == ["a", "b", "a"]


def test_a_failed_opening_is_told_to_everyone_and_tried_again() -> None:
    opener = Opener(failures=1)
    registry = TenantRegistry(opener)

    async def turn() -> str:
        async with registry.lend("a") as deps:
            return deps.tenant_id

    async def main() -> None:
        results = await asyncio.gather(turn(), turn(), return_exceptions=True)
        assert [type(result) for result in results] == [KnowledgeBaseError, KnowledgeBaseError]
        assert await turn() == "a"
        await registry.close()

    run(main)


def test_a_cancelled_turn_does_not_stop_the_opening_others_wait_for() -> None:
    opener = Opener()
    registry = TenantRegistry(opener)

    async def turn() -> str:
        async with registry.lend("a") as deps:
            return deps.tenant_id

    async def main() -> None:
        first, second = asyncio.create_task(turn()), asyncio.create_task(turn())
        await asyncio.sleep(0.05)
        first.cancel()
        assert await second == "a"
        with pytest.raises(asyncio.CancelledError):
            await first
        await registry.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main)
    assert opener.opened == ["a"]


class Rebuilt(Opener):
    """Each opening gives the next build; the one before is no longer current."""

    async def __call__(self, tenant_id: str) -> OpenTenant:
        tenant = await super().__call__(tenant_id)
        build = len(self.opened)

        async def is_current() -> bool:
            return build > 1

        deps = Deps(FakeRetriever([f"build {build}"]), tenant_id=tenant_id)
        return OpenTenant(deps, tenant.close, is_current)


async def build_of(registry: TenantRegistry) -> str:
    async with registry.lend("a") as deps:
        return (await deps.retriever.ainvoke("anything"))[0].page_content


def test_a_new_build_is_taken_up_without_a_turn_waiting_for_it() -> None:
    opener = Rebuilt()
    registry = TenantRegistry(opener, refresh_s=10.0)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert await build_of(registry) == "build 1"
        await asyncio.sleep(5)
        assert await build_of(registry) == "build 1"
        assert opener.opened == ["a"]
        await asyncio.sleep(6)
        async with registry.lend("a") as held:
            await asyncio.sleep(1)
            started_s = loop.time()
            assert await build_of(registry) == "build 2"
            assert loop.time() == started_s
            assert opener.closed == []
            assert (await held.retriever.ainvoke("x"))[0].page_content == "build 1"
        await asyncio.sleep(1)
        assert opener.closed == ["a"]
        await asyncio.sleep(20)
        assert await build_of(registry) == "build 2"
        await registry.close()

    run(main)
    assert (opener.opened, opener.closed) == (["a", "a"], ["a", "a"])


def test_a_new_build_that_cannot_be_opened_leaves_the_old_one() -> None:
    opener = Rebuilt()
    registry = TenantRegistry(opener, refresh_s=1.0)

    async def main() -> None:
        await build_of(registry)
        opener.failures = 1
        await asyncio.sleep(2)
        await build_of(registry)
        await asyncio.sleep(0.5)
        assert await build_of(registry) == "build 1"
        await registry.close()

    run(main)
    assert opener.closed == ["a"]


def test_closing_while_a_new_build_is_opened_closes_both() -> None:
    opener = Rebuilt()
    registry = TenantRegistry(opener, refresh_s=1.0)

    async def main() -> None:
        await build_of(registry)
        await asyncio.sleep(2)
        await build_of(registry)
        await asyncio.sleep(0.05)  # half way through the opening
        await registry.close()

    run(main)
    assert (opener.opened, opener.closed) == (["a", "a"], ["a", "a"])
