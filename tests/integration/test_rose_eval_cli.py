"""`rose-eval` as a user runs it: a folder, arguments, what is printed, an exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ixevaluation.cli import main

CONFIG = Path(__file__).parents[2] / "config"
SUBJECTS = ["payroll", "badge", "planning", "inventory", "delivery", "training", "invoice", "contract"]


@dataclass(frozen=True, slots=True)
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


RoseEval = Callable[..., Done]


@pytest.fixture
def rose_eval(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RoseEval:
    """Runs a command in `folder`, in this process: starting one takes seconds on a busy machine."""

    def run(*arguments: str) -> Done:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["rose-eval", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        printed = capsys.readouterr()
        return Done(int(stopped.value.code or 0), printed.out, printed.err)

    return run


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LANGFUSE_", "IX_"))}
    return kept | {"OMP_NUM_THREADS": "1", "COLUMNS": "120"}


def lines(path: Path, records: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with a small set: a short reply each, to a question that names its subject."""
    items = [
        {
            "id": f"item-{number}",
            "site": "orvane",
            "lang": "en",
            "mode": "elliptical",
            "history": [
                {"role": "user", "content": f"Tell me about {subject} exports"},
                {"role": "assistant", "content": "Which country?"},
            ],
            "query": "Lorne",
            "company_name": "Orvane",
            "relevant": [f"p-{subject}"],
        }
        for number, subject in enumerate(SUBJECTS)
    ]
    passages = [{"id": f"p-{s}", "text": f"{s} exports are made in Lorne every month."} for s in SUBJECTS]
    lines(tmp_path / "set/items.jsonl", items)
    lines(tmp_path / "set/passages.jsonl", passages)
    (tmp_path / "config").symlink_to(CONFIG)
    return tmp_path


@pytest.fixture
def run_arms(rose_eval: RoseEval) -> RoseEval:
    """Runs arms on the small set, records below `out`."""

    def run(*arms: str, out: str = "out", extra: tuple[str, ...] = ()) -> Done:
        named = [part for arm in arms for part in ("--arm", arm)]
        return rose_eval("query-rewriter", "set", *named, "--json", out, *extra)

    return run


def test_run_compare_report_from_end_to_end(folder: Path, run_arms: RoseEval, rose_eval: RoseEval) -> None:
    ran = run_arms("off", "concat-previous")
    assert ran.returncode == 0, ran.stderr
    section = json.loads(ran.stdout)[0]
    assert section["comparisons"][0]["treated"] == "concat-previous"
    compared = rose_eval("compare", "out/off", "out/concat-previous", "--json")
    comparison = json.loads(compared.stdout)
    assert compared.returncode == 0
    assert comparison["verdict"] == "confirmed"
    assert comparison["effect"]["n"] == len(SUBJECTS)
    assert comparison["effect"]["treated"] == pytest.approx(1.0)
    shown = rose_eval("report", "out", "--html", "report.html")
    assert "concat-previous vs off: confirmed" in shown.stdout
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_same_run_twice_gives_the_same_numbers(folder: Path, run_arms: RoseEval) -> None:
    first = json.loads(run_arms("off", "production").stdout)[0]
    second = json.loads(run_arms("off", "production").stdout)[0]
    assert first["comparisons"][0]["effect"] == second["comparisons"][0]["effect"]
    assert [arm["score"] for arm in first["arms"]] == [arm["score"] for arm in second["arms"]]


def test_an_interrupted_run_is_incomplete_and_is_taken_up_where_it_stopped(
    folder: Path, run_arms: RoseEval, rose_eval: RoseEval
) -> None:
    assert run_arms("off", "concat-previous").returncode == 0
    records = folder / "out/off/items.jsonl"
    whole = records.read_text()
    records.write_text("".join(whole.splitlines(keepends=True)[:5])[:-20])  # as a killed process leaves it
    refused = rose_eval("compare", "out/off", "out/concat-previous")
    assert refused.returncode == 3
    assert "incomplete" in refused.stderr
    assert "item-4 (run 1): not run" in refused.stderr
    reported = rose_eval("report", "out")
    assert reported.returncode == 3
    assert "confirmed" not in reported.stdout
    kept = (folder / "out/off/items.jsonl").read_text().splitlines()
    assert run_arms("off").returncode == 0
    resumed = records.read_text().splitlines()
    assert resumed[: len(kept)] == kept
    assert len(resumed) == 2 * len(SUBJECTS)


def test_a_dataset_that_changed_between_runs_is_refused_with_the_item(
    folder: Path, run_arms: RoseEval, rose_eval: RoseEval
) -> None:
    assert run_arms("off").returncode == 0
    items = (folder / "set/items.jsonl").read_text().replace('"Lorne"', '"Lorne please"', 1)
    (folder / "set/items.jsonl").write_text(items)
    again = run_arms("off")
    assert again.returncode == 2
    assert "dataset_sha256" in again.stderr
    assert run_arms("concat-previous", out="later").returncode == 0
    compared = rose_eval("compare", "out/off", "later/concat-previous")
    assert compared.returncode == 2
    assert "different contents of the set" in compared.stderr
    assert "'item-0'" in compared.stderr
    assert run_arms("off", extra=("--fresh",)).returncode == 0


def test_ctrl_c_keeps_finished_records_and_says_so(folder: Path) -> None:
    items = [json.loads(line) for line in (folder / "set/items.jsonl").read_text().splitlines()]
    many = [item | {"id": f"{item['id']}-{copy}"} for copy in range(400) for item in items]
    lines(folder / "set/items.jsonl", many)
    process = subprocess.Popen(
        [sys.executable, "-m", "ixevaluation.cli", "query-rewriter", "set", "--arm", "production", "--json", "out"],
        cwd=folder, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # A suite that runs in the background of a shell ignores SIGINT, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    records = folder / "out/production/items.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not records.is_file() or records.stat().st_size < 2000):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 3, errors
    assert "finished records are kept" in errors
    assert "Traceback" not in errors
    kept = [json.loads(line) for line in records.read_text().splitlines()]
    assert 0 < len(kept) < 2 * len(many)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("query-rewriter", "eliptic"), "unknown dataset 'eliptic'"),
        (("query-rewriter", "set", "--arm", "prod"), "unknown arm 'prod'"),
        (("query-rewriter", "set", "--mode", "sarcasm"), "unknown mode 'sarcasm'"),
        (("query-rewriter", "set", "--lang", "pt"), "no item in language 'pt'"),
        (("query-rewriter", "set", "--engine", "solr"), "unknown engine 'solr'"),
        (("query-rewriter", "set", "--judge", "sufficiency"), "needs --judge-model"),
        (("query-rewriter", "set", "--judge", "vibes"), "unknown judge 'vibes'"),
        (("query-rewriter", "set", "--arm", "hyde"), "arm 'hyde' needs a chat model"),
        (("query-rewriter", "set", "--env", "prod"), "unknown environment 'prod'"),
        (("query-rewriter", "empty.jsonl"), "the set is empty"),
        (("query-rewriter", "unlabelled.jsonl"), "has no labelled item"),
        (("query-rewriter", "broken.jsonl"), "broken.jsonl:1: field 'lang'"),
        (("compare", "set", "set"), "is not a run"),
        (("report", "set"), "no runs in"),
        (("replay-gate", "broken.jsonl"), "broken.jsonl:1: field 'query'"),
        (("import", "qrecc", "--from", "."), "unknown benchmark 'qrecc'"),
        (("import", "canard", "--from", "nowhere"), "no folder 'nowhere'"),
        (("seed", "v2", "--from", "x", "--to", "y"), "unknown set 'v2'"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(
    folder: Path, arguments: tuple[str, ...], says: str, rose_eval: RoseEval
) -> None:
    (folder / "empty.jsonl").write_text("\n")
    item = json.loads((folder / "set/items.jsonl").read_text().splitlines()[0])
    lines(folder / "unlabelled.jsonl", [item | {"relevant": []}])
    lines(folder / "broken.jsonl", [{"id": "x", "site": "x", "mode": "greeting", "query": 5}])
    done = rose_eval(*arguments)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_set_of_floor_items_gets_no_praise(folder: Path, run_arms: RoseEval) -> None:
    items = [json.loads(line) for line in (folder / "set/items.jsonl").read_text().splitlines()]
    lines(folder / "set/items.jsonl", [item | {"relevant": ["p-nowhere"]} for item in items])
    ran = run_arms("off", "concat-previous")
    comparison = json.loads(ran.stdout)[0]["comparisons"][0]
    assert comparison["verdict"] == "no evidence"
    assert any("every item is a floor item" in note for note in comparison["notes"])


def test_a_holdout_is_announced_as_sealed(folder: Path, run_arms: RoseEval) -> None:
    items = [json.loads(line) for line in (folder / "set/items.jsonl").read_text().splitlines()]
    lines(folder / "set/items.jsonl", [item | {"split": "holdout"} for item in items])
    ran = run_arms("off")
    assert ran.returncode == 0
    assert "sealed holdout" in ran.stderr
    assert "SEALED HOLDOUT" in ran.stderr


def test_replay_and_seed_print_json(folder: Path, rose_eval: RoseEval) -> None:
    replayed = json.loads(rose_eval("replay-gate", "set/items.jsonl", "--json").stdout)
    assert replayed["shares"] == {"turns": 8, "first": 0, "short_reply": 8, "longer": 0}
    turns = [
        {
            "query": "Santé",
            "lang": "fr",
            "site": s,
            "history": [{"role": "assistant", "content": f"{s} : quel secteur ?"}],
        }
        for s in "abcdefgh"
    ]
    lines(folder / "spans.jsonl", turns)
    seeded = rose_eval("seed", "elliptic", "--from", "spans.jsonl", "--to", "mine.jsonl", "--json")
    assert seeded.returncode == 0, seeded.stderr
    counts = json.loads(seeded.stdout)
    assert counts["items"] + counts["skipped"]["other half"] == 8
    unlabelled = rose_eval("query-rewriter", "mine.jsonl")
    assert (unlabelled.returncode, "label some" in unlabelled.stderr) == (2, True)


def test_list_names_every_arm(folder: Path, rose_eval: RoseEval) -> None:
    known = json.loads(rose_eval("list", "--json").stdout)
    assert {"off", "production", "legacy", "hqe"} <= set(known["arms"])
    assert known["aliases"] == {"current": "legacy"}


def test_a_missing_package_is_one_sentence_that_names_the_extra(tmp_path: Path) -> None:
    hide = "import sys; sys.modules['bm25s'] = None; from ixevaluation.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", hide], cwd=tmp_path, env=_environment(), capture_output=True, text=True, timeout=100, check=False
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        2,
        "rose-eval needs the evaluation packages: pip install 'ixchat[eval,local]'\n",
    )
