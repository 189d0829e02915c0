"""One record a search, written off its path: what was asked, what each index said, what was returned."""

from __future__ import annotations

import hashlib
import json
import logging
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from ixinfra.errors import DatasetError
from ixrag.search.fan_out import Outcome

MAX_QUEUED = 1000
RANKS_KEPT = 20  # ids of each list that a record holds
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """Everything about one search that the next version of the gate or the rewriter could learn from.

    Attributes:
        query: What was searched.
        tenant_id: Whose visitor asked.
        strategy: What the gate chose, or "" where none was asked.
        confidence: Its confidence, 0 to 1.
        forms: Other forms that were searched: component and text.
        probes: Each index call: channel, source, text, state, milliseconds and the ids found.
        fused: Ids and fused scores, best first.
        selected: Ids that were returned, in order.
        timings_ms: By part of the search.
        cost: Model calls, and tokens where they are known.
        facts: What was left out, and why.
        at_s: Unix time.
    """

    query: str
    tenant_id: str
    strategy: str = ""
    confidence: float | None = None
    forms: Sequence[Mapping[str, str]] = ()
    probes: Sequence[Mapping[str, Any]] = ()
    fused: Sequence[tuple[str, float]] = ()
    selected: Sequence[str] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    cost: Mapping[str, int] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    at_s: float = field(default_factory=time.time)

    def as_json(self, *, visitor_text: bool) -> dict[str, Any]:
        """The record as JSON types.

        Args:
            visitor_text: If not, every text becomes its length and a digest, which still joins equal ones.
        """
        shown = _plain if visitor_text else _hidden
        return {
            "at_s": round(self.at_s, 3),
            "tenant_id": self.tenant_id,
            "query": shown(self.query),
            "strategy": self.strategy,
            "confidence": self.confidence,
            "forms": [{**form, "text": shown(form["text"])} for form in self.forms],
            "probes": [{**probe, "text": shown(probe["text"])} for probe in self.probes],
            "fused": [[key, round(score, 6)] for key, score in self.fused],
            "selected": list(self.selected),
            "timings_ms": {key: round(value, 3) for key, value in self.timings_ms.items()},
            "cost": dict(self.cost),
            "facts": dict(self.facts),
        }


class Sink(Protocol):
    """Takes records; never waits, never raises."""

    def put(self, record: SearchRecord) -> None:
        """Take a record, or drop it where there is no room."""


class JsonlSink:
    """Appends records to a file, on a thread of its own.

    A full queue drops the new record and counts it: a search never waits for a disk.

    Args:
        path: Made on the first record, folder included.
        visitor_text: Whether texts are written, or their lengths and digests alone.
        max_queued: Records that may wait.
    """

    def __init__(self, path: Path, *, visitor_text: bool, max_queued: int = MAX_QUEUED) -> None:
        self._path = path
        self._visitor_text = visitor_text
        self._queue: queue.Queue[SearchRecord | None] = queue.Queue(max_queued)
        self._thread = threading.Thread(target=self._write_all, name="ix-telemetry", daemon=True)
        self._thread.start()
        self.dropped = 0

    def put(self, record: SearchRecord) -> None:
        """Queue a record."""
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1

    def close(self, timeout_s: float = 1.0) -> None:
        """Write what is queued, for at most this long."""
        try:
            self._queue.put(None, timeout=timeout_s)
        except queue.Full:
            return
        self._thread.join(timeout_s)

    def _write_all(self) -> None:
        while (record := self._queue.get()) is not None:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a", encoding="utf-8") as file:
                    self._write(file, record)
                    self._drain(file)
            except (OSError, TypeError, ValueError) as error:
                self.dropped += 1
                _log.warning("telemetry.not_written: %s", type(error).__name__)

    def _drain(self, file: Any) -> None:
        """What else is waiting, while the file is open."""
        while True:
            try:
                record = self._queue.get_nowait()
            except queue.Empty:
                return
            if record is None:
                self._queue.put(None)
                return
            self._write(file, record)

    def _write(self, file: Any, record: SearchRecord) -> None:
        line = json.dumps(record.as_json(visitor_text=self._visitor_text), ensure_ascii=True)
        file.write(line + "\n")


def probe_facts(outcome: Outcome) -> dict[str, Any]:
    """What a record says about one index call."""
    return {
        "channel": outcome.probe.channel,
        "source": outcome.probe.source,
        "text": outcome.probe.text,
        "weight": outcome.probe.weight,
        "state": outcome.state,
        "error": outcome.error,
        "ms": round(outcome.elapsed_ms, 3),
        "ids": [hit.id for hit in outcome.hits[:RANKS_KEPT]],
    }


TrainingFor = Literal["gate", "rewriter"]


def training_rows(path: Path, purpose: TrainingFor) -> Iterator[dict[str, Any]]:
    """Training data out of a file of records.

    `gate`: query, strategy and confidence of every search, and whether a form found something the query
    alone had not found. `rewriter`: for each form, the ids it brought into what was returned.
    Records without text cannot be learned from and are skipped.

    Raises:
        DatasetError: A line is not a record; the message names it.
    """
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                record = json.loads(line)
                if isinstance(record["query"], str):
                    yield from (_gate_row(record),) if purpose == "gate" else _form_rows(record)
            except (ValueError, KeyError, TypeError) as error:
                raise DatasetError(f"{path}:{number}: not a record ({type(error).__name__})") from None


def _gate_row(record: Mapping[str, Any]) -> dict[str, Any]:
    brought = {key for row in _form_rows(record) for key in row["brought"]}
    return {
        "query": record["query"],
        "strategy": record["strategy"],
        "confidence": record["confidence"],
        "forms_helped": bool(brought),
    }


def _form_rows(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    own = {key for probe in record["probes"] if probe["source"] == "query" for key in probe["ids"]}
    for form in record["forms"]:
        found = {key for probe in record["probes"] if probe["text"] == form["text"] for key in probe["ids"]}
        brought = [key for key in record["selected"] if key in found and key not in own]
        yield {
            "query": record["query"],
            "component": form["component"],
            "text": form["text"],
            "brought": brought,
        }


def _plain(text: str) -> Any:
    return text.encode("utf-8", "replace").decode("utf-8")


def _hidden(text: str) -> Any:
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return {"characters": len(text), "digest": digest}
