"""Records in Parquet: a folder of parts, each written whole, that analytical tools read as one table."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ixinfra.errors import DatasetError, MissingExtraError
from ixrag.search.telemetry import MAX_QUEUED, RecordSink

PARQUET = ".parquet"  # a telemetry file with this ending is a folder of parts
PART_RECORDS = 1000
PART_S = 60.0  # a crash loses no more than this

_NESTED = ("timings_ms", "cost", "facts")  # open sets of keys: kept as JSON


class ParquetSink(RecordSink):
    """Writes a part whenever there are enough records, or the first of them has waited long enough.

    Args:
        folder: Made on the first record.
        visitor_text: As for `RecordSink`; without it the columns `text` are null, lengths and digests stay.
        max_queued: As for `RecordSink`.
        part_records: Most records of a part.
        part_s: Longest wait of a record, in seconds.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """

    def __init__(
        self,
        folder: Path,
        *,
        visitor_text: bool,
        max_queued: int = MAX_QUEUED,
        part_records: int = PART_RECORDS,
        part_s: float = PART_S,
    ) -> None:
        arrow, parquet = _pyarrow()
        schema, numbers = _schema(arrow), itertools.count()

        def write(records: Sequence[dict[str, Any]]) -> None:
            table = arrow.Table.from_pylist([_row(record) for record in records], schema=schema)
            folder.mkdir(parents=True, exist_ok=True)
            name = f"part-{time.time_ns() // 1_000_000}-{os.getpid()}-{next(numbers)}{PARQUET}"
            unfinished = folder / f".{name}.tmp"  # a reader never sees half a part
            parquet.write_table(table, unfinished, compression="zstd")
            unfinished.rename(folder / name)

        super().__init__(
            write, visitor_text=visitor_text, max_queued=max_queued, at_once=part_records, every_s=part_s
        )


def read_parquet(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and JSON of each record in a part, or in a folder of parts, oldest first.

    Raises:
        DatasetError: A file is not Parquet, or holds something else than records.
        MissingExtraError: pyarrow is not installed.
    """
    arrow, parquet = _pyarrow()
    schema = _schema(arrow)
    for part in sorted(path.glob(f"*{PARQUET}")) if path.is_dir() else [path]:
        try:
            rows = parquet.ParquetFile(part).read().cast(schema).to_pylist()
        except (OSError, ValueError, KeyError) as error:  # Arrow's own errors are among these
            raise DatasetError(f"{part}: no Parquet file of records ({type(error).__name__})") from None
        for number, row in enumerate(rows, start=1):
            yield f"{part}: row {number}", _record(row)


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    row = {**record, "query": _text(record["query"])}
    for name in ("forms", "probes"):
        row[name] = [{**item, "text": _text(item["text"])} for item in record[name]]
    row["fused"] = [{"id": key, "score": score} for key, score in record["fused"]]
    return row | {name: json.dumps(record[name]) for name in _NESTED}


def _record(row: Mapping[str, Any]) -> dict[str, Any]:
    record = {**row, "query": _shown(row["query"])}
    for name in ("forms", "probes"):
        record[name] = [{**item, "text": _shown(item["text"])} for item in row[name]]
    record["fused"] = [[item["id"], item["score"]] for item in row["fused"]]
    return record | {name: json.loads(row[name]) for name in _NESTED}


def _text(shown: str | Mapping[str, Any]) -> dict[str, Any]:
    return {"text": shown} if isinstance(shown, str) else dict(shown)


def _shown(text: Mapping[str, Any]) -> Any:
    if text["text"] is not None:
        return text["text"]
    return {"characters": text["characters"], "digest": text["digest"]}


def _schema(arrow: Any) -> Any:
    text = arrow.struct({"text": arrow.string(), "characters": arrow.int64(), "digest": arrow.string()})
    strings = arrow.list_(arrow.string())
    form = arrow.struct({"component": arrow.string(), "text": text})
    probe = arrow.struct(
        {
            "channel": arrow.string(),
            "source": arrow.string(),
            "text": text,
            "weight": arrow.float64(),
            "state": arrow.string(),
            "error": arrow.string(),
            "ms": arrow.float64(),
            "ids": strings,
        }
    )
    fused = arrow.struct({"id": arrow.string(), "score": arrow.float64()})
    columns = {
        "at_s": arrow.float64(),
        "tenant_id": arrow.string(),
        "query": text,
        "strategy": arrow.string(),
        "confidence": arrow.float64(),
        "forms": arrow.list_(form),
        "probes": arrow.list_(probe),
        "fused": arrow.list_(fused),
        "selected": strings,
        **dict.fromkeys(_NESTED, arrow.string()),
    }
    return arrow.schema(columns)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("records in Parquet need pyarrow: pip install 'ixchat[telemetry]'") from error
    return pyarrow, pyarrow.parquet
