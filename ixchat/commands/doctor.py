"""`ix doctor`: what is ready, what is missing, and the command that mends it."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import httpx
from langchain_core.messages import HumanMessage
from packaging.requirements import Requirement
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ixchat.chat_routing import ROUTE_NAMES, RouteName, chat_model, is_local, route_of
from ixinfra.config.loader import get_config
from ixinfra.config.settings import Settings, TenantConfig
from ixinfra.embeddings import Embedder, build_embedder
from ixinfra.errors import IxError, ModelError
from ixinfra.llm import complete
from ixrag.lightrag.engine import refuse_environment
from ixrag.lightrag.manifest import expect_usable, read_catalog, read_manifest
from ixrag.lightrag.records import open_records
from ixrag.lightrag.stores import STORES, expect_stores
from ixrag.sample import SAMPLE_NAME

Status = Literal["ok", "warning", "failed"]
MARKS: dict[Status, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "warning": ("!", "yellow"),
    "failed": ("✗", "red"),
}
LEAST_PYTHON = (3, 11)
LEAST_FREE_GB = 1
CONNECT_TIMEOUT_S = 3.0
DISTRIBUTION = "ixchat"
ENGINE_MODULES = ("onnxruntime", "qdrant_client", "qdrant_edge")
NOT_EXTRAS = frozenset({"all", "dev"})


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report. `fix` is what to do, "" when there is nothing to do."""

    area: str
    name: str
    status: Status
    detail: str
    fix: str = ""


async def run(
    env: str, directory: Path | None, console: Console, *, offline: bool = False, as_json: bool = False
) -> int:
    """Check everything and print it; returns 1 if something failed, else 0.

    Args:
        env: Environment whose file is checked.
        directory: Folder of the TOML files.
        console: Where the report goes.
        offline: Ask no model, server or tracing host.
        as_json: Print data instead of a page.
    """
    checks = [check async for check in examine(env, directory, offline=offline)]
    failed = any(check.status == "failed" for check in checks)
    if as_json:
        console.print_json(data={"ok": not failed, "checks": [asdict(check) for check in checks]})
    else:
        console.print(page(checks))
        console.print(
            "something is missing" if failed else "ready", style="bold red" if failed else "bold green"
        )
    return int(failed)


async def examine(env: str, directory: Path | None, *, offline: bool) -> AsyncIterator[Check]:
    """Every check, cheap ones first; what needs a configuration is left out when there is none."""
    yield python_check(sys.version_info[:2])
    for check in package_checks(installed_requirements()):
        yield check
    yield environment_check(os.environ)
    try:
        settings = get_config(env, directory=directory)
    except IxError as error:
        yield Check(
            "configuration", env, "failed", str(error), "mend the file; `ix config` shows what is read"
        )
        return
    yield Check("configuration", env, "ok", str(settings.source.path))
    yield await asyncio.to_thread(folder_check, settings.lightrag.working_dir)
    for name in ROUTE_NAMES:
        yield await route_check(settings, name, offline=offline)
    yield (store := await store_check(settings, offline=offline))
    if engine := engine_check(settings):
        yield engine
    async for check in tracer_checks(settings, os.environ, offline=offline):
        yield check
    embedder, check = await embedder_check(settings)
    yield check
    for tenant_id, tenant in settings.tenants.items():
        if store.status == "ok" and not (offline and STORES[settings.vector_database.storage].has_server):
            yield await index_check(settings, tenant_id, tenant, embedder)


def python_check(running: tuple[int, ...]) -> Check:
    """The interpreter is new enough."""
    found, least = (".".join(map(str, numbers)) for numbers in (running, LEAST_PYTHON))
    if running >= LEAST_PYTHON:
        return Check("python", "version", "ok", found)
    return Check("python", "version", "failed", f"{found}, needs {least}", f"make test PYTHON=python{least}")


@dataclass(frozen=True, slots=True)
class Needed:
    """A package of the distribution's own list: of which extra, and which version is installed."""

    name: str
    extra: str
    wanted: str
    installed: str | None
    fits: bool


def installed_requirements() -> list[Needed]:
    """What the distribution asks for, and what there is."""
    try:
        lines = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return []
    found: list[Needed] = []
    for requirement in map(Requirement, lines):
        extra = _extra_of(requirement)
        if requirement.name == DISTRIBUTION or extra in NOT_EXTRAS:
            continue
        try:
            there: str | None = version(requirement.name)
        except PackageNotFoundError:
            there = None
        fits = there is not None and requirement.specifier.contains(there, prereleases=True)
        found.append(Needed(requirement.name, extra, str(requirement.specifier), there, fits))
    return found


def package_checks(needed: list[Needed]) -> Iterator[Check]:
    """One line for the core, one for each extra; only the core must be complete."""
    for extra in sorted({package.extra for package in needed}):
        packages = [package for package in needed if package.extra == extra]
        wrong = [f"{p.name} {p.installed or 'is missing'} (wants {p.wanted})" for p in packages if not p.fits]
        name = f"extra {extra}" if extra else "core"
        target = f"'ixchat[{extra}]'" if extra else "ixchat"
        if not wrong:
            yield Check("packages", name, "ok", ", ".join(f"{p.name} {p.installed}" for p in packages))
        elif extra and all(package.installed is None for package in packages):
            yield Check("packages", name, "ok", "not installed", f"if you need it: pip install {target}")
        else:
            status: Status = "warning" if extra else "failed"
            yield Check("packages", name, status, ", ".join(wrong), f"pip install -U {target}")


def environment_check(variables: Mapping[str, str]) -> Check:
    """No variable reaches through LightRAG into a tenant's data."""
    try:
        refuse_environment(variables)
    except IxError as error:
        return Check(
            "environment", "variables", "failed", str(error), "unset it where the process is started"
        )
    return Check("environment", "variables", "ok", "none that would mix tenants")


def folder_check(folder: Path) -> Check:
    """The folder of indexes can be written, and has room."""
    area, fix = "storage", "set lightrag.working_dir to a folder that can be written"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".doctor-{os.getpid()}"
        probe.touch()
        probe.unlink()
        free_gb = shutil.disk_usage(folder).free / 1e9
    except OSError as error:
        return Check(area, "working_dir", "failed", f"{folder}: {error.strerror or error}", fix)
    if free_gb < LEAST_FREE_GB:
        return Check(area, "working_dir", "warning", f"{folder}: {free_gb:.1f} GB free", "make room")
    return Check(area, "working_dir", "ok", f"{folder}, {free_gb:.0f} GB free")


async def route_check(settings: Settings, name: RouteName, *, offline: bool) -> Check:
    """The model of a route can be built, and answers one short question."""
    route = route_of(settings.models, name)
    if is_local(route):
        return Check("models", name, "ok", f"{route.model}, needs no model")
    try:
        model = chat_model(settings.models, name)
        if offline or model is None:
            return Check("models", name, "ok", f"{route.model} can be built; not asked (--offline)")
        answer = await complete(
            model, [HumanMessage("Answer with the word: ready")], timeout_s=route.timeout_s
        )
    except ModelError as error:
        fix = f"check the network, the key and models.{name}.base_url; its limit is {route.timeout_s:g} s"
        return Check("models", name, "failed", f"{route.model}: {error}", fix)
    except IxError as error:
        return Check("models", name, "failed", f"{route.model}: {error}", _install(error))
    return Check("models", name, "ok", f"{route.model} answered in {answer.elapsed_ms:.0f} ms")


async def store_check(settings: Settings, *, offline: bool) -> Check:
    """The stores have their packages, and the server answers."""
    database = settings.vector_database
    try:
        stores = expect_stores(database)
        if not stores.has_server or offline:
            return Check(
                "storage", database.storage, "ok", "in files" if not stores.has_server else "not asked"
            )
        if stores.keeps_records:
            async with open_records("doctor", settings.lightrag, database) as records:
                await records.read("manifest.json")
        else:
            await _connect(database.url or "")
    except (IxError, OSError, TimeoutError) as error:
        fix = _install(error) or "start the server, or mend vector_database in the TOML file"
        return Check("storage", database.storage, "failed", str(error) or type(error).__name__, fix)
    return Check("storage", database.storage, "ok", f"{database.url} answers")


def engine_check(settings: Settings, modules: Sequence[str] = ENGINE_MODULES) -> Check | None:
    """Tenants on the hybrid engine have its packages; None where there is no such tenant."""
    names = [name for name, tenant in settings.tenants.items() if tenant.retriever == "hybrid"]
    if not names:
        return None
    tenants = f"tenant {', '.join(names)}"
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        fix = "pip install 'ixchat[engine]', or retriever = \"lightrag\""
        return Check("engine", "hybrid", "warning", f"{tenants}: no package {', '.join(missing)}", fix)
    return Check("engine", "hybrid", "ok", tenants)


async def tracer_checks(
    settings: Settings, variables: Mapping[str, str], *, offline: bool
) -> AsyncIterator[Check]:
    """Every exporter has what it needs, and its host answers."""
    tracing = settings.tracing
    for exporter in tracing.exporter:
        if exporter == "langfuse":
            keys = [key for key in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY") if not variables.get(key)]
            if keys:
                fix = f"export {' '.join(f'{key}=…' for key in keys)}"
                yield Check(
                    "tracing", exporter, "warning", f"{' and '.join(keys)} not set: no spans leave", fix
                )
                continue
            host = variables.get("LANGFUSE_BASE_URL") or variables.get("LANGFUSE_HOST")
            yield await _host_check(exporter, (host or "https://cloud.langfuse.com").rstrip("/"), offline)
        elif exporter == "otlp":
            yield await _host_check(exporter, str(tracing.otlp_endpoint), offline)
        else:
            yield Check("tracing", exporter, "ok", "no host needed")


async def embedder_check(settings: Settings) -> tuple[Embedder | None, Check]:
    """The embedding model loads and gives a vector."""
    name = settings.embedding.model
    try:
        embedder = await asyncio.to_thread(build_embedder, settings.embedding)
        await embedder.query(["ready"])
    except IxError as error:
        return None, Check("embedding", name, "failed", str(error), _install(error))
    return embedder, Check("embedding", name, "ok", f"{embedder.model_id}, {embedder.dim} dimensions")


async def index_check(
    settings: Settings, tenant_id: str, tenant: TenantConfig, embedder: Embedder | None
) -> Check:
    """The tenant's knowledge base exists, is whole, and was built with this embedding model."""
    name = tenant.knowledge_base
    again = f"ix ingest PATH --tenant {tenant_id}"
    try:
        async with open_records(name, settings.lightrag, settings.vector_database) as records:
            manifest = await read_manifest(records)
            if manifest is None:
                if name == SAMPLE_NAME:
                    return Check("index", tenant_id, "ok", f"{name}: built when first used")
                return Check("index", tenant_id, "warning", f"{name}: not there yet", again)
            if embedder:
                expect_usable(manifest, records.where, embedder)
            await read_catalog(records, manifest)
    except IxError as error:
        return Check("index", tenant_id, "failed", str(error), f"{again} --rebuild")
    folder = settings.lightrag.working_dir / name / manifest.workspace
    if STORES[settings.vector_database.storage].has_files and not folder.is_dir():
        return Check("index", tenant_id, "failed", f"{folder} is gone", f"{again} --rebuild")
    counts = f"{manifest.passages} passages, {manifest.entities} entities, built {manifest.built_at}"
    return Check("index", tenant_id, "ok", f"{name}: {counts}")


def page(checks: list[Check]) -> Table:
    """The report as a table; a line that is not ok has its remedy below."""
    table = Table.grid(padding=(0, 1))
    area = ""
    for check in checks:
        mark, style = MARKS[check.status]
        shown = check.area if check.area != area else ""
        area = check.area
        table.add_row(Text(shown, style="bold"), Text(mark, style=style), check.name, Text(check.detail))
        if check.fix and check.status != "ok":
            table.add_row("", "", "", Text(f"→ {check.fix}", style=style))
    return table


async def _host_check(exporter: str, url: str, offline: bool) -> Check:
    if offline:
        return Check("tracing", exporter, "ok", f"{url} not asked (--offline)")
    try:
        async with httpx.AsyncClient(timeout=CONNECT_TIMEOUT_S) as client:
            await client.get(url)
    except httpx.HTTPError as error:
        detail = f"{url} does not answer ({type(error).__name__}); turns go on without spans"
        return Check("tracing", exporter, "warning", detail, "start the host, or mend its address")
    return Check("tracing", exporter, "ok", f"{url} answers")


async def _connect(url: str) -> None:
    parts = urlsplit(url)
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 7687)
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        _, writer = await asyncio.open_connection(parts.hostname, port)
    writer.close()


def _install(error: BaseException) -> str:
    """The pip command inside a message that has one."""
    text = str(error)
    start = text.find("pip install")
    return text[start:].partition(";")[0].partition(". ")[0].strip() if start >= 0 else ""


def _extra_of(requirement: Requirement) -> str:
    text = str(requirement.marker or "")
    return text.partition('extra == "')[2].partition('"')[0]
