"""Sends sets and finished runs to Langfuse, and remembers what is there so that a second push adds nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ixevaluation.dataset import NAME_PREFIX, Item, ItemSet
from ixevaluation.records import Record, Run
from ixevaluation.report import incomplete_line
from ixinfra.errors import IncompleteRunError
from ixinfra.langfuse_runs import Client, DatasetItem, ItemResult, push_dataset, push_run

PUSHED = "langfuse.json"


def upload_items(client: Client, name: str, items: Sequence[Item]) -> int:
    """Create or update the dataset `query-rewriter-NAME`; returns how many items it got."""
    return push_dataset(
        client,
        f"{NAME_PREFIX}{name}",
        [
            DatasetItem(
                id=item.id,
                input=item.model_dump(mode="json", include={"query", "history", "company_name"}),
                expected=item.model_dump(mode="json", include={"need", "relevant", "answer", "expected"}),
                metadata=item.model_dump(mode="json", include={"site", "lang", "mode", "split", "tags"}),
            )
            for item in items
        ],
        description="Turns for evaluating query resolution.",
    )


def upload_run(client: Client, run: Run, item_set: ItemSet) -> list[str]:
    """Send every repetition of a complete run as an experiment of its own; returns their names.

    Raises:
        IncompleteRunError: The run lost an item; nothing is sent.
        UploadError: Langfuse did not take everything.
    """
    if not run.is_complete:
        raise IncompleteRunError(f"{run.manifest.arm}: {incomplete_line(run)}; nothing was sent")
    upload_items(client, item_set.name, item_set.items)
    memory = run.folder / PUSHED
    pushed: dict[str, dict[str, str]] = json.loads(memory.read_text()) if memory.is_file() else {}
    names = []
    for number in range(1, run.manifest.runs + 1):
        name = run_name(run, number)
        results = [_result(record) for record in run.records if record.run == number]
        pushed[name] = push_run(
            client,
            f"{NAME_PREFIX}{item_set.name}",
            name,
            results,
            metadata=_facts(run),
            known_traces=pushed.get(name),
        )
        memory.write_text(json.dumps(pushed, indent=1) + "\n", encoding="utf-8")
        names.append(name)
    return names


def run_name(run: Run, number: int) -> str:
    """Arm, mode, start and repetition: Langfuse merges runs of one name."""
    manifest = run.manifest
    return f"{manifest.arm} {manifest.rag_mode} {manifest.started_at} run {number}"


def _result(record: Record) -> ItemResult:
    output = record.model_dump(
        mode="json",
        include={"query", "ll_keywords", "hl_keywords", "decision", "fallback", "entity", "found", "path"},
    )
    return ItemResult(record.id, output, record.scores, record.comment)


def _facts(run: Run) -> dict[str, str]:
    manifest = run.manifest
    return {
        "arm": manifest.arm,
        "engine": manifest.engine,
        "rag_mode": manifest.rag_mode,
        "judge": manifest.judge,
        "dataset_sha256": manifest.dataset_sha256[:12],
        "commit": manifest.commit,
    }
