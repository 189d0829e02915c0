"""Two arms that look at what was found: the evidence of the first search, and passages taken along on a yes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.documents import Document

from ixchat.nodes.knowledge_retriever import retrieve
from ixchat.utils.local import LocalResolver
from ixchat.utils.resolution import Message, Resolution, Turn
from ixevaluation.rewriter.arms import ARMS, ArmDeps
from ixevaluation.rewriter.evidence import Evidence
from ixinfra.config.settings import RagMode
from ixrag.names import NameIndex

LEANS = "Which retailers have already installed it?"
BARE = "How long would a full count take?"
COMPANY = "How many offices do you have in France?"
HISTORY = (
    Message("user", "Anything for counting?"),
    Message("assistant", "Zanthic counts. Shall I show a case?"),
)


@dataclass(frozen=True, slots=True)
class Entity:
    name: str
    type: str = "product"
    aliases: tuple[str, ...] = ()


class Passages:
    """Finds the texts that a table lists for a query; nothing for any other."""

    def __init__(self, **found: list[str]) -> None:
        self.found = found
        self.asked: list[str] = []

    @property
    def rag_mode(self) -> RagMode:
        return "mix"

    async def ainvoke(self, input: str, **_kwargs: Any) -> list[Document]:
        self.asked.append(input)
        texts = self.found["named" if "Zanthic" in input else "case" if "case" in input else "plain"]
        return [Document(text, metadata={"kind": "chunk"}) for text in texts]


def deps(retriever: Passages) -> ArmDeps:
    index = NameIndex([Entity("Zanthic")])
    local = LocalResolver(index)
    return ArmDeps(
        retriever, reference_resolver=local.reference, keyword_resolver=local.keyword_query, names=index
    )


async def decided(query: str, **found: list[str]) -> Resolution:
    given = deps(Passages(**found))
    turn = Turn(query, HISTORY, "Orvane")
    return (await retrieve(turn, given, ARMS["evidence"](turn, given))).resolution


@pytest.mark.parametrize(
    ("query", "plain", "named", "decision"),
    [
        pytest.param(LEANS, ["a", "b"], ["Zanthic in shops", "b"], "resolve", id="the name finds itself"),
        pytest.param(LEANS, ["a", "b"], ["c", "d"], "keep", id="nothing is about the name"),
        pytest.param(LEANS, [*"abc", "Zanthic"], [*"abc", "Zanthic"], "keep", id="the name finds the same"),
        pytest.param(BARE, ["Zanthic counts fast", "b"], ["c"], "resolve", id="the words lead to the name"),
        pytest.param(BARE, ["b", "Zanthic counts fast"], ["c"], "keep", id="they lead elsewhere first"),
        pytest.param(COMPANY, ["Zanthic counts fast"], ["c"], "keep", id="a question to the company"),
    ],
)
async def test_what_is_found_overrules_the_rules(
    query: str, plain: list[str], named: list[str], decision: str
) -> None:
    resolution = await decided(query, plain=plain, named=named)
    assert resolution.decision == decision
    assert (resolution.query == f"{query} — Zanthic") is (decision == "resolve")


async def test_the_witness_is_in_the_trace() -> None:
    resolution = await decided(LEANS, plain=["a", "b"], named=["Zanthic in shops", "b"])
    assert resolution.trace["witness"] == {
        "named_raw": [], "named_resolved": [1], "agreement": 1, "entity_rank": 0, "top": None, "gap": None,
    }  # fmt: skip


def test_a_name_far_down_among_the_entities_confirms_nothing() -> None:
    assert Evidence([1], [1], 2, entity_rank=10).confirms
    assert not Evidence([1], [1], 2, entity_rank=11).confirms


@pytest.mark.parametrize(
    ("reply", "taken_along"),
    [
        pytest.param("Yes please", True, id="bare yes"),
        pytest.param("Hotels in Lorne", False, id="an answer"),
        pytest.param("No thanks", False, id="no"),
    ],
)
async def test_a_bare_yes_takes_the_passages_of_the_last_exchange_along(
    reply: str, taken_along: bool
) -> None:
    retriever = Passages(plain=["count"], case=["a case", "count"], named=["count"])
    given = deps(retriever)
    turn = Turn(reply, HISTORY, "Orvane")
    retrieval = await retrieve(turn, given, ARMS["carry-over"](turn, given))
    assert (HISTORY[0].content in retriever.asked) is taken_along
    assert ("carried" in retrieval.record["channels"]["facts"]) is taken_along
    if taken_along:
        found = [document.page_content for document in retrieval.documents]
        assert set(found) >= {"count"}
        assert len(found) == len(set(found))
