from __future__ import annotations

import json

import pytest
from fakes import ScriptedModel

from ixinfra.errors import ModelError
from ixrag.query import LLMQueryRewriter, MemoryCache, QueryContext
from ixrag.query.cache import CacheKey

CTX = QueryContext("acme")
ANSWER = "1. pay slip download\n2. wage file export\n3. payroll file"


class KnownCache(MemoryCache):
    """A memory cache that shows its keys."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[CacheKey] = []

    async def put(self, key: CacheKey, value: bytes, *, ttl_s: float) -> None:
        self.keys.append(key)
        await super().put(key, value, ttl_s=ttl_s)


async def test_paraphrases_come_in_the_models_order() -> None:
    rewriter = LLMQueryRewriter(ScriptedModel(script=[ANSWER]))

    assert await rewriter.rewrite(CTX, "export payroll", n=2) == ["pay slip download", "wage file export"]


async def test_the_query_and_repeats_are_not_paraphrases() -> None:
    answer = "Export Payroll?\npay slips\nPay Slips\n\nwage file"
    rewriter = LLMQueryRewriter(ScriptedModel(script=[answer]))

    assert await rewriter.rewrite(CTX, "export payroll") == ["pay slips", "wage file"]


async def test_thinking_is_not_a_paraphrase() -> None:
    rewriter = LLMQueryRewriter(ScriptedModel(script=["<think>hmm\npayroll means…</think>\npay slips"]))

    assert await rewriter.rewrite(CTX, "export payroll") == ["pay slips"]


async def test_a_prompt_of_ones_own_gets_the_number_and_keeps_its_braces() -> None:
    model = ScriptedModel(script=[ANSWER])
    await LLMQueryRewriter(model, system_prompt='{n} lines, not {"json": 1}').rewrite(CTX, "q", n=4)

    assert model.asked[0][0].content == '4 lines, not {"json": 1}'


async def test_nothing_is_asked_for_nothing() -> None:
    model = ScriptedModel()

    assert await LLMQueryRewriter(model).rewrite(CTX, "  ") == []
    assert await LLMQueryRewriter(model).rewrite(CTX, "export payroll", n=0) == []
    assert model.asked == []


async def test_a_query_seen_before_costs_no_call() -> None:
    model = ScriptedModel(script=[ANSWER])
    rewriter = LLMQueryRewriter(model, cache=MemoryCache())

    first = await rewriter.rewrite(CTX, "Export payroll")
    again = await rewriter.rewrite(CTX, "  export   PAYROLL ")

    assert first == again != []
    assert len(model.asked) == 1


async def test_a_cached_paraphrase_never_equals_the_query() -> None:
    cache = KnownCache()
    rewriter = LLMQueryRewriter(ScriptedModel(script=[ANSWER]), cache=cache)
    await rewriter.rewrite(CTX, "export payroll")
    await cache.put(cache.keys[0], json.dumps(["export payroll", "pay", "Pay"]).encode(), ttl_s=60)

    assert await rewriter.rewrite(CTX, "export payroll") == ["pay"]


@pytest.mark.parametrize(
    ("change", "tenant", "n"),
    [
        pytest.param({}, "other", 3, id="tenant"),
        pytest.param({"prompt_version": "v2"}, "acme", 3, id="prompt version"),
        pytest.param({"system_prompt": "{n} lines"}, "acme", 3, id="prompt"),
        pytest.param({}, "acme", 2, id="number"),
    ],
)
async def test_answers_are_not_shared_across(change: dict[str, str], tenant: str, n: int) -> None:
    cache, model = MemoryCache(), ScriptedModel(script=[ANSWER])
    await LLMQueryRewriter(model, cache=cache).rewrite(CTX, "export payroll")

    await LLMQueryRewriter(model, cache=cache, **change).rewrite(QueryContext(tenant), "export payroll", n=n)

    assert len(model.asked) == 2


async def test_answers_are_not_shared_across_numbers_that_the_prompt_does_not_say() -> None:
    model = ScriptedModel(script=[ANSWER])
    rewriter = LLMQueryRewriter(model, cache=MemoryCache(), system_prompt="some lines")

    assert [len(await rewriter.rewrite(CTX, "export payroll", n=n)) for n in (1, 3)] == [1, 3]


async def test_answers_are_not_shared_across_models() -> None:
    cache = MemoryCache()
    for name in ("a", "b"):
        model = ScriptedModel(script=[ANSWER], name_on_bill=name)
        await LLMQueryRewriter(model, cache=cache).rewrite(CTX, "export payroll")
        assert len(model.asked) == 1


async def test_nothing_is_kept_for_no_tenant() -> None:
    cache, model = MemoryCache(), ScriptedModel(script=[ANSWER])
    rewriter = LLMQueryRewriter(model, cache=cache)

    for _ in range(2):
        await rewriter.rewrite(QueryContext(""), "export payroll")

    assert (len(cache), len(model.asked)) == (0, 2)


@pytest.mark.parametrize("stored", [b"\xff\xfe", b"{}", b"[]", b"[1]", b"null", b"[" * 9999])
async def test_an_unreadable_entry_is_overwritten(stored: bytes) -> None:
    cache, model = KnownCache(), ScriptedModel(script=[ANSWER])
    rewriter = LLMQueryRewriter(model, cache=cache)
    first = await rewriter.rewrite(CTX, "export payroll")
    await cache.put(cache.keys[0], stored, ttl_s=60)

    assert await rewriter.rewrite(CTX, "export payroll") == first
    assert await rewriter.rewrite(CTX, "export payroll") == first
    assert len(model.asked) == 2


async def test_an_empty_answer_is_not_kept() -> None:
    cache, model = MemoryCache(), ScriptedModel(script=["", ANSWER])
    rewriter = LLMQueryRewriter(model, cache=cache)

    assert await rewriter.rewrite(CTX, "export payroll") == []
    assert len(cache) == 0
    assert await rewriter.rewrite(CTX, "export payroll") != []


async def test_a_model_that_fails_is_an_error_and_not_kept() -> None:
    model = ScriptedModel(script=[RuntimeError("down"), ANSWER])
    rewriter = LLMQueryRewriter(model, cache=MemoryCache())

    with pytest.raises(ModelError) as failure:
        await rewriter.rewrite(CTX, "export my payroll")

    assert "payroll" not in str(failure.value)
    assert await rewriter.rewrite(CTX, "export my payroll") != []


async def test_a_cache_that_breaks_its_promise_is_a_miss() -> None:
    class Broken(MemoryCache):
        async def get(self, key: CacheKey) -> object:  # type: ignore[override]  # rude on purpose
            raise OSError("gone")

        async def put(self, key: CacheKey, value: bytes, *, ttl_s: float) -> None:
            raise OSError("gone")

    rewriter = LLMQueryRewriter(ScriptedModel(script=[ANSWER]), cache=Broken())

    assert len(await rewriter.rewrite(CTX, "export payroll")) == 3
