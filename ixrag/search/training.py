"""What searches teach: records of the engine as training data for its gate and its rewriter."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ixinfra.errors import DatasetError
from ixrag.search.parquet import PARQUET, read_parquet

TrainingFor = Literal["gate", "rewriter"]


def training_rows(path: Path, purpose: TrainingFor) -> Iterator[dict[str, Any]]:
    """Training data out of records, JSON Lines or Parquet.

    `gate`: query, strategy and confidence of every search, and whether a form found something the query
    alone had not found. `rewriter`: for each form, the ids it brought into what was returned.
    Records without text cannot be learned from and are skipped.

    Raises:
        DatasetError: Something in it is not a record; the message names it.
        MissingExtraError: It is Parquet, and pyarrow is not installed.
    """
    for place, read in _records(path):
        try:
            record = read()
            if isinstance(record["query"], str):
                yield from (_gate_row(record),) if purpose == "gate" else _form_rows(record)
        except (ValueError, KeyError, TypeError) as error:
            raise DatasetError(f"{place}: not a record ({type(error).__name__})") from None


def _records(path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Where each record stands, and what reads it."""
    if path.is_dir() or path.suffix == PARQUET:
        for place, record in read_parquet(path):
            yield place, partial(dict, record)
        return
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            yield f"{path}:{number}", partial(json.loads, line)


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
