"""`ix understand --plan`: what would be asked of which index, before any is asked."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from fakes import FakeRetriever, resolver_that, resolves_to
from rich.console import Console
from search_fakes import FakeIndex
from search_fakes import engine as hybrid
from typer.testing import CliRunner

from ixchat.commands.app import app
from ixchat.commands.plan import explain, page
from ixchat.nodes.deps import Deps
from ixchat.utils.intent_gate import IntentGate
from ixinfra.errors import ConfigError
from ixrag.query import HeuristicQueryDecomposer, InMemoryGlossary, QueryUnderstandingPipeline
from ixrag.search.engine import Limits

SAID = [
    {"role": "user", "content": "Do you have a tool for stock?"},
    {"role": "assistant", "content": "Yes, Stokarel counts stock."},
]
TWO = "What does the payroll module cost? And how do I export the hours of a month?"


@pytest.fixture(scope="module")
def gate() -> IntentGate:
    return IntentGate()


def deps(index: FakeIndex, gate: IntentGate, **engine: Any) -> Deps:
    splitting = QueryUnderstandingPipeline(decomposer=HeuristicQueryDecomposer())
    expanding = QueryUnderstandingPipeline(glossary=InMemoryGlossary({"payroll": ["wages"]}))
    pipelines = {"decompose": splitting, "coref_decompose": splitting, "expand": expanding}
    retriever = hybrid(index, **{"pipelines": pipelines, "languages": {"en": 9, "fr": 3}, **engine})
    return Deps(retriever, reference_resolver=resolver_that(resolves_to("Stokarel")), gate=gate)


def asked(search: dict[str, Any]) -> list[tuple[str, str]]:
    return [(probe["channel"], probe["source"]) for probe in search["probes"]]


async def test_a_compound_is_explained_part_by_part_and_no_index_is_asked(gate: IntentGate) -> None:
    index = FakeIndex({})
    explained = await explain(deps(index, gate), TWO, [])
    (search,) = explained["searches"]
    assert (search["strategy"], search["lang"], len(search["probes"])) == ("decompose", "en", 9)
    assert explained["fallback"] == "first_turn"
    assert index.calls == []
    json.dumps(explained)


async def test_a_small_budget_says_what_is_left_out_and_why(gate: IntentGate) -> None:
    explained = await explain(deps(FakeIndex({}), gate, limits=Limits(probes=4)), TWO, [])
    (search,) = explained["searches"]
    assert asked(search) == [
        ("dense", "query"), ("bm25", "query"), ("sparse", "query"), ("dense", "decomposer"),
    ]  # fmt: skip
    assert {out["reason"] for out in search["left_out"]} == {"budget"}


async def test_a_follow_up_shows_its_own_words_and_what_they_refer_to(gate: IntentGate) -> None:
    explained = await explain(deps(FakeIndex({}), gate), "How much does it cost per month?", SAID)
    own, resolved = explained["searches"]
    assert (explained["path"], explained["decision"]) == ("reference", "resolve")
    assert own["query"] == "How much does it cost per month?"
    assert resolved["query"] == "How much does it cost per month? — Stokarel"
    assert own["strategy"] == resolved["strategy"] == "coref"


async def test_a_language_without_passages_is_not_searched_as_words(gate: IntentGate) -> None:
    explained = await explain(
        deps(FakeIndex({}), gate), "Was kostet das für die Filialen und wie lange ist es?", []
    )
    (search,) = explained["searches"]
    assert "bm25" not in {channel for channel, _ in asked(search)}
    assert "no_passage_in_language" in {out["reason"] for out in search["left_out"]}


async def test_the_page_shows_every_probe_and_omission(gate: IntentGate) -> None:
    explained = await explain(deps(FakeIndex({}), gate, limits=Limits(probes=4)), TWO, [])
    console = Console(width=120, record=True, file=StringIO())
    console.print(page(explained))
    text = console.export_text()
    for part in ("1 dense", "4 dense", "– bm25", "left out", "9 en, 3 fr", "decompose, confidence"):
        assert part in text


async def test_a_tenant_on_lightrag_has_no_such_plan() -> None:
    with pytest.raises(ConfigError, match="retriever 'lightrag'"):
        await explain(Deps(FakeRetriever(), tenant_id="acme"), "q", [])


def test_an_environment_without_a_hybrid_tenant_says_what_to_set() -> None:
    done = CliRunner().invoke(app, ["understand", "--plan", "q", "--env", "test"])
    assert isinstance(done.exception, ConfigError)
    assert 'retriever = "hybrid"' in str(done.exception)
