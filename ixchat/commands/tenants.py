"""`ix tenants`: every configured tenant, what it searches, and how old that is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ixinfra.config.settings import Settings, TenantConfig
from ixinfra.errors import IxError
from ixrag.lightrag.manifest import Manifest, read_manifest
from ixrag.lightrag.records import open_records
from ixrag.lightrag.stores import STORES
from ixrag.sample import SAMPLE_NAME


async def run(settings: Settings, console: Console, *, as_json: bool) -> None:
    """Print a table, or the same as data. Loads no model and no index."""
    rows = [await describe(settings, tenant_id, tenant) for tenant_id, tenant in settings.tenants.items()]
    if as_json:
        console.print_json(data=rows)
        return
    table = Table(
        *("tenant", "tier", "knowledge base", "holds", "model", "last ingest"),
        title=f"environment {settings.env}, storage {settings.vector_database.storage}",
        title_justify="left",
    )
    for row in rows:
        table.add_row(
            row["tenant"], f"{row['tier']} ({row['rag_mode']})", row["knowledge_base"], *_cells(row)
        )
    console.print(table)


async def describe(settings: Settings, tenant_id: str, tenant: TenantConfig) -> dict[str, Any]:
    """One tenant as JSON: its configuration, and the manifest of its knowledge base where there is one."""
    manifest, status = await _manifest(settings, tenant_id, tenant)
    folder = settings.lightrag.working_dir / tenant.knowledge_base
    has_files = STORES[settings.vector_database.storage].has_files
    return {
        "tenant": tenant_id,
        "tier": tenant.tier,
        "rag_mode": tenant.rag_mode,
        "knowledge_base": tenant.knowledge_base,
        "status": status,
        "passages": manifest.passages if manifest else 0,
        "entities": manifest.entities if manifest else 0,
        "relations": manifest.relations if manifest else 0,
        "graph": manifest.origin.graph if manifest else "",
        "documents": manifest.origin.documents if manifest else 0,
        "model_id": manifest.model_id if manifest else "",
        "built_at": manifest.built_at if manifest else "",
        "megabytes": round(await asyncio.to_thread(_megabytes, folder), 2) if manifest and has_files else 0.0,
    }


def _cells(row: dict[str, Any]) -> tuple[str, str, str]:
    if not row["built_at"]:
        return row["status"], "", ""
    holds = f"{row['passages']} passages, {row['entities']} entities, {row['relations']} relations"
    files = f" of {row['documents']} files" if row["documents"] else ""
    size = f", {row['megabytes']:.1f} MB" if row["megabytes"] else ""
    return f"{holds}{files}{size}", row["model_id"], row["built_at"]


async def _manifest(settings: Settings, tenant_id: str, tenant: TenantConfig) -> tuple[Manifest | None, str]:
    name = tenant.knowledge_base
    try:
        async with open_records(name, settings.lightrag, settings.vector_database) as records:
            manifest = await read_manifest(records)
    except IxError as error:
        return None, str(error)
    if manifest:
        return manifest, "ready"
    if name == SAMPLE_NAME:
        return None, "built when first used"
    return None, f"empty: ix ingest PATH --tenant {tenant_id}"


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
