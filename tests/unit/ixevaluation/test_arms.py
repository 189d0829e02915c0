from dataclasses import replace
from typing import Any

import pytest
from fakes import FakeRetriever, ScriptedModel

from ixchat.nodes.knowledge_retriever import Plan, choose
from ixchat.utils.resolution import KeywordQuery, Message, Resolution, Turn
from ixevaluation.rewriter.arms import ALIASES, ARMS, ArmDeps, find_arm
from ixinfra.config.settings import RagMode
from ixinfra.errors import ConfigError

HISTORY = (
    Message("user", "Do you cover Zanthic payroll?"),
    Message("assistant", "Yes. Which sector are you in?"),
    Message("user", "Hotels in Lorne"),
    Message("assistant", "How many sites?"),
)
TURNS = [
    Turn("Hello", (), "Orvane"),
    Turn("Twelve", HISTORY, "Orvane"),
    Turn("Which retailers already run it?", HISTORY, "Orvane"),
    Turn("12 rue X, mail a@b.example", HISTORY, "Orvane"),
    Turn("", HISTORY, "Orvane"),
]


async def text(turn: Turn) -> Resolution:
    return Resolution(f"{turn.query} resolved", "resolve")


async def words(turn: Turn) -> Resolution:
    return KeywordQuery(turn.query, "resolve", ll_keywords=("hotel",), hl_keywords=("price",))


async def name(turn: Turn) -> Resolution:
    return Resolution(f"{turn.query} — Zanthic", "resolve")


def deps(mode: RagMode = "mix", **changes: Any) -> ArmDeps:
    facts: dict[str, Any] = {"text_resolver": text, "keyword_resolver": words, "reference_resolver": name}
    return ArmDeps(FakeRetriever(rag_mode=mode), **(facts | changes))


def differences(arm: Any, other: Any) -> list[str]:
    """Turns on which two policies plan differently, over modes, switch and every path."""
    found = []
    for mode in ("naive", "mix", "global"):
        for enabled in (True, False):
            for turn in TURNS:
                given = deps(mode, enabled=enabled)
                if arm(turn, given) != other(turn, given):
                    found.append(f"{turn.query!r} in {mode}, enabled={enabled}")
    return found


def test_production_is_the_shipping_policy_itself() -> None:
    assert ARMS["production"] is choose
    assert differences(ARMS["production"], choose) == []


def test_a_wrong_copy_of_production_is_caught() -> None:
    def copied(turn: Turn, given: ArmDeps) -> Plan:
        """As it was before the early search: the check runs first."""
        return replace(choose(turn, given), search_meanwhile=False)

    assert copied is not choose
    found = differences(copied, choose)
    assert "'Which retailers already run it?' in mix, enabled=True" in found
    assert not any("in naive" in line or "enabled=False" in line for line in found)


def test_unknown_arms_list_the_known_ones_and_aliases_resolve() -> None:
    assert find_arm("current") == ("legacy", ARMS["legacy"])
    with pytest.raises(ConfigError, match=r"unknown arm 'prodction'.*'production'.*'current'"):
        find_arm("prodction")
    assert set(ALIASES.values()) <= set(ARMS)


RESOLVING = (
    "candidate", "minimal", "keywords", "keywords-gated", "fused", "both", "hyde", "intent", "gated",
    "concat-previous", "concat-users", "condense", "full-question", "weighted-fusion", "hqe",
)  # fmt: skip


@pytest.mark.parametrize("arm", RESOLVING)
async def test_no_resolving_arm_touches_a_first_turn(arm: str) -> None:
    given = deps(model=ScriptedModel(script=["a rewrite"]))
    assert (await ARMS[arm](TURNS[0], given).resolver(TURNS[0])).query == "Hello"


async def resolve(arm: str, turn: Turn, **changes: Any) -> Resolution:
    given = deps(**changes)
    return await ARMS[arm](turn, given).resolver(turn)


@pytest.mark.parametrize(
    ("arm", "turn", "query", "keywords"),
    [
        ("off", TURNS[1], "Twelve", False),
        ("intent", TURNS[2], "Which retailers already run it? resolved", False),
        ("gated", TURNS[2], "Which retailers already run it?", False),
        ("gated", TURNS[1], "Twelve resolved", False),
        ("keywords", TURNS[2], "Which retailers already run it?", True),
        ("keywords-gated", TURNS[2], "Which retailers already run it?", False),
        ("keywords-gated", TURNS[1], "Twelve", True),
        ("fused", TURNS[1], "Twelve hotel price", True),
        ("concat-previous", TURNS[1], "Hotels in Lorne Twelve", False),
        ("concat-users", TURNS[1], "Twelve Hotels in Lorne Do you cover Zanthic payroll?", False),
    ],
)
async def test_what_each_arm_searches(arm: str, turn: Turn, query: str, keywords: bool) -> None:
    found = await resolve(arm, turn)
    assert found.query == query
    assert bool(found.retriever_kwargs) is keywords


async def test_hqe_adds_rare_words_and_leaves_clear_messages_alone() -> None:
    rarity = {"zanthic": 7.0, "payroll": 3.0, "lorne": 4.0, "hotels": 2.0, "twelve": 1.0}
    known = {"rarity": lambda text: max(rarity.get(w.strip("?").casefold(), 0.0) for w in text.split())}
    assert (await resolve("hqe", TURNS[1], **known)).query == "Twelve Lorne Zanthic"
    clear = Turn("Zanthic", HISTORY)
    assert (await resolve("hqe", clear, **known)).query == "Zanthic"


@pytest.mark.parametrize("arm", ["candidate", "minimal", "hyde", "condense", "full-question", "legacy"])
async def test_prose_arms_search_what_the_model_wrote(arm: str) -> None:
    model = ScriptedModel(script=["Zanthic payroll for 12 hotels"])
    assert (await resolve(arm, TURNS[1], model=model)).query == "Zanthic payroll for 12 hotels"
    assert len(model.asked) == 1


@pytest.mark.parametrize("arm", ["candidate", "minimal", "hyde", "condense", "full-question"])
@pytest.mark.parametrize("answer", ["", "   ", TimeoutError(), RuntimeError("a visitor's words")])
async def test_prose_arms_fall_back_to_the_visitors_words(arm: str, answer: Any) -> None:
    found = await resolve(arm, TURNS[1], model=ScriptedModel(script=[answer]))
    assert (found.query, found.decision) == ("Twelve", "error")
    assert found.fallback in ("empty", "timeout", "model_error")


async def test_both_asks_twice_and_fills_both_channels() -> None:
    found = await resolve("both", TURNS[1], model=ScriptedModel(script=["clean question"]))
    assert found.query == "clean question"
    assert found.retriever_kwargs == {"ll_keywords": ["hotel"], "hl_keywords": ["price"]}


@pytest.mark.parametrize("arm", ["hyde", "legacy", "both", "weighted-fusion", "condense"])
def test_an_arm_without_its_model_names_the_key_to_set(arm: str) -> None:
    with pytest.raises(ConfigError, match=r"needs a chat model: set \[models"):
        ARMS[arm](TURNS[1], deps())


async def test_legacy_keeps_its_defects() -> None:
    first = Turn("Do you ship to your stores?", (), "Orvane")
    model = ScriptedModel(script=["word " * 80])
    assert (await resolve("legacy", first, model=model)).query == "Do Orvane ship to Orvane's stores?"
    assert len((await resolve("legacy", TURNS[1], model=model)).query.split()) == 50


async def test_weighted_fusion_searches_both_texts_and_fuses_them() -> None:
    given = deps(model=ScriptedModel(script=["a rewrite"]))
    plan = ARMS["weighted-fusion"](TURNS[1], given)
    assert plan.retriever is not None
    assert (await plan.resolver(TURNS[1])).query == "a rewrite"
    documents = await plan.retriever.ainvoke("a rewrite")
    assert isinstance(given.retriever, FakeRetriever)
    assert given.retriever.queries == ["Twelve", "a rewrite"]
    assert [d.page_content for d in documents] == ["a passage"]
    await plan.retriever.ainvoke("Twelve")
    assert given.retriever.queries[2:] == ["Twelve"]
