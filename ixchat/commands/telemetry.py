"""`ix telemetry`: the engine's records as training data."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from ixinfra.errors import ConfigError
from ixrag.search.telemetry import TrainingFor, training_rows


def run(console: Console, *, path: Path, purpose: str) -> None:
    """Print one JSON line for each training row of a file of records.

    Raises:
        ConfigError: `purpose` is neither `gate` nor `rewriter`, or there is no such file.
        DatasetError: A line is not a record.
    """
    wanted: dict[str, TrainingFor] = {"gate": "gate", "rewriter": "rewriter"}
    if purpose not in wanted:
        raise ConfigError(f"--for {purpose!r}: expected one of {list(wanted)}")
    if not path.is_file():
        raise ConfigError(f"no file {str(path)!r}; set engine.telemetry_file and engine.telemetry_text")
    for row in training_rows(path, wanted[purpose]):
        console.print(json.dumps(row, ensure_ascii=False), soft_wrap=True, markup=False, highlight=False)
