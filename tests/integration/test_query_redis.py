"""The Redis cache against a real server; skipped where none listens."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from fakes import HashEmbedder, ScriptedModel

from ixrag.query import HyDEGenerator, LLMQueryRewriter, QueryContext, QueryUnderstandingPipeline
from ixrag.query.asked import Asked
from ixrag.query.cache import CacheKey, RedisCache, cache_key, open_redis_cache
from ixrag.query.near import NearQueries
from ixrag.query.rewrite_cache import RewriteCache

redis = pytest.importorskip("redis.asyncio", reason="the redis package is not installed")
URL = os.environ.get("TEST_REDIS_URL", "redis://127.0.0.1:6379/9")

pytestmark = pytest.mark.service


@pytest_asyncio.fixture
async def cache() -> AsyncIterator[RedisCache]:
    client = redis.Redis.from_url(URL, socket_connect_timeout=1)
    try:
        await client.ping()
    except (redis.RedisError, OSError) as error:
        pytest.skip(f"no Redis server at {URL}: {type(error).__name__}")
    finally:
        await client.aclose()
    opened = open_redis_cache(URL, timeout_s=2.0)
    yield opened
    await opened.close()


@pytest.fixture
def tenant() -> str:
    return f"test-{uuid.uuid4()}"


def key(tenant_id: str, part: str = "q") -> CacheKey:
    made = cache_key(tenant_id, "rewrites", part)
    assert made is not None
    return made


async def test_what_was_put_is_found_until_it_expires(cache: RedisCache, tenant: str) -> None:
    assert (await cache.get(key(tenant))).found == "absent"

    await cache.put(key(tenant), b"\x00\xffbytes", ttl_s=0.05)
    assert (await cache.get(key(tenant))).value == b"\x00\xffbytes"

    await asyncio.sleep(0.3)
    assert (await cache.get(key(tenant))).found == "absent"


async def test_another_tenant_does_not_find_it(cache: RedisCache, tenant: str) -> None:
    await cache.put(key(tenant), b"v", ttl_s=5)

    assert (await cache.get(key(f"{tenant}-2"))).found == "absent"


async def test_two_processes_worth_of_rewriters_share_one_answer(cache: RedisCache, tenant: str) -> None:
    first, second = ScriptedModel(script=["pay slips\nwage file"]), ScriptedModel(script=["not asked"])
    ctx = QueryContext(tenant)

    found = await LLMQueryRewriter(first, cache=cache, cache_ttl_s=5).rewrite(ctx, "export payroll")
    again = await LLMQueryRewriter(second, cache=cache, cache_ttl_s=5).rewrite(ctx, "Export payroll")

    assert found == again == ["pay slips", "wage file"]
    assert second.asked == []


async def test_another_process_finds_what_means_the_same_and_a_tenants_log_is_bounded(
    cache: RedisCache, tenant: str
) -> None:
    second = open_redis_cache(URL, timeout_s=2.0)
    one, other = (
        RewriteCache(
            server, 5.0, NearQueries(HashEmbedder(256), at_least=0.95, shared=server, max_a_tenant=3)
        )
        for server in (cache, second)
    )
    asked = [
        Asked(tenant, "rewrites", f"how do we export topic{n} files", "m-1", "v1", language="en")
        for n in range(5)
    ]
    for number, question in enumerate(asked):
        await one.keep(question, [f"wording {number}"])

    turned = [
        replace(question, query=f"files, topic{n}: how do we export") for n, question in enumerate(asked)
    ]
    found = [await other.find(question) for question in turned]
    theirs = await other.find(replace(turned[4], tenant_id=f"{tenant}-2"))
    later = replace(asked[0], query="something else entirely")
    await one.keep(later, ["added later"])
    caught_up = await other.find(replace(later, query="entirely something else"))
    client = redis.Redis.from_url(URL)
    length, left_ms = await client.xlen(f"ix:near:{tenant}"), await client.pttl(f"ix:near:{tenant}")
    await client.aclose()
    await second.close()

    assert [texts for _, texts in found] == [[], [], ["wording 2"], ["wording 3"], ["wording 4"]]
    assert theirs == ("absent", [])
    assert caught_up == ("near", ["added later"])
    assert (length, 0 < left_ms <= 5000) == (3, True)


async def test_a_corrupt_entry_heals(cache: RedisCache, tenant: str) -> None:
    model = ScriptedModel(script=["pay slips"])
    rewriter = LLMQueryRewriter(model, cache=cache, cache_ttl_s=5)
    pipeline = QueryUnderstandingPipeline(rewriter=rewriter)
    ctx = QueryContext(tenant)
    await rewriter.rewrite(ctx, "export payroll")
    client = redis.Redis.from_url(URL)
    (name,) = [name async for name in client.scan_iter(f"ix:rewrites:{tenant}:*")]
    await client.set(name, b"\xff not json", px=5000)
    await client.aclose()

    notes = [
        (await pipeline.understand(ctx, "export payroll")).metadata["cache"]["rewrites"] for _ in range(2)
    ]

    assert notes == ["corrupt", "hit"]
    assert len(model.asked) == 2


async def test_a_key_of_the_wrong_type_is_an_outage_and_not_an_error(cache: RedisCache, tenant: str) -> None:
    client = redis.Redis.from_url(URL)
    await client.lpush(str(key(tenant)), "x")
    await client.expire(str(key(tenant)), 5)
    await client.aclose()

    assert (await cache.get(key(tenant))).found == "unavailable"


async def test_no_server_at_all_is_a_miss_and_the_query_is_understood(tenant: str) -> None:
    cache = open_redis_cache("redis://:secret@127.0.0.1:1/0", timeout_s=1.0)
    rewriter = LLMQueryRewriter(ScriptedModel(script=["pay slips"]), cache=cache)
    understood = await QueryUnderstandingPipeline(rewriter=rewriter).understand(
        QueryContext(tenant), "payroll"
    )
    await cache.close()

    assert understood.rewrites == ["pay slips"]
    assert understood.metadata["cache"] == {"rewrites": "unavailable"}
    assert "partial_failures" not in understood.metadata


async def test_vectors_of_real_size_come_back_as_they_were(cache: RedisCache, tenant: str) -> None:
    import numpy as np

    class Embedder:
        dim, model_id = 384, "random-384"

        async def query(self, texts: object) -> object:
            raise AssertionError

        async def passage(self, texts: list[str]) -> object:
            return np.random.default_rng(0).normal(size=(len(texts), 384)).astype(np.float32)

    hyde = HyDEGenerator(
        ScriptedModel(script=["a passage"]),
        Embedder(),  # type: ignore[arg-type]
        embedding_cache=cache,
        embedding_ttl_s=5,
    )
    first = await hyde.generate(QueryContext(tenant), "q")
    second = await hyde.generate(QueryContext(tenant), "q")

    assert first.vector == second.vector
    assert (first.cache_misses, second.cache_hits) == (1, 1)
