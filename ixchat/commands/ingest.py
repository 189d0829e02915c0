"""`ix ingest`: files into a tenant's knowledge base."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ixchat.chat_routing import chat_model
from ixinfra.config.loader import PACKAGED
from ixinfra.config.settings import Settings, TenantConfig, tier_to_rag_mode
from ixinfra.embeddings import Embedder, build_embedder
from ixinfra.errors import ConfigError, IxError, MissingExtraError, UnknownTenantError
from ixrag.ingest.extractor import Extraction
from ixrag.ingest.graph import GlossaryTerm
from ixrag.ingest.run import IngestPlan, IngestReport, Stage, Told, ingest
from ixrag.query.glossary_files import read_names
from ixrag.sample import SAMPLE_NAME

EXIT_SKIPPED = 1  # the index is up to date, but for files that could not be read
SHOWN_PROBLEMS = 20
STAGES: dict[Stage, str] = {"read": "reading files", "extract": "asking the model", "embed": "embedding"}


async def run(
    settings: Settings,
    console: Console,
    *,
    paths: Sequence[Path],
    tenant: str,
    tier: str = "",
    glossary: Path | None = None,
    forget: Sequence[Path] = (),
    rebuild: bool = False,
    replace: bool = False,
    watch: bool = False,
    as_json: bool = False,
) -> int:
    """Ingest once, or for as long as files change; returns the exit code.

    Raises:
        UnknownTenantError: The configuration has no such tenant; the message has the lines to add.
        ConfigError: The tenant cannot be ingested into as configured.
        DatasetError: A path does not exist, or there is nothing to index.
        KnowledgeBaseError: See `ixrag.ingest.run.ingest`.
    """
    configured = expect_tenant(settings, tenant, tier)
    if not paths and not forget:
        raise ConfigError("nothing to do: name files or folders, or --forget some")
    plan = plan_of(
        settings,
        tenant,
        configured,
        paths=paths,
        glossary=glossary,
        forget=forget,
        rebuild=rebuild,
        replace=replace,
    )
    embedder = await asyncio.to_thread(build_embedder, settings.embedding)
    code = await _once(plan, embedder, console, tenant, as_json=as_json)
    if watch:
        await _watch(plan, embedder, console, tenant, as_json=as_json)
    return code


def expect_tenant(settings: Settings, tenant: str, tier: str = "") -> TenantConfig:
    """The tenant's configuration, if files may be ingested into its knowledge base.

    Args:
        settings: What `get_config` read.
        tenant: Its id.
        tier: The tier it should have; "" for whatever it has.

    Raises:
        UnknownTenantError: There is no such tenant.
        UnknownTierError: No tier is called so.
        ConfigError: It has another tier, or searches the bundled sample.
    """
    if tier:
        tier_to_rag_mode(tier)
    path = settings.source.path
    configured = settings.tenants.get(tenant)
    if configured is None:
        raise UnknownTenantError(_lines_to_add(tenant, tier or "advanced", path))
    if tier and tier.strip().casefold() != configured.tier:
        raise ConfigError(
            f"tenant {tenant!r} has tier {configured.tier!r} in {path}, not {tier!r}; change it there first"
        )
    if configured.knowledge_base == SAMPLE_NAME:
        raise ConfigError(
            f"tenant {tenant!r} searches the bundled sample {SAMPLE_NAME!r}, which is no place for your files; give it "
            f"another knowledge_base in {path}, or add a tenant"
        )
    return configured


def plan_of(
    settings: Settings,
    tenant: str,
    configured: TenantConfig,
    *,
    paths: Sequence[Path],
    glossary: Path | None = None,
    forget: Sequence[Path] = (),
    rebuild: bool = False,
    replace: bool = False,
) -> IngestPlan:
    """What is ingested where, by the configuration.

    Raises:
        ConfigError: The glossary or the model route cannot be used.
    """
    sharing = [t for t in settings.tenants.values() if t.knowledge_base == configured.knowledge_base]
    route = settings.models.lightrag_extract
    model = chat_model(settings.models, "lightrag_extract")
    file = glossary or _own_glossary(settings, tenant)
    return IngestPlan(
        name=configured.knowledge_base,
        paths=tuple(paths),
        forget=tuple(forget),
        config=settings.lightrag,
        database=settings.vector_database,
        with_graph=any(t.rag_mode != "naive" for t in sharing),
        glossary=tuple(GlossaryTerm(*named) for named in read_names(file)) if file else (),
        extraction=Extraction(model, route.model, route.timeout_s) if model else None,
        rebuild=rebuild,
        replace=replace,
    )


def _lines_to_add(tenant: str, tier: str, path: Path | None) -> str:
    lines = f'[tenants.{tenant}]\ntier = "{tier}"\ncompany_name = ""\nlanguage = "en"\nknowledge_base = "{tenant}"'
    if path is not None and path.parent == PACKAGED:
        return f"unknown tenant {tenant!r}; copy {path} to {Path('config') / path.name} and add to it:\n\n{lines}\n"
    return f"unknown tenant {tenant!r}; add to {path}:\n\n{lines}\n"


def _own_glossary(settings: Settings, tenant: str) -> Path | None:
    folder = settings.query_understanding.glossary_dir
    files = [folder / f"{tenant}{suffix}" for suffix in (".toml", ".csv")] if folder else []
    return next((file for file in files if file.is_file()), None)


async def _once(plan: IngestPlan, embedder: Embedder, console: Console, tenant: str, *, as_json: bool) -> int:
    with _progress(console, hidden=as_json) as told:
        report = await ingest(plan, embedder, told)
    if as_json:
        console.print_json(data=report_as_json(report))
    else:
        _print(report, console, tenant)
    return EXIT_SKIPPED if report.changes.problems or report.failures else 0


async def _watch(
    plan: IngestPlan, embedder: Embedder, console: Console, tenant: str, *, as_json: bool
) -> None:
    try:
        from watchfiles import awatch
    except ImportError:
        raise MissingExtraError(
            "--watch needs the package watchfiles: pip install 'ixchat[ingest]'"
        ) from None
    if not as_json:
        console.print("watching; Ctrl+C ends", style="dim")
    async for _ in awatch(*plan.paths):
        try:
            await _once(plan, embedder, console, tenant, as_json=as_json)
        except IxError as error:  # a folder that is empty for a moment, say; the index stays as it was
            console.print(f"ix: {error}", style="red", markup=False)


@contextmanager
def _progress(console: Console, *, hidden: bool) -> Iterator[Told]:
    columns = TextColumn("{task.description:17}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        tasks: dict[Stage, TaskID] = {}

        def told(stage: Stage, done: int, total: int) -> None:
            task = tasks.get(stage)
            if task is None:
                task = tasks[stage] = progress.add_task(STAGES[stage], total=total)
            progress.update(task, completed=done, total=total)

        yield told


def _print(report: IngestReport, console: Console, tenant: str) -> None:
    changes, manifest = report.changes, report.manifest
    counts = {"new": changes.added, "changed": changes.changed, "removed": changes.removed}
    said = [f"{len(files)} {word}" for word, files in counts.items() if files]
    said += [f"{changes.unchanged} unchanged"] if changes.unchanged else []
    console.print(f"[bold]{escape(manifest.name)}[/]: {', '.join(said) or 'no files'}")
    for problem in changes.problems[:SHOWN_PROBLEMS]:
        kept = " (its earlier text stays)" if problem.kept else ""
        console.print(f"  skipped {problem.source}: {problem.reason}{kept}", style="yellow", markup=False)
    if len(changes.problems) > SHOWN_PROBLEMS:
        console.print(
            f"  and {len(changes.problems) - SHOWN_PROBLEMS} more; --json lists all", style="yellow"
        )
    if report.ignored:
        kinds = ", ".join(f"{count} {suffix}" for suffix, count in report.ignored.most_common(6))
        console.print(f"  other kinds left out: {kinds}", style="dim", markup=False)
    if report.failures:
        console.print(
            f"  the model failed on {report.failures.total()} passages, which have no entities yet; run it again",
            style="yellow",
        )
    how = {"model": "by the model", "rules": "by rules", "none": "no graph", "given": "given"}
    console.print(
        f"{manifest.passages} passages, {manifest.entities} entities, {manifest.relations} relations "
        f"({how[manifest.origin.graph]}); {report.embedded} texts embedded, {report.elapsed_s:.1f} s"
    )
    if report.built:
        console.print(f'try: ix ask "…" --tenant {tenant}', style="dim", markup=False)


def report_as_json(report: IngestReport) -> dict[str, Any]:
    """The report as data."""
    changes = report.changes
    return {
        "added": changes.added,
        "changed": changes.changed,
        "removed": changes.removed,
        "unchanged": changes.unchanged,
        "skipped": [{"source": p.source, "reason": p.reason, "kept": p.kept} for p in changes.problems],
        "ignored": dict(report.ignored),
        "built": report.built,
        "embedded": report.embedded,
        "model_calls": report.asked,
        "model_failures": dict(report.failures),
        "elapsed_s": round(report.elapsed_s, 3),
        "knowledge_base": report.manifest.model_dump(mode="json"),
    }
