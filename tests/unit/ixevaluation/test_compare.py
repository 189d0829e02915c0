import json
from typing import Any

import pytest

from ixevaluation.compare import compare, find_leak, word_verdict
from ixevaluation.records import ItemRef
from ixevaluation.stats import Interval, Tally
from ixinfra.errors import DatasetError

BASE = {f"i{n}": [0.2, 0.2] for n in range(12)}


def test_deltas_are_paired_by_item_and_averaged_over_runs(run: Any) -> None:
    control = run("off", {"a": [0.0, 0.2], "b": [1.0, 1.0], "c": [0.5, 0.5]})
    treated = run("new", {"a": [0.4, 0.6], "b": [0.0, 0.0], "c": [0.5, 0.5]})
    result = compare(control, treated)
    assert [(item.item.id, round(item.delta, 9)) for item in result.items] == [
        ("b", -1.0),
        ("c", 0.0),
        ("a", 0.4),
    ]
    assert result.effect.delta == pytest.approx(-0.2)
    assert result.effect.tally == Tally(better=1, worse=1, tie=1)
    assert result.effect.control == pytest.approx((0.1 + 1 + 0.5) / 3)


def test_fired_and_declined_divide_the_items_by_what_retrieval_was_given(run: Any) -> None:
    control = run("off", BASE)
    same = {(f"i{n}", r): {"input_sha": f"off-i{n}"} for n in range(8) for r in (1, 2)}
    treated = run("new", {name: [0.2 + 0.1 * (i >= 8)] * 2 for i, name in enumerate(BASE)}, records=same)
    result = compare(control, treated)
    assert result.fired is not None
    assert result.declined is not None
    assert (result.fired.n, result.declined.n) == (4, 8)
    assert result.fired_share == pytest.approx(4 / 12)
    assert result.fired.delta == pytest.approx(0.1)
    assert result.declined.delta == 0
    assert result.noise.declined is not None
    assert result.noise.declined.moved == 0


def test_an_input_that_changes_in_one_repetition_counts_as_fired(run: Any) -> None:
    same_once = {("i0", 1): {"input_sha": "off-i0"}}
    result = compare(run("off", BASE), run("new", BASE, records=same_once))
    assert result.declined is None


def test_noise_is_measured_three_ways(run: Any) -> None:
    moved = {
        ("i0", 1): {"input_sha": "off-i0"},
        ("i0", 2): {"input_sha": "off-i0"},
        ("i1", 1): {"rejudged": 0.5},
    }
    control = run("off", BASE | {"i2": [0.2, 0.4]})
    result = compare(control, run("new", BASE | {"i0": [0.3, 0.3]}, records=moved))
    noise = result.noise
    assert noise.declined is not None
    assert noise.rejudged is not None
    assert noise.repeated is not None
    assert noise.declined.mean == pytest.approx(0.1)
    assert noise.rejudged.mean == pytest.approx(0.3)
    assert (noise.repeated.n, noise.repeated.moved) == (24, 1)
    assert noise.changed_passages == 1
    assert noise.largest == pytest.approx(0.3)


def test_floor_and_ceiling_items_are_named(run: Any) -> None:
    scores = {"dead": [0, 0], "full": [1, 1], "live": [0.4, 0.4]}
    result = compare(run("off", scores), run("new", scores | {"live": [0.5, 0.5]}))
    assert (result.floor_items, result.ceiling_items) == (["dead"], ["full"])


def test_items_that_share_a_conversation_are_one_unit(run: Any) -> None:
    shared = tuple(
        ItemRef(id=f"i{n}", lang="en", mode="elliptical", cluster="one", query="q", judged=True)
        for n in range(12)
    )
    control, treated = run("off", BASE, items=shared), run("new", {n: [0.9, 0.9] for n in BASE}, items=shared)
    result = compare(control, treated)
    assert result.conversations == 1
    assert (result.verdict, result.effect.interval) == ("refused", None)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"dataset_sha256": "1" * 64}, "different contents of the set"),
        ({"engine": "lightrag"}, "differ in engine"),
        ({"rag_mode": "naive"}, "differ in rag_mode"),
        ({"knowledge_base": "other"}, "differ in knowledge_base"),
        ({"judge": "sufficiency"}, "differ in judge"),
    ],
)
def test_what_cannot_be_compared_is_refused(run: Any, change: dict[str, Any], says: str) -> None:
    with pytest.raises(DatasetError, match=says):
        compare(run("off", BASE), run("new", BASE, **change))


def test_a_changed_item_is_named(run: Any) -> None:
    control = run("off", BASE)
    items = list(control.manifest.items)
    items[3] = items[3].model_copy(update={"query": "edited since"})
    changed = run("new", BASE, items=tuple(items), dataset_sha256="1" * 64)
    with pytest.raises(DatasetError, match="item 'i3' is not the same"):
        compare(control, changed)


def test_an_incomplete_run_has_no_score_and_names_the_item(run: Any) -> None:
    broken = run("new", BASE, records={("i4", 2): {"error": "RetrievalError: timeout", "scores": {}}})
    with pytest.raises(DatasetError, match=r"'new' is incomplete.*i4 \(run 2\): RetrievalError: timeout"):
        compare(run("off", BASE), broken)


def test_a_judge_that_saw_other_text_for_equal_passages_is_a_leak(run: Any) -> None:
    equal = {("i0", 1): {"passages_sha": "same", "judge_sha": "prompt"}}
    leaked = {("i0", 1): {"passages_sha": "same", "judge_sha": "prompt with keywords"}}
    assert find_leak(run("off", BASE, records=equal), run("new", BASE, records=equal)) is None
    with pytest.raises(DatasetError, match="different text for equal passages on item 'i0'"):
        compare(run("off", BASE, records=equal), run("new", BASE, records=leaked))


def test_unknown_metric_lists_the_known_ones(run: Any) -> None:
    with pytest.raises(DatasetError, match=r"unknown metric 'bleu'.*ndcg@10"):
        compare(run("off", BASE), run("new", BASE), metric="bleu")


@pytest.mark.parametrize(
    ("delta", "se", "low", "high", "detectable", "noise", "runs", "word"),
    [
        pytest.param(0.030, 0.008, 0.014, 0.047, 0.023, 0.001, 2, "confirmed", id="chunks, pooled 325 items"),
        pytest.param(0.018, 0.009, 0.000, 0.037, 0.025, 0.004, 2, "positive, unresolved", id="graph, pooled"),
        pytest.param(
            0.032, 0.020, -0.004, 0.073, 0.057, 0.003, 2, "positive, unresolved", id="graph, 83 items"
        ),
        pytest.param(
            0.008, 0.017, -0.026, 0.042, 0.048, 0.009, 2, "no evidence", id="below one standard error"
        ),
        pytest.param(
            0.030, 0.008, 0.014, 0.047, 0.023, 0.040, 2, "confirmed", id="interval and detectable decide"
        ),
        pytest.param(
            0.018, 0.009, -0.001, 0.037, 0.025, 0.020, 2, "no evidence", id="within the noise floor"
        ),
        pytest.param(-0.044, 0.015, -0.08, -0.01, 0.042, 0.0, 2, "harmful", id="interval below zero"),
        pytest.param(-0.020, 0.030, -0.08, 0.04, 0.084, 0.0, 2, "no evidence", id="negative and unresolved"),
        pytest.param(0.2, 0.01, 0.18, 0.22, 0.028, 0.0, 1, "refused", id="a single run"),
    ],
)
def test_verdicts(
    delta: float, se: float, low: float, high: float, detectable: float, noise: float, runs: int, word: str
) -> None:
    from ixevaluation.compare import Effect

    effect = Effect(83, 0.3, 0.3 + delta, delta, se, Interval(low, high), 0.05, Tally(20, 10, 53))
    assert word_verdict(effect, detectable=detectable, noise=noise, runs=runs)[0] == word


def test_equal_runs_are_no_evidence(run: Any) -> None:
    result = compare(run("off", BASE), run("new", BASE))
    assert (result.verdict, result.reason) == ("no evidence", "no item moved")


def test_a_clear_improvement_is_confirmed_and_a_clear_loss_harmful(run: Any) -> None:
    better = {name: [0.4 + 0.02 * i, 0.4 + 0.02 * i] for i, name in enumerate(BASE)}
    assert compare(run("off", BASE), run("new", better)).verdict == "confirmed"
    assert compare(run("off", better), run("new", BASE)).verdict == "harmful"


def test_notes_tell_what_else_differed(run: Any) -> None:
    failed = {("i0", 1): {"fallback": "timeout"}}
    result = compare(run("off", BASE, sealed=True), run("new", BASE, records=failed, models={"judge": "x"}))
    text = json.dumps(list(result.notes))
    assert "sealed holdout" in text
    assert "differ in models" in text
    assert "resolver failed on 1 of 24" in text
