"""`ix ask`: one message, the conversation before it, and what is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from ixchat.commands import show
from ixchat.graph import open_tenants
from ixchat.nodes.answer import quote_passages
from ixchat.nodes.knowledge_retriever import retrieve
from ixchat.utils.history import turn_from
from ixinfra.config.settings import Settings
from ixinfra.errors import DatasetError
from ixinfra.tracing_tree import RecordingTracer

EXIT_NO_ANSWER = 1  # the engine failed; the reason is in the record


def read_history(path: Path | None) -> list[dict[str, Any]]:
    """The messages of a JSON file; empty without a file.

    Raises:
        DatasetError: The file cannot be read or is not a list of `{role, content}`.
    """
    if path is None:
        return []
    try:
        messages = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise DatasetError(f"{path}: not valid JSON in UTF-8 ({error})") from None
    if isinstance(messages, dict):
        messages = messages.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise DatasetError(f"{path}: expected a list of {{'role': ..., 'content': ...}} objects")
    return messages


async def run(
    settings: Settings,
    console: Console,
    *,
    message: str,
    history: list[dict[str, Any]],
    tenant: str,
    explain: bool,
    as_json: bool,
) -> int:
    """Search and print; returns the exit code."""
    tracer = RecordingTracer()
    async with open_tenants(settings, tracer=tracer) as tenants, tenants.lend(tenant) as deps:
        turn = turn_from(message, history, company_name=deps.company_name, tenant_id=deps.tenant_id)
        with tracer.turn(tenant_id=tenant):
            retrieval = await retrieve(turn, deps)
        quotes = quote_passages(retrieval.documents, deps.language)
    spans = [span for recorded in tracer.take() for span in recorded.spans]
    if as_json:
        data: dict[str, Any] = {"documents": show.documents_as_json(retrieval.documents)}
        if explain:
            data |= {"record": retrieval.record, "spans": show.spans_as_json(spans)}
        console.print_json(data=data)
    elif explain:
        console.print(show.turn_panel(message, retrieval.record, retrieval.documents, spans))
    else:
        console.print(quotes, markup=False, highlight=False)
    return EXIT_NO_ANSWER if retrieval.outcome == "failed" else 0
