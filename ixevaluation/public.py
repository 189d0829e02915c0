"""Public benchmarks, read from a folder the user has: nothing is downloaded and nothing is bundled.

Two layouts are understood: the project's own conversion (`dev/retrieval-*.jsonl` beside `passages/`)
and the publishers' (see `publishers`). Both become one folder a set: `items.jsonl`, `passages.jsonl`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from ixevaluation.dataset import (
    IMPORTED_DIR,
    Expected,
    HistoryMessage,
    Item,
    Mode,
    Passage,
    Split,
    read_jsonl,
    read_records,
    write_jsonl,
)
from ixevaluation.publishers import Record, Turns, read_publisher
from ixinfra.errors import DatasetError

Benchmark = Literal["mtrag", "mtrag-un", "canard"]
BENCHMARKS: tuple[Benchmark, ...] = get_args(Benchmark)

LICENCES: Mapping[Benchmark, str] = {
    "mtrag": "Apache-2.0, IBM, MTRAG",
    "mtrag-un": "Apache-2.0, IBM, MTRAG-UN",
    "canard": "CC BY-SA 4.0, Elgohary, Peskov and Boyd-Graber 2019 (QuAC, Wikipedia)",
}
PRONOUN = re.compile(
    r"\b(it|its|they|them|their|theirs|he|him|his|she|her|hers|this|that|these|those|there|one|ones)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import wrote."""

    name: Benchmark
    folder: Path
    items: int
    passages: int
    licence: str


def import_benchmark(name: str, source: Path, *, split: Split = "dev", to: Path = IMPORTED_DIR) -> Imported:
    """Convert one public benchmark into an item set that `rose-eval query-rewriter NAME` runs.

    Args:
        name: One of `BENCHMARKS`.
        source: Folder with the files, in either layout.
        split: Which half, by conversation; the holdout half is for confirming, never for tuning.
        to: Parent of the folder that is written.

    Raises:
        DatasetError: Unknown name, or the folder lacks a file; the message names it.
    """
    if name not in BENCHMARKS:
        raise DatasetError(f"unknown benchmark {name!r}; expected one of {list(BENCHMARKS)}")
    if not source.is_dir():
        raise DatasetError(f"no folder {str(source)!r}; `--from` is where the benchmark's files are")
    read = _read_converted if (source / "passages").is_dir() else read_publisher
    records, passages = read(name, source, split)
    items = [_item(record, split) for record in records]
    if not items:
        raise DatasetError(f"{source}: no item of the {split} half of {name}")
    folder = to / (name if split == "dev" else f"{name}-{split}")
    return Imported(
        name=name,
        folder=folder,
        items=write_jsonl(folder / "items.jsonl", items),
        passages=write_jsonl(folder / "passages.jsonl", passages),
        licence=LICENCES[name],
    )


def surface_mode(query: str, history: Sequence[Any]) -> Mode:
    """The kind of turn as its surface shows it, for sets that carry no label of our kind."""
    if not history:
        return "self_sufficient"
    # Spelt out here, not taken from the gate: a label must not move when the gate is changed.
    if len(query.split()) <= 4 and not query.rstrip().endswith("?"):
        return "elliptical"
    return "pronoun" if PRONOUN.search(query) else "self_sufficient"


def _item(record: Mapping[str, Any], split: Split) -> Item:
    history = tuple(HistoryMessage.model_validate(message) for message in record["history"])
    spoken = [message for message in history if message.role != "system"]
    marks = [
        record.get("question_type") or [],
        record.get("answerability") or [],
        record.get("multi_turn") or [],
    ]
    return Item(
        id=record["id"],
        site=record["source"],
        lang=record["lang"],
        mode=surface_mode(record["query"], spoken),
        history=history,
        query=record["query"],
        relevant=tuple(record["relevant"]),
        tags=tuple(dict.fromkeys(str(mark) for group in marks for mark in group)),
        split=split,
        expected=_expected(record),
        conversation=record["conversation"],
        domain=record["domain"],
        rewrite=record.get("human_rewrite") or record.get("model_rewrite"),
    )


def _expected(record: Mapping[str, Any]) -> Expected | None:
    """A derived label, only where a person's rewrite was the source of it."""
    if record.get("gate") == "resolve":
        return Expected(decision="resolve", name=record.get("antecedent"))
    return Expected(decision="keep") if record.get("gate") == "none" else None


_FILES: Mapping[str, tuple[str, str]] = {
    "mtrag": ("retrieval-mtrag.jsonl", "mtrag-*.jsonl"),
    "mtrag-un": ("retrieval-mtragun.jsonl", "mtrag-*.jsonl"),
    "canard": ("retrieval-canard.jsonl", "canard.jsonl"),
}


def _read_converted(name: str, source: Path, split: Split) -> Turns:
    items_file, passage_pattern = _FILES[name]
    records: list[Record] = [record for _, record in read_records(source / split / items_file)]
    paths = sorted((source / "passages").glob(passage_pattern))
    if not paths:
        raise DatasetError(f"{source / 'passages'}: no file {passage_pattern!r}")
    title_is_text = name == "canard"  # MTRAG's texts begin with their titles already
    return records, list(_passages(paths, title_is_text))


def _passages(paths: Iterable[Path], title_is_text: bool) -> Iterable[Passage]:
    for path in paths:
        for passage in read_jsonl(path, Passage):
            text = f"{passage.title}\n{passage.text}" if title_is_text else passage.text
            yield Passage(id=passage.id, text=text, domain=passage.domain)
