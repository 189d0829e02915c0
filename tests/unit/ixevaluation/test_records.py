import json
from pathlib import Path
from typing import Any

import pytest

from ixevaluation.records import MANIFEST, RECORDS, RunWriter, find_runs, read_run
from ixinfra.errors import DatasetError

SCORES = {"a": [0.1, 0.2], "b": [0.3, 0.4]}


def write(folder: Path, run: Any) -> None:
    writer = RunWriter(folder, run.manifest)
    writer.keep(run.records[:1])
    for record in run.records[1:]:
        writer.add(record)


def test_a_run_reads_back_as_it_was_written(tmp_path: Path, run: Any) -> None:
    made = run("off", SCORES)
    write(tmp_path / "off", made)
    assert read_run(tmp_path / "off") == made
    assert made.is_complete
    assert made.scores("ndcg@10") == SCORES


def test_a_missing_record_makes_the_run_incomplete_and_is_named(tmp_path: Path, run: Any) -> None:
    made = run("off", SCORES)
    RunWriter(tmp_path, made.manifest).keep(made.records[:-1])
    assert read_run(tmp_path).missing == ("b (run 2): not run",)


def test_a_killed_process_leaves_whole_records_only(tmp_path: Path, run: Any) -> None:
    made = run("off", SCORES)
    write(tmp_path, made)
    path = tmp_path / RECORDS
    text = path.read_text()
    path.write_text(text[:-25])
    cut = read_run(tmp_path)
    assert cut.records == made.records[:-1]
    RunWriter(tmp_path, made.manifest).add(made.records[-1])
    assert read_run(tmp_path).is_complete


def test_damage_inside_the_file_is_an_error_with_the_line(tmp_path: Path, run: Any) -> None:
    write(tmp_path, run("off", SCORES))
    path = tmp_path / RECORDS
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "{broken", *lines[2:]]) + "\n")
    with pytest.raises(DatasetError, match=r"items\.jsonl:2: not JSON"):
        read_run(tmp_path)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"arm": 1}'])
def test_a_damaged_manifest_is_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(DatasetError, match="not a run's manifest"):
        read_run(tmp_path)


def test_a_folder_that_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="is not a run"):
        read_run(tmp_path)
    with pytest.raises(DatasetError, match="no runs in"):
        find_runs(tmp_path)


def test_all_runs_below_a_folder_are_found(tmp_path: Path, run: Any) -> None:
    write(tmp_path / "x" / "production", run("production", SCORES))
    write(tmp_path / "x" / "off", run("off", SCORES))
    assert [found.manifest.arm for found in find_runs(tmp_path)] == ["off", "production"]
    assert [found.manifest.arm for found in find_runs(tmp_path / "x" / "off")] == ["off"]


def test_conditions_leave_the_clock_out(run: Any) -> None:
    early, late = run("off", SCORES, started_at="1"), run("off", SCORES, started_at="2")
    assert early.manifest.conditions() == late.manifest.conditions()
    assert json.dumps(early.manifest.conditions())


def test_searched_text_shows_supplied_keywords(run: Any) -> None:
    made = run("kw", {"a": [0.1]}, records={("a", 1): {"ll_keywords": ("santé",), "hl_keywords": ("prix",)}})
    assert made.records[0].searched == "reply a [santé | prix]"
