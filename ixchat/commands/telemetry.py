"""`ix telemetry`: the engine's records as training data."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from ixinfra.errors import ConfigError
from ixrag.search.training import TrainingFor, training_rows


def run(console: Console, *, path: Path, purpose: str) -> None:
    """Print one JSON line for each training row of records in JSON Lines or Parquet.

    Raises:
        ConfigError: `purpose` is neither `gate` nor `rewriter`, or there is no such file.
        DatasetError: Something in it is not a record.
        MissingExtraError: It is Parquet, and the extra `telemetry` is not installed.
    """
    wanted: dict[str, TrainingFor] = {"gate": "gate", "rewriter": "rewriter"}
    if purpose not in wanted:
        raise ConfigError(f"--for {purpose!r}: expected one of {list(wanted)}")
    if not path.exists():
        raise ConfigError(f"no records in {str(path)!r}; set engine.telemetry_file and engine.telemetry_text")
    for row in training_rows(path, wanted[purpose]):
        console.print(json.dumps(row, ensure_ascii=False), soft_wrap=True, markup=False, highlight=False)
