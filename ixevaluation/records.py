"""A run on disk: `run.json` says what was run, `items.jsonl` holds one record per item and repetition.

Numbers are never stored alone: every mean, interval and verdict is computed from the records. A run
is complete when every judged item has a record without an error in every repetition, and at no other time.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ixevaluation.dataset import Mode, read_jsonl, read_records
from ixinfra.errors import DatasetError

MANIFEST = "run.json"
RECORDS = "items.jsonl"

JudgeName = Literal["labels", "sufficiency"]


class ItemRef(BaseModel):
    """What a comparison needs to know about an item, kept in the run so that it stands alone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    lang: str
    mode: Mode
    cluster: str
    query: str
    judged: bool
    expected_decision: str | None = None
    expected_name: str | None = None


class Manifest(BaseModel):
    """What was run, and everything that would change the result."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    arm: str
    dataset: str
    dataset_sha256: str
    sealed: bool
    items: tuple[ItemRef, ...]
    runs: int = Field(ge=1)
    judge: JudgeName
    metrics: tuple[str, ...]
    engine: str
    rag_mode: str
    env: str
    knowledge_base: str = ""
    models: dict[str, str] = {}
    prompts: dict[str, str] = {}
    packages: dict[str, str] = {}
    seed: int = 0
    commit: str = ""
    started_at: str = ""

    def conditions(self) -> dict[str, Any]:
        """What must be equal for two sittings to be one run; the clock is not part of it."""
        return self.model_dump(mode="json", exclude={"started_at"})


class FoundPassage(BaseModel):
    """One document of the result, without its text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    kind: str = "chunk"


class Record(BaseModel):
    """One item, run once.

    Attributes:
        id: The item.
        run: Repetition, from 1.
        error: Why the item has no scores; None for a whole record.
        message: The visitor's message.
        query: Text that was searched, before any company binding.
        ll_keywords: Entity terms the resolver supplied.
        hl_keywords: Theme terms, likewise.
        channels: What each channel was really sent.
        changed: Whether retrieval got anything but the visitor's words.
        path: Which resolver was asked.
        decision: What was decided.
        fallback: Why the visitor's words stand although resolution was possible.
        entity: The name that was appended.
        input_sha: Hash of what retrieval was given; equal hashes are equal inputs.
        passages_sha: Hash of the returned texts, in order.
        judge_sha: Hash of all the judge read; "" for the label judge, which reads no text.
        found: Documents, best first.
        scores: Metric to value, 0 to 1; empty for items that are not judged.
        rejudged: A second, independent score of the same passages; None unless asked for.
        comment: The judge's own words.
        hygiene: Defects of the searched text, by name.
        total_ms: Time in the retrieval node.
        check_ms: Time in the resolver; 0 where none ran.
        asked: Whether rules in front of a model asked it; None where no such route ran.
        agrees: Whether its answer was theirs; None where it was not asked.
        model_calls: Chat-model calls of the turn.
        tokens: Tokens of those calls, where the server counts.
        problems: What went wrong on the way without ending the turn.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    run: int = Field(ge=1)
    error: str | None = None
    message: str = ""
    query: str = ""
    ll_keywords: tuple[str, ...] = ()
    hl_keywords: tuple[str, ...] = ()
    channels: dict[str, Any] = {}
    changed: bool = False
    path: str = "raw"
    decision: str = "raw"
    fallback: str | None = None
    entity: str | None = None
    input_sha: str = ""
    passages_sha: str = ""
    judge_sha: str = ""
    found: tuple[FoundPassage, ...] = ()
    scores: dict[str, float] = {}
    rejudged: float | None = None
    comment: str = ""
    hygiene: tuple[str, ...] = ()
    total_ms: float = 0.0
    check_ms: float = 0.0
    asked: bool | None = None
    agrees: bool | None = None
    model_calls: int = 0
    tokens: int = 0
    problems: tuple[str, ...] = ()

    @property
    def searched(self) -> str:
        """The searched text with the supplied keywords, for a reader."""
        if not self.ll_keywords:
            return self.query
        return f"{self.query} [{', '.join(self.ll_keywords)} | {', '.join(self.hl_keywords)}]"


@dataclass(frozen=True)
class Run:
    """One arm on one set: the manifest and the records that exist."""

    manifest: Manifest
    records: tuple[Record, ...]
    folder: Path = field(default=Path(), compare=False)

    @cached_property
    def by_item(self) -> Mapping[str, Sequence[Record]]:
        """Whole records of each item, by repetition."""
        found: dict[str, list[Record]] = {item.id: [] for item in self.manifest.items}
        for record in sorted(self.records, key=lambda record: record.run):
            if record.error is None and record.id in found:
                found[record.id].append(record)
        return found

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """What keeps the run from being complete, one line an item and repetition; empty when it is."""
        errors = {(record.id, record.run): record.error for record in self.records}
        gaps = []
        for number in range(1, self.manifest.runs + 1):
            for item in self.manifest.items:
                key = (item.id, number)
                if key not in errors:
                    gaps.append(f"{item.id} (run {number}): not run")
                elif errors[key] is not None:
                    gaps.append(f"{item.id} (run {number}): {errors[key]}")
        return tuple(gaps)

    @property
    def is_complete(self) -> bool:
        """Whether the run may be scored at all."""
        return not self.missing

    def scores(self, metric: str) -> dict[str, list[float]]:
        """Judged item to its score in each repetition; items without this metric are left out."""
        judged = {item.id for item in self.manifest.items if item.judged}
        return {
            item_id: [record.scores[metric] for record in records]
            for item_id, records in self.by_item.items()
            if item_id in judged and all(metric in record.scores for record in records)
        }


class RunWriter:
    """Appends records to a run directory; each is written before the next item starts."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / RECORDS
        (folder / MANIFEST).write_text(
            json.dumps(manifest.model_dump(mode="json"), ensure_ascii=False, indent=1) + "\n",
            encoding="utf-8",
        )

    def keep(self, records: Iterable[Record]) -> None:
        """Begin with these records, replacing what is there."""
        lines = [_line(record) for record in records]
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text("".join(lines), encoding="utf-8")
        temporary.replace(self._path)

    def add(self, record: Record) -> None:
        """Append one record; a process killed afterwards does not lose it."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_line(record))


def read_run(folder: Path) -> Run:
    """Read a run directory. A last line cut short by a killed process is left out.

    Raises:
        DatasetError: Not a run directory, or a damaged file.
    """
    manifest_path = folder / MANIFEST
    if not manifest_path.is_file():
        raise DatasetError(f"{str(folder)!r} is not a run: it has no {MANIFEST}")
    try:
        manifest = Manifest.model_validate_json(manifest_path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DatasetError(f"{manifest_path}: not a run's manifest ({type(error).__name__})") from None
    records = folder / RECORDS
    if not records.is_file():
        return Run(manifest, (), folder)
    _drop_cut_line(records)
    return Run(manifest, tuple(read_jsonl(records, Record)), folder)


def find_runs(folder: Path) -> list[Run]:
    """The run in `folder`, or all runs in folders below it, in order of their names.

    Raises:
        DatasetError: There is none.
    """
    if (folder / MANIFEST).is_file():
        return [read_run(folder)]
    found = [read_run(path.parent) for path in sorted(folder.glob(f"**/{MANIFEST}"))]
    if not found:
        raise DatasetError(f"no runs in {str(folder)!r}; `rose-eval query-rewriter --json DIR` writes them")
    return found


def _line(record: Record) -> str:
    return json.dumps(record.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False) + "\n"


def _drop_cut_line(path: Path) -> None:
    with contextlib.suppress(DatasetError):
        for _ in read_records(path):
            pass
        return
    text = path.read_text(encoding="utf-8", errors="ignore")
    if not text.endswith("\n"):
        path.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")
