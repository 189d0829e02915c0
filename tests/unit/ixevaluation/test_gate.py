import json
from pathlib import Path
from typing import Any

import pytest

from ixchat.utils.gate import should_resolve
from ixevaluation.gate import length_rule, read_turns, replay
from ixinfra.errors import DatasetError

SAID = [{"role": "assistant", "content": "Which sector?"}]


def write(path: Path, *records: Any) -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return path


def test_shares_add_up_and_follow_the_shipping_gate(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.jsonl",
        {"query": "Hello", "lang": "en"},
        {"query": "Health", "history": SAID, "lang": "en"},
        {"query": "Oui", "messages": SAID, "lang": "fr"},
        {"query": "Which retailers already run it?", "history_length": 4, "lang": "en"},
        {"query": "Santé", "history_length": 0, "lang": "fr"},
    )
    result = replay(read_turns(path))
    assert (result.shares.turns, result.shares.first, result.shares.short_reply, result.shares.longer) == (
        5,
        2,
        2,
        1,
    )
    assert result.by_lang["fr"].short_reply == 1
    assert result.shares.share(result.shares.first) == 0.4


def test_precision_and_recall_by_hand(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.jsonl",
        {"query": "Health", "history": SAID, "gate": "resolve"},
        {"query": "Price list", "history": SAID, "gate": "none"},
        {"query": "Which retailers already run it?", "history": SAID, "expected": {"decision": "resolve"}},
        {"query": "How does it work?", "history": SAID, "expected": {"decision": "ambiguous"}},
        {"query": "First", "gate": "resolve"},
    )
    quality = replay(read_turns(path)).quality
    assert (quality.labelled, quality.positives, quality.fired, quality.hits) == (3, 2, 2, 1)
    assert (quality.precision, quality.recall) == (0.5, 0.5)


def test_without_labels_there_is_no_ratio(tmp_path: Path) -> None:
    quality = replay(read_turns(write(tmp_path / "t.jsonl", {"query": "Hi", "history": SAID}))).quality
    assert (quality.precision, quality.recall) == (None, None)


def test_the_curve_at_the_shipping_limit_is_the_shipping_gate_on_plain_text() -> None:
    rule = length_rule(4, question_mark_rule=True)
    for query in [
        "yes",
        "two words",
        "one two three four",
        "one two three four five",
        "why?",
        "is it new?",
        "  ",
    ]:
        assert rule(query) is should_resolve(query)


def test_the_curve_grows_with_the_limit_and_without_the_question_rule(tmp_path: Path) -> None:
    texts = [" ".join(["word"] * n) + end for n in range(1, 9) for end in ("", "?")]
    path = write(tmp_path / "t.jsonl", *({"query": text, "history": SAID} for text in texts))
    curve = replay(read_turns(path)).curve
    ruled = [p.fired_share for p in curve if p.question_mark_rule]
    unruled = [p.fired_share for p in curve if not p.question_mark_rule]
    assert ruled == sorted(ruled)
    assert ruled[3] == pytest.approx(4 / 16)
    assert unruled[3] == pytest.approx(8 / 16)


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"history": []}, "query"),
        ({"query": 3}, "query"),
        ({"query": "a", "history_length": "two"}, "history_length"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, record: Any, field: str) -> None:
    with pytest.raises(DatasetError, match=rf"t\.jsonl:2: field '{field}'"):
        read_turns(write(tmp_path / "t.jsonl", {"query": "fine"}, record))


def test_an_empty_export_says_so(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no turns"):
        read_turns(write(tmp_path / "t.jsonl"))
