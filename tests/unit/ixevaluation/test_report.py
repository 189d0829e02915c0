import json
import re
from html.parser import HTMLParser
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from ixevaluation.compare import compare
from ixevaluation.html import forest_plot, render_html, word_diff
from ixevaluation.records import ItemRef
from ixevaluation.report import as_json, build_report, describe_arm, p_value, print_report
from ixinfra.errors import DatasetError

BASE = {f"i{n}": [0.1 * (n % 5), 0.1 * (n % 5)] for n in range(20)}
BETTER = {name: [value + 0.3 for value in values] for name, values in BASE.items()}


def text_of(sections: Any, width: int = 120) -> str:
    console = Console(width=width, file=StringIO(), color_system=None)
    print_report(sections, console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_the_terminal_report_leads_with_the_verdict_and_shows_all_numbers(run: Any) -> None:
    text = text_of(build_report([run("off", BASE), run("new", BETTER)]))
    assert "new vs off: confirmed." in text
    assert re.search(r"all +20 +0\.200 → 0\.500 +\+0\.300 +\[\+0\.300, \+0\.300\] +<0\.001 +20/0/0", text)
    assert "detectable at 80 % power" in text
    assert "not measured" in text


def test_a_narrow_terminal_loses_no_digit(run: Any) -> None:
    text = text_of(build_report([run("off", BASE), run("new", BETTER)]), width=80)
    assert "…" not in text


def test_an_incomplete_run_has_no_score_and_no_verdict(run: Any) -> None:
    broken = run("new", BETTER, records={("i3", 1): {"error": "ModelError: x", "scores": {}}})
    (section,) = build_report([run("off", BASE), broken])
    assert section.comparisons == []
    assert "i3 (run 1)" in section.refused["new"]
    text = text_of([section])
    assert "incomplete" in text
    assert "0.500" not in text


def test_runs_of_other_sets_or_modes_are_never_mixed(run: Any) -> None:
    sections = build_report(
        [
            run("off", BASE),
            run("new", BETTER),
            run("off", BASE, rag_mode="naive"),
            run("new", BASE, dataset_sha256="1" * 64),
        ]
    )
    assert [len(section.comparisons) for section in sections] == [1, 0, 0]
    assert "no run of the control" in sections[2].refused["new"]


def test_json_is_plain_and_complete(run: Any) -> None:
    broken = run("odd", BASE, records={("i3", 1): {"error": "x", "scores": {}}})
    text = json.dumps(as_json(build_report([run("off", BASE), run("new", BETTER), broken])), allow_nan=False)
    data = json.loads(text)[0]
    assert data["comparisons"][0]["verdict"] == "confirmed"
    assert data["comparisons"][0]["effect"]["interval"] == {
        "low": pytest.approx(0.3),
        "high": pytest.approx(0.3),
    }
    assert data["arms"][2]["score"] is None


def test_calls_saved_by_rules_in_front_of_a_model_are_reported(run: Any) -> None:
    records = {
        ("i0", 1): {"asked": False},
        ("i1", 1): {"asked": True, "agrees": True},
        ("i2", 1): {"asked": True, "agrees": False},
    }
    made = run("new", {f"i{number}": [0.5] for number in range(4)}, records=records)
    assert describe_arm(made, "ndcg@10").cascade == {"alone": 1, "agreed": 1, "overruled": 1}
    assert describe_arm(run("old", {"i0": [0.5]}), "ndcg@10").cascade == {}
    assert "alone 1, agreed 1, overruled 1" in text_of(build_report([made], control="new"))


def test_decisions_are_counted_where_a_person_decided(run: Any) -> None:
    wanted = {"i0": ("resolve", "Zanthic"), "i1": ("resolve", "Zanthic"), "i2": ("resolve", "Zanthic"), "i3": ("keep", None),
              "i4": ("ambiguous", None)}  # fmt: skip
    refs = tuple(
        ItemRef(
            id=i,
            lang="en",
            mode="reference",
            cluster=i,
            query="q",
            judged=True,
            expected_decision=d,
            expected_name=n,
        )
        for i, (d, n) in wanted.items()
    )
    records = {
        ("i0", 1): {"changed": True, "query": "reply — zanthic"},
        ("i1", 1): {"changed": True, "query": "reply — Other"},
        ("i3", 1): {"changed": True, "query": "reply — Zanthic"},
    }
    made = run("new", {i: [0.5] for i in wanted}, items=refs, records=records)
    assert describe_arm(made, "ndcg@10").decisions == {
        "right": 2,
        "wrong name": 1,
        "missed": 1,
        "unneeded": 1,
    }


def test_unknown_metric_and_nothing_to_report(run: Any) -> None:
    with pytest.raises(DatasetError, match="unknown metric 'f1'"):
        build_report([run("off", BASE)], metric="f1")
    with pytest.raises(DatasetError, match="no runs given"):
        build_report([])


@pytest.mark.parametrize(
    ("p", "text"), [(0.0, "<0.001"), (0.0009, "<0.001"), (0.001, "0.001"), (1.0, "1.000")]
)
def test_no_p_value_is_zero(p: float, text: str) -> None:
    assert p_value(p) == text


class Page(HTMLParser):
    """Collects tags and addresses; fails on tags closed in the wrong order."""

    VOID = frozenset({"meta", "br", "line", "circle", "rect"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href") and value]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_is_one_well_formed_file_that_asks_nobody(run: Any) -> None:
    hostile = {("i2", 1): {"query": "<script>alert(1)</script> & more", "message": "x"}}
    page = render_html(build_report([run("off", BASE), run("new", BETTER, records=hostile)]))
    parser = Page()
    parser.feed(page)
    assert parser.open == []
    assert "script" not in parser.seen
    assert parser.addresses == []
    assert "url(" not in page
    assert "@import" not in page
    assert parser.seen.count("svg") == 2
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_forest_plot_puts_positive_effects_right_of_zero(run: Any) -> None:
    result = compare(run("off", BASE), run("new", BETTER))
    svg = forest_plot([("new", result.effect)])
    zero = re.search(r'<line x1="([\d.]+)" x2="\1" y1="0"', svg)
    point = re.search(r'<circle cx="([\d.]+)"', svg)
    assert zero
    assert point
    assert float(point[1]) > float(zero[1])


@pytest.mark.parametrize(
    ("before", "after", "marked"),
    [
        ("Santé", "Santé", "Santé"),
        ("Santé", "tarifs Santé Orvane", "<ins>tarifs</ins> Santé <ins>Orvane</ins>"),
        ("a b", "a c", "a <del>b</del> <ins>c</ins>"),
        ("a b", "", "<del>a b</del>"),
        ("", "", ""),
    ],
)
def test_word_diff(before: str, after: str, marked: str) -> None:
    assert word_diff(before, after) == marked
