"""Answers found again for a query that means the same, and for no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from fakes import HashEmbedder, ScriptedModel
from hypothesis import given
from hypothesis import strategies as st

from ixrag.query import InMemoryGlossary, LLMQueryRewriter, MemoryCache, QueryContext
from ixrag.query.asked import Asked
from ixrag.query.near import NearQueries, marks_of
from ixrag.query.rewrite_cache import RewriteCache

ASKED = Asked("acme", "rewrites", "how do we export payroll files", "m-1", "v1 prompt", (3,), "en")
TEXTS = ["wage file download"]


def as_asked(query: str, **changes: Any) -> Asked:
    return replace(ASKED, query=query, **changes)


def opened(**near: Any) -> RewriteCache:
    embedder = near.pop("embedder", None) or HashEmbedder(256)
    return RewriteCache(MemoryCache(), near=NearQueries(embedder, **{"at_least": 0.95, **near}))


async def test_the_same_words_are_a_hit_and_the_same_meaning_is_near() -> None:
    cache = opened()
    assert await cache.find(ASKED) == ("absent", [])
    await cache.keep(ASKED, TEXTS)
    assert await cache.find(as_asked("  How do we EXPORT payroll files? ")) == ("hit", TEXTS)
    assert await cache.find(as_asked("payroll files: how do we export")) == ("near", TEXTS)
    assert await cache.find(as_asked("what does a lorry weigh")) == ("absent", [])


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"tenant_id": "other"}, id="tenant"),
        pytest.param({"model": "m-2"}, id="model"),
        pytest.param({"prompt": "v2 prompt"}, id="prompt"),
        pytest.param({"also": (3, "glossary-2")}, id="glossary"),
        pytest.param({"kind": "other"}, id="kind of answer"),
        pytest.param({"history": ("user: hello",)}, id="conversation"),
    ],
)
async def test_an_answer_is_void_once_what_it_depends_on_changes(changed: dict[str, Any]) -> None:
    cache = opened()
    await cache.keep(ASKED, TEXTS)
    assert (await cache.find(as_asked("payroll files: how do we export", **changed)))[1] == []


async def test_an_answer_to_a_conversation_is_found_for_the_same_words_in_it_alone() -> None:
    cache = opened()
    told = replace(ASKED, history=("user: hello",))
    await cache.keep(told, TEXTS)
    assert await cache.find(told) == ("hit", TEXTS)
    for other in (
        replace(told, history=("user: goodbye",)),
        replace(told, query="payroll files: how do we export"),
        replace(told, query="payroll files: how do we export", history=()),
    ):
        assert (await cache.find(other))[1] == []


class Alike(HashEmbedder):
    """Takes every text for the same."""

    async def query(self, texts: Sequence[str]) -> Any:
        return await super().query(["x"] * len(texts))


@pytest.mark.parametrize(
    ("other", "found"),
    [
        pytest.param("price of the plan for 12 shops?", True, id="nothing marked differs"),
        pytest.param("price of the plan for 40 shops", False, id="another figure"),
        pytest.param("price of the Corvane plan for 12 shops", False, id="a capitalised name"),
        pytest.param("price of stokarel for 12 shops", False, id="a name of the tenant in lower case"),
    ],
)
async def test_what_is_named_must_be_the_same_however_alike_the_vectors(other: str, found: bool) -> None:
    cache = opened(embedder=Alike(), names=lambda text: ["Stokarel"] if "stokarel" in text.lower() else [])
    await cache.keep(as_asked("the plan's price for 12 shops"), TEXTS)
    assert (await cache.find(as_asked(other)))[1] == (TEXTS if found else [])


def test_marks_are_language_figures_capitals_and_names() -> None:
    assert marks_of("Price of Brodal for 12 shops", ["Stokarel"], language="en") == [
        "en", "12", "brodal", "name:Stokarel",
    ]  # fmt: skip
    assert marks_of("Brodal", language="fr") == ["fr"]


@given(st.text(st.characters()), st.text(max_size=3))
def test_any_text_has_marks(text: str, language: str) -> None:
    assert marks_of(text, language=language)


@pytest.mark.parametrize("keep", [1, 3, 40])
async def test_a_tenant_has_room_for_so_many_and_the_oldest_goes(keep: int) -> None:
    cache = opened(max_a_tenant=keep)
    for number in range(keep + 1):
        await cache.keep(as_asked(f"question about topic{number} and thing{number}"), [f"answer {number}"])
    await cache.keep(as_asked("theirs is topic0 and thing0", tenant_id="other"), ["theirs"])
    found = [
        (await cache.find(as_asked(f"thing{number} and question about topic{number}")))[0]
        for number in range(keep + 1)
    ]
    assert found == ["absent"] + ["near"] * keep


async def test_nothing_is_near_once_its_time_is_over() -> None:
    now = [0.0]
    cache = opened(clock=lambda: now[0])  # the entry itself lives by another clock
    await cache.keep(ASKED, TEXTS)
    now[0] = 3601.0
    assert (await cache.find(as_asked("payroll files: how do we export")))[0] == "absent"


class Broken(HashEmbedder):
    async def query(self, texts: Sequence[str]) -> Any:
        raise RuntimeError("a visitor's words")


@pytest.mark.parametrize("embedder", [Broken(256), HashEmbedder(256, delay_s=30.0)], ids=["raises", "hangs"])
async def test_an_embedder_that_fails_costs_the_fallback_alone(
    embedder: HashEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    cache = opened(embedder=embedder, timeout_s=0.01)
    await cache.keep(ASKED, TEXTS)
    assert await cache.find(ASKED) == ("hit", TEXTS)
    assert await cache.find(as_asked("payroll files: how do we export")) == ("absent", [])
    assert "visitor" not in caplog.text


class Log:
    """A log that two processes share; `damage` is put in front of what one of them wrote."""

    def __init__(self, *damage: bytes) -> None:
        self.values: list[bytes] = list(damage)

    async def append(self, tenant_id: str, value: bytes, *, keep: int, ttl_s: float) -> None:
        self.values.append(value)

    async def read_after(self, tenant_id: str, place: str, *, limit: int) -> tuple[list[bytes], str]:
        start = int(place or 0)
        return self.values[start : start + limit], str(min(len(self.values), start + limit))


async def test_what_one_process_learnt_another_finds_whatever_else_is_in_the_log() -> None:
    shared, log = MemoryCache(), Log(b"", b"x" * 31, b"\xff" * (32 + 512), b"y" * 5000)
    one, other = (
        RewriteCache(shared, near=NearQueries(HashEmbedder(256), at_least=0.95, shared=log)) for _ in range(2)
    )
    await one.keep(ASKED, TEXTS)
    assert await other.find(as_asked("payroll files: how do we export")) == ("near", TEXTS)


@pytest.mark.parametrize("arguments", [{"at_least": 0.0}, {"at_least": 1.1}, {"max_a_tenant": 0}])
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        NearQueries(HashEmbedder(), **{"at_least": 0.9, **arguments})


# --- the rewriter on top of it ---


async def asks(cache: MemoryCache, near: NearQueries, query: str, **changes: Any) -> bool:
    model = ScriptedModel(script=["pay slip export\nwage file"], name_on_bill=changes.pop("name", "m-1"))
    ctx = QueryContext(changes.pop("tenant", "acme"))
    assert await LLMQueryRewriter(model, cache=cache, near=near, **changes).rewrite(ctx, query)
    return bool(model.asked)


@pytest.mark.parametrize(
    ("changes", "asked_again"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"name": "m-2"}, True, id="model"),
        pytest.param({"system_prompt": "{n} lines"}, True, id="prompt"),
        pytest.param({"prompt_version": "v9"}, True, id="prompt version"),
        pytest.param({"depends_on": ["0f"]}, True, id="glossary"),
        pytest.param({"tenant": "other"}, True, id="tenant"),
    ],
)
@pytest.mark.parametrize("query", ["export payroll", "payroll, export"], ids=["same words", "same meaning"])
async def test_a_paraphrase_is_asked_for_again_once_something_changed(
    query: str, changes: dict[str, Any], asked_again: bool
) -> None:
    cache, near = MemoryCache(), NearQueries(HashEmbedder(256), at_least=0.95)
    assert await asks(cache, near, "export payroll")
    assert await asks(cache, near, query, **changes) is asked_again


def test_a_glossary_has_another_version_once_it_says_something_else() -> None:
    one = InMemoryGlossary({"hcm": ["human capital"], "rota": ["roster"]})
    assert one.version == InMemoryGlossary({"rota": ["roster"], "HCM": ["human capital"]}).version
    for changed in ({"hcm": ["human capital"]}, {"hcm": ["people"], "rota": ["roster"]}):
        assert InMemoryGlossary(changed).version != one.version
