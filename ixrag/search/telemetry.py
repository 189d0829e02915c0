"""One record a search, written off its path: what was asked, what each index said, what was returned."""

from __future__ import annotations

import hashlib
import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

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


Write = Callable[[Sequence[dict[str, Any]]], None]
"""Puts records, as JSON types, where they are kept."""


class RecordSink:
    """Hands records to a writer, on a thread of its own.

    A full queue drops the new record and counts it: a search never waits for a disk.

    Args:
        write: Called on that thread alone, with one record or more.
        visitor_text: Whether texts are written, or their lengths and digests alone.
        max_queued: Records that may wait.
        at_once: Most records of one call.
        every_s: How long a record may wait for others, in seconds; 0 takes those that are there.
    """

    def __init__(
        self,
        write: Write,
        *,
        visitor_text: bool,
        max_queued: int = MAX_QUEUED,
        at_once: int = MAX_QUEUED,
        every_s: float = 0.0,
    ) -> None:
        self._write = write
        self._visitor_text = visitor_text
        self._at_once = at_once
        self._every_s = every_s
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
        while (first := self._queue.get()) is not None:
            records, is_last = self._gather(first)
            try:
                self._write([record.as_json(visitor_text=self._visitor_text) for record in records])
            except (OSError, TypeError, ValueError, NotImplementedError) as error:
                self.dropped += len(records)
                _log.warning("telemetry.not_written: %s", type(error).__name__)
            if is_last:
                return

    def _gather(self, first: SearchRecord) -> tuple[list[SearchRecord], bool]:
        """The first record and those that come in time to go with it; whether the sink was closed meanwhile."""
        records, due_s = [first], time.monotonic() + self._every_s
        while len(records) < self._at_once:
            try:
                record = self._queue.get(timeout=max(0.0, due_s - time.monotonic()))
            except queue.Empty:
                break
            if record is None:
                return records, True
            records.append(record)
        return records, False


class JsonlSink(RecordSink):
    """Appends records to a file, one JSON line each.

    Args:
        path: Made on the first record, folder included.
        visitor_text: As for `RecordSink`.
        max_queued: As for `RecordSink`.
    """

    def __init__(self, path: Path, *, visitor_text: bool, max_queued: int = MAX_QUEUED) -> None:
        def write(records: Sequence[dict[str, Any]]) -> None:
            lines = "".join(json.dumps(record, ensure_ascii=True) + "\n" for record in records)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(lines)

        super().__init__(write, visitor_text=visitor_text, max_queued=max_queued)


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


def _plain(text: str) -> Any:
    return text.encode("utf-8", "replace").decode("utf-8")


def _hidden(text: str) -> Any:
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return {"characters": len(text), "digest": digest}
