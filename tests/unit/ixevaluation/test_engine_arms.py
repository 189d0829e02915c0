"""Arms of the hybrid engine: which indexes each of them asks, and with what."""

from __future__ import annotations

from typing import Any

import pytest
from fakes import FakeRetriever, keeps, resolver_that, resolves_to
from search_fakes import FakeIndex
from search_fakes import engine as hybrid

from ixchat.nodes.knowledge_retriever import retrieve
from ixchat.utils.history import turn_from
from ixchat.utils.intent_gate import IntentGate
from ixevaluation.rewriter.arms import ARMS, ArmDeps
from ixevaluation.rewriter.engine_arms import ENGINE_ARMS
from ixinfra.errors import ConfigError
from ixrag.query import HeuristicQueryDecomposer, QueryUnderstandingPipeline
from ixrag.search.rerank import ScoreMix

SAID = [("user", "Do you have a tool for stock?"), ("assistant", "Yes, Stokarel counts stock.")]
FOLLOW_UP = "How much does it cost per month?"
TWO = "What does the payroll module cost? And how do I export the hours of a month?"
FOUND: dict[Any, Any] = {"dense": ["a", "b", "c"], "sparse": ["b", "a", "d"], "bm25": ["b", "e"]}


@pytest.fixture(scope="module")
def gate() -> IntentGate:
    return IntentGate()


def deps(index: FakeIndex, gate: IntentGate | None = None) -> ArmDeps:
    splitting = QueryUnderstandingPipeline(decomposer=HeuristicQueryDecomposer())
    retriever = hybrid(
        index,
        pipelines={"decompose": splitting, "coref_decompose": splitting},
        reranker=ScoreMix(),
    )
    return ArmDeps(
        retriever, reference_resolver=resolver_that(resolves_to("Stokarel")), text_resolver=resolver_that(keeps), gate=gate
    )  # fmt: skip


@pytest.mark.parametrize("channel", ["dense", "sparse", "bm25"])
async def test_one_index_alone_gives_that_indexes_own_order(channel: Any) -> None:
    index = FakeIndex(FOUND)
    turn = turn_from(FOLLOW_UP, SAID)
    found = await retrieve(turn, deps(index), ARMS[f"{channel}-only"](turn, deps(index)))
    assert {asked for asked, _ in index.calls} == {channel}
    assert [document.id for document in found.documents] == FOUND[channel]


@pytest.mark.parametrize(
    ("arm", "calls", "path", "last_order"),
    [
        ("rrf", 3, "raw", "none"),
        ("engine-passthrough", 3, "raw", "score-mix"),
        ("engine-no-gate", 6, "reference", "score-mix"),
        ("engine", 6, "reference", "score-mix"),
    ],
)
async def test_what_each_whole_arm_asks_for_a_reference(
    gate: IntentGate, arm: str, calls: int, path: str, last_order: str
) -> None:
    index = FakeIndex(FOUND)
    turn = turn_from(FOLLOW_UP, SAID)
    found = await retrieve(turn, deps(index, gate), ARMS[arm](turn, deps(index, gate)))
    assert (len(index.calls), found.path) == (calls, path)
    assert found.record["channels"]["facts"]["reranker"] == last_order


@pytest.mark.parametrize(
    ("arm", "calls"), [("engine", 9), ("engine-no-gate", 9), ("engine-passthrough", 3), ("rrf", 3)]
)
async def test_two_questions_are_split_where_the_gate_says_so_and_where_there_is_none(
    gate: IntentGate, arm: str, calls: int
) -> None:
    index = FakeIndex(FOUND)
    turn = turn_from(TWO)
    await retrieve(turn, deps(index, gate), ARMS[arm](turn, deps(index, gate)))
    assert len(index.calls) == calls


@pytest.mark.parametrize("arm", ENGINE_ARMS)
def test_a_tenant_on_lightrag_is_told_what_to_set(arm: str) -> None:
    with pytest.raises(ConfigError, match="retriever = 'hybrid'"):
        ARMS[arm](turn_from("q"), ArmDeps(FakeRetriever()))
