"""`ix config`: what is in force, and why."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from ixinfra.config.loader import effective
from ixinfra.config.settings import Settings


def run(settings: Settings, console: Console, *, as_json: bool) -> None:
    """Print every key with its value and its source; secrets are masked."""
    rows = effective(settings)
    if as_json:
        console.print_json(data=rows)
        return
    table = Table("key", "value", "from", title=f"environment {settings.env}", title_justify="left")
    for key, row in rows.items():
        table.add_row(key, str(row["value"]), str(row["source"]))
    console.print(table)
