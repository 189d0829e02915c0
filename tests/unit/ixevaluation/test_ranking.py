import math
import random

import pytest
from ir_measures import RR, Qrel, R, ScoredDoc, Success, iter_calc, nDCG

from ixevaluation import ranking


def test_measures_agree_with_trec_eval_on_random_rankings() -> None:
    rng = random.Random(5)
    pool = [f"d{i}" for i in range(60)]
    rankings = {f"q{i}": rng.sample(pool, 20) for i in range(40)}
    relevant = {q: set(rng.sample(pool, rng.randint(1, 14))) for q in rankings}
    qrels = [Qrel(q, doc, 1) for q, docs in relevant.items() for doc in docs]
    run = [ScoredDoc(q, doc, float(-i)) for q, docs in rankings.items() for i, doc in enumerate(docs)]
    ours = {
        R @ 5: lambda docs, wanted: ranking.recall_at(docs, wanted, 5),
        R @ 10: lambda docs, wanted: ranking.recall_at(docs, wanted, 10),
        nDCG @ 5: lambda docs, wanted: ranking.ndcg_at(docs, wanted, 5),
        nDCG @ 10: lambda docs, wanted: ranking.ndcg_at(docs, wanted, 10),
        RR: lambda docs, wanted: ranking.reciprocal_rank(docs, wanted),
        RR @ 5: lambda docs, wanted: ranking.reciprocal_rank(docs, wanted, 5),
        Success @ 5: lambda docs, wanted: float(ranking.hit_at(docs, wanted, 5)),
    }
    checked = 0
    for theirs in iter_calc(list(ours), qrels, run):
        value = ours[theirs.measure](rankings[theirs.query_id], relevant[theirs.query_id])
        assert value == pytest.approx(theirs.value), (theirs.query_id, theirs.measure)
        checked += 1
    assert checked == len(ours) * len(rankings)


def test_ndcg_by_hand() -> None:
    """Relevant at ranks 1 and 3 of two wanted: (1 + 1/2) / (1 + 1/log2(3))."""
    expected = 1.5 / (1 + 1 / math.log2(3))
    assert ranking.ndcg_at(["a", "x", "b"], {"a", "b"}, 10) == pytest.approx(expected)


def test_an_empty_ranking_scores_zero() -> None:
    assert ranking.recall_at([], {"a"}, 5) == 0
    assert ranking.ndcg_at([], {"a"}, 5) == 0
    assert ranking.reciprocal_rank([], {"a"}) == 0


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param("À 1 200 €", True, id="accents, case and punctuation do not count"),
        pytest.param("200", True, id="a whole word inside"),
        pytest.param("20", False, id="part of a number is no answer"),
        pytest.param("  ", False, id="blank"),
    ],
)
def test_answer_containment(answer: str, expected: bool) -> None:
    assert ranking.contains_answer(["rien", "Le module coûte (a 1 200 €) par an."], answer) is expected


def test_a_passage_cut_in_two_counts_once() -> None:
    assert ranking.distinct(["a", "b", "a", "c", "b"]) == ["a", "b", "c"]


def test_bad_calls_say_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="`k` must be >= 1"):
        ranking.recall_at(["a"], {"a"}, 0)
    with pytest.raises(ValueError, match="without relevant"):
        ranking.ndcg_at(["a"], set(), 5)
