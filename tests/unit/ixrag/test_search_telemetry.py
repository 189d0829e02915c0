"""Records of searches: written off the path, in two formats that say the same, and read as training data."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import run_in_virtual_time
from search_fakes import FakeIndex, engine
from typer.testing import CliRunner

from ixchat.commands.app import app
from ixinfra.errors import DatasetError, MissingExtraError
from ixrag.query import HeuristicQueryDecomposer, QueryUnderstandingPipeline
from ixrag.search.parquet import ParquetSink, read_parquet
from ixrag.search.telemetry import JsonlSink, RecordSink, SearchRecord
from ixrag.search.training import training_rows

pytest.importorskip("pyarrow", reason="the telemetry extra is not installed")

KINDS: dict[str, Callable[..., RecordSink]] = {".jsonl": JsonlSink, ".parquet": ParquetSink}


@pytest.fixture(params=KINDS)
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def probe(source: str, text: str, *ids: str) -> dict[str, Any]:
    facts = {"channel": "bm25", "weight": 1.0, "state": "found", "error": None, "ms": 0.5}
    return {**facts, "source": source, "text": text, "ids": list(ids)}


def record(query: str = "HCM pricing") -> SearchRecord:
    probes = [probe("query", query, "a", "b"), probe("glossary", "human capital", "c", "a")]
    forms = [{"component": "glossary", "text": "human capital"}]
    return SearchRecord(query, "acme", "expand", 0.8, forms, probes, selected=["a", "c"])


def written(path: Path, *records: SearchRecord, visitor_text: bool) -> list[dict[str, Any]]:
    sink = KINDS[path.suffix](path, visitor_text=visitor_text)
    for one in records:
        sink.put(one)
    sink.close(10.0)
    if path.suffix == ".parquet":
        return [read for _, read in read_parquet(path)]
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_records_become_training_data(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"r{suffix}"
    written(path, record(), visitor_text=True)
    assert list(training_rows(path, "gate")) == [
        {"query": "HCM pricing", "strategy": "expand", "confidence": 0.8, "forms_helped": True}
    ]
    assert list(training_rows(path, "rewriter")) == [
        {"query": "HCM pricing", "component": "glossary", "text": "human capital", "brought": ["c"]}
    ]


def test_without_the_switch_no_text_is_written_and_equal_texts_still_join(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"r{suffix}"
    one, other = written(path, record(), record(), visitor_text=False)
    files = [path] if path.is_file() else sorted(path.iterdir())
    for text in (b"HCM", b"human", b"capital", b"pricing"):
        assert not any(text in file.read_bytes() for file in files)
    assert "human" not in json.dumps(one)
    (third,) = written(tmp_path / f"o{suffix}", record("other words"), visitor_text=False)
    assert one["query"] == other["query"] != third["query"]
    assert list(training_rows(path, "gate")) == []


@pytest.mark.parametrize("visitor_text", [True, False])
def test_both_formats_hold_the_same_of_a_real_search(tmp_path: Path, visitor_text: bool) -> None:
    class Kept:
        def __init__(self) -> None:
            self.records: list[SearchRecord] = []

        def put(self, record: SearchRecord) -> None:
            self.records.append(record)

    kept, found = Kept(), {"dense": ["a", "b"], "bm25": RuntimeError("down"), "sparse": []}
    pipeline = QueryUnderstandingPipeline(decomposer=HeuristicQueryDecomposer())
    retriever = engine(FakeIndex(found), pipelines={"decompose": pipeline}, sink=kept)  # type: ignore[arg-type]  # a dict of literals
    for strategy, query in (
        ("passthrough", "\ud800 paie"),
        ("decompose", "What does it cost? And who buys it?"),
    ):
        run_in_virtual_time(retriever.with_strategy(strategy, 0.7).ainvoke(query))  # type: ignore[arg-type]
    as_lines = written(tmp_path / "r.jsonl", *kept.records, visitor_text=visitor_text)
    assert written(tmp_path / "r.parquet", *kept.records, visitor_text=visitor_text) == as_lines
    assert {probe["state"] for probe in as_lines[0]["probes"]} == {"found", "failed", "empty"}
    assert as_lines[1]["forms"]


def test_a_full_queue_drops_and_counts_and_never_waits(tmp_path: Path, suffix: str) -> None:
    sink = KINDS[suffix](tmp_path / "no" / f"r{suffix}", visitor_text=True, max_queued=1)
    gate = threading.Event()

    class Slow(SearchRecord):
        def as_json(self, *, visitor_text: bool) -> dict[str, Any]:
            gate.wait(10.0)
            return record().as_json(visitor_text=visitor_text)

    for _ in range(5000):
        sink.put(Slow("q", "acme"))
    assert sink.dropped >= 2000  # a part holds 1,000, and one more may wait
    gate.set()
    sink.close(10.0)


def test_a_disk_that_refuses_costs_a_count(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    sink = KINDS[suffix](tmp_path / "file" / f"r{suffix}", visitor_text=True)
    sink.put(record())
    sink.close(10.0)
    assert sink.dropped == 1


def test_a_line_that_is_no_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=r"r\.jsonl:1"):
        list(training_rows(tmp_path / "r.jsonl", "gate"))


# --- Parquet alone ---


def test_parts_are_whole_bounded_and_read_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "r.parquet"
    sink = ParquetSink(folder, visitor_text=True, part_records=2)
    for number in range(5):
        sink.put(record(f"query {number}"))
    sink.close(10.0)
    (folder / ".part-9-9-9.parquet.tmp").write_bytes(b"half a part")
    assert len(list(folder.glob("part-*.parquet"))) == 3
    assert [row["query"] for row in training_rows(folder, "gate")] == [f"query {n}" for n in range(5)]
    part = sorted(folder.glob("part-*.parquet"))[1]
    assert [row["query"] for row in training_rows(part, "gate")] == ["query 2", "query 3"]


@pytest.mark.parametrize("content", [b"", b"PAR1 and then nothing"])
def test_a_file_that_is_no_parquet_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r.parquet").write_bytes(content)
    with pytest.raises(DatasetError, match=r"r\.parquet: no Parquet"):
        list(training_rows(tmp_path / "r.parquet", "gate"))


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"ixchat\[telemetry\]"):
        ParquetSink(tmp_path / "r.parquet", visitor_text=True)
    with pytest.raises(MissingExtraError, match=r"ixchat\[telemetry\]"):
        list(read_parquet(tmp_path))


# --- the command ---


@pytest.mark.parametrize(
    ("purpose", "key"), [("gate", "strategy"), ("rewriter", "component")], ids=["gate", "rewriter"]
)
def test_the_command_reads_both_formats(tmp_path: Path, suffix: str, purpose: str, key: str) -> None:
    path = tmp_path / f"r{suffix}"
    written(path, record(), visitor_text=True)
    done = CliRunner().invoke(app, ["telemetry", str(path), "--for", purpose])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)[key] in ("expand", "glossary")
