from pathlib import Path
from typing import Any

import pytest
from fakes import ScriptedModel
from langchain_core.documents import Document

from ixevaluation.rewriter import judge
from ixinfra.errors import ModelError


def found(*ids: str, kind: str = "chunk") -> list[Document]:
    return [Document(f"text of {name}", metadata={"kind": kind, "passage_id": name}) for name in ids]


async def test_labels_score_the_ranking_of_passages(item: Any) -> None:
    verdict = await judge.LabelJudge().score(item(relevant=("b",), answer="TEXT of b"), found("a", "a", "b"))
    assert verdict.scores["mrr"] == 0.5  # the doubled passage counts once
    assert verdict.scores["hit@5"] == 1
    assert verdict.scores["answer"] == 1
    assert verdict.scores["ndcg@10"] == verdict.scores["chunks-ndcg@10"]
    assert verdict.read_sha == ""
    assert "answer" not in (await judge.LabelJudge().score(item(), found("a"))).scores


def graph(kind: str, *origins: list[str]) -> list[Document]:
    return [
        Document("x", metadata={"kind": kind, "passage_ids": ids, "source": "file.md"}) for ids in origins
    ]


async def test_the_graph_lists_lead_to_passages_in_turn_with_the_chunks(item: Any) -> None:
    documents = [
        *found("c1", "c2"),
        *graph("entity", ["e1", "other"], ["c1"], []),
        *graph("relation", ["r1"]),
    ]
    assert judge.context_ranking(documents) == ["c1", "e1", "r1", "c2"]
    verdict = await judge.LabelJudge().score(item(relevant=("e1",)), documents)
    assert (verdict.scores["mrr"], verdict.scores["chunks-ndcg@10"]) == (0.5, 0.0)


def test_chunks_alone_are_their_own_ranking() -> None:
    assert judge.context_ranking(found("b", "a", "b")) == ["b", "a"]
    assert judge.context_ranking([]) == []


def test_items_without_need_or_label_are_not_judged(item: Any) -> None:
    assert judge.LabelJudge().can_judge(item())
    assert not judge.LabelJudge().can_judge(item(relevant=()))
    assert not judge.LabelJudge().can_judge(item(mode="no_retrieval"))
    model_judge = judge.SufficiencyJudge(ScriptedModel())
    assert model_judge.can_judge(item(relevant=()))
    assert not model_judge.can_judge(item(mode="greeting"))


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"passage_id": "p", "chunk_id": "c", "source": "s"}, "p"),
        ({"chunk_id": "c", "source": "s"}, "c"),
        ({"source": "s"}, "s"),
        ({"kind": "entity", "passage_ids": ["p", "q"], "source": "s"}, "p"),
        ({"kind": "entity", "source": "s"}, ""),
        ({}, ""),
    ],
)
def test_the_most_specific_id_of_a_passage_counts(metadata: dict[str, Any], expected: str) -> None:
    assert judge.passage_id(Document("x", metadata=metadata)) == expected


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("REASON: fine\nSCORE: 8", 0.8),
        ("score: 10/10", 1.0),
        ("**SCORE:** 0", 0.0),
        ("REASON: x\n\nSCORE = 3.", 0.3),
        ("SCORE: 7\nSCORE: 7", 0.7),
    ],
)
def test_scores_are_read(answer: str, score: float) -> None:
    assert judge.parse_score(answer) == score


@pytest.mark.parametrize(
    "answer", ["", "8", "SCORE: 11", "SCORE: high", "SCORE: 3\nSCORE: 8", "I score: 1 or 2 maybe"]
)
def test_an_answer_without_one_score_is_no_verdict(answer: str) -> None:
    with pytest.raises(ModelError, match="no single score"):
        judge.parse_score(answer)


async def test_the_same_verdict_is_never_paid_twice(item: Any, tmp_path: Path) -> None:
    model = ScriptedModel(script=["REASON: first\nSCORE: 6", "REASON: again\nSCORE: 4"])
    cache = tmp_path / "verdicts.sqlite"
    first = await judge.SufficiencyJudge(model, judge.VerdictCache(cache)).score(item(), found("a"))
    later = await judge.SufficiencyJudge(model, judge.VerdictCache(cache)).score(item(), found("a"))
    assert first == later
    assert (first.scores["sufficiency"], first.comment) == (0.6, "first")
    assert len(model.asked) == 1
    again = await judge.SufficiencyJudge(model, judge.VerdictCache(cache)).score(
        item(), found("a"), attempt=2
    )
    assert again.scores["sufficiency"] == 0.4  # a second opinion is asked for on purpose
    await judge.SufficiencyJudge(model, judge.VerdictCache(cache)).score(item(), found("b"))
    assert len(model.asked) == 3


async def test_a_useless_answer_is_not_remembered(item: Any) -> None:
    model = ScriptedModel(script=["no idea", "SCORE: 5"])
    sufficiency = judge.SufficiencyJudge(model)
    with pytest.raises(ModelError):
        await sufficiency.score(item(), found("a"))
    assert (await sufficiency.score(item(), found("a"))).scores["sufficiency"] == 0.5


def test_prompt_shows_conversation_need_and_passages_and_nothing_else(item: Any) -> None:
    prompt = judge.judge_prompt(item(need="Which plan fits care homes."), ["Plan A.", "Plan\nB."])
    assert prompt == "\n".join(
        [
            "Company: Orvane",
            "Conversation so far (JSON):",
            '[{"role": "assistant", "text": "Which sector are you in?"}]',
            'Visitor\'s message: "reply a"',
            "Information need: Which plan fits care homes.",
            "Passages returned: 2",
            '[1] "Plan A."',
            '[2] "Plan\\nB."',
        ]
    )


def test_the_rubric_leaves_no_way_out_for_messages_that_seem_to_need_nothing() -> None:
    assert "never give a high score because an answer could do without passages" in judge.RUBRIC
