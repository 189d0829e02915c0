from __future__ import annotations

from typing import Any

import pytest
from fakes import FakeRetriever, ScriptedModel, resolver_that

from ixchat.nodes.knowledge_retriever import choose, retrieve
from ixchat.utils.resolution import Message, Resolution, Turn
from ixevaluation.rewriter.arms import ARMS, ArmDeps
from ixevaluation.rewriter.understanding_arms import UNDERSTANDING_ARMS
from ixinfra.errors import ConfigError
from ixrag.query import InMemoryGlossary

QUESTION = "What does the payroll module cost and how do I export the hours?"
FIRST = Turn(QUESTION)
FOLLOW_UP = Turn("Yes", (Message("user", "Hi"), Message("assistant", "Shall I look up payroll prices?")))
GLOSSARY = InMemoryGlossary({"payroll": ["wages"]})
SEARCHED = {
    "multi-query": ["payroll price", "hours export"],
    "decompose": ["payroll price", "hours export"],
    "glossary": [f"{QUESTION} wages"],
    "hyde-avg": ["payroll price\nhours export"],
    "understand": ["payroll price", "hours export", f"{QUESTION} wages", "payroll price\nhours export"],
}


def deps(model: Any = None, retriever: Any = None, **changes: Any) -> ArmDeps:
    found = retriever or FakeRetriever(["a", "b"])
    return ArmDeps(found, model=model, glossary=GLOSSARY, tenant_id="acme", **changes)


def test_every_arm_can_be_named() -> None:
    assert UNDERSTANDING_ARMS.items() <= ARMS.items()
    assert ARMS["production"] is choose


@pytest.mark.parametrize("name", SEARCHED)
async def test_the_visitors_own_words_are_searched_beside_every_form(name: str) -> None:
    retriever = FakeRetriever(["a", "b"])
    wired = deps(ScriptedModel(script=["payroll price\nhours export"]), retriever)
    retrieval = await retrieve(FIRST, wired, ARMS[name](FIRST, wired))

    assert retriever.queries[0] == QUESTION
    assert sorted(retriever.queries[1:]) == sorted(SEARCHED[name])
    assert retrieval.documents


@pytest.mark.parametrize("name", ["decompose", "glossary", "understand"])
async def test_these_need_no_model(name: str) -> None:
    wired = deps()

    assert (await retrieve(FIRST, wired, ARMS[name](FIRST, wired))).documents


@pytest.mark.parametrize("name", ["multi-query", "hyde-avg", "memory"])
def test_these_say_that_they_need_one(name: str) -> None:
    with pytest.raises(ConfigError, match=f"arm '{name}' needs a chat model"):
        ARMS[name](FOLLOW_UP, deps())


async def test_memory_is_the_conversation() -> None:
    model, retriever = ScriptedModel(script=["payroll prices"]), FakeRetriever(["a"])
    wired = deps(model, retriever)
    await retrieve(FOLLOW_UP, wired, ARMS["memory"](FOLLOW_UP, wired))
    await retrieve(FIRST, wired, ARMS["memory"](FIRST, wired))

    assert retriever.queries == ["payroll prices", QUESTION]
    assert "Shall I look up payroll prices?" in str(model.asked[0][0].content)


async def test_a_resolved_turn_is_understood_as_it_was_resolved() -> None:
    retriever = FakeRetriever(["a"], rag_mode="naive")
    resolver = resolver_that(lambda _turn: Resolution("payroll prices", "resolve"))
    wired = deps(None, retriever, text_resolver=resolver)
    await retrieve(FOLLOW_UP, wired, ARMS["glossary"](FOLLOW_UP, wired))

    assert sorted(retriever.queries) == ["Yes", "payroll prices", "payroll prices wages"]


async def test_own_words_are_searched_beside_a_resolved_text_and_nothing_else() -> None:
    retriever = FakeRetriever(["a"], rag_mode="naive")
    resolver = resolver_that(lambda _turn: Resolution("payroll prices", "resolve"))
    wired = deps(None, retriever, text_resolver=resolver)
    await retrieve(FOLLOW_UP, wired, ARMS["own-words"](FOLLOW_UP, wired))

    assert sorted(retriever.queries) == ["Yes", "payroll prices"]
