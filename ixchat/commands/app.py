"""`ix`: the commands, their options and their help."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ixchat.commands import ask as ask_command
from ixchat.commands import chat as chat_command
from ixchat.commands import config as config_command
from ixchat.commands import demo as demo_command
from ixchat.commands import doctor as doctor_command
from ixchat.commands import ingest as ingest_command
from ixchat.commands import plan as plan_command
from ixchat.commands import serve as serve_command
from ixchat.commands import telemetry as telemetry_command
from ixchat.commands import tenants as tenants_command
from ixchat.commands import understand as understand_command
from ixinfra.config.loader import get_config
from ixinfra.config.settings import Settings

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Decides what a chat turn should search for, and shows why.",
)
console = Console()

Env = Annotated[str, typer.Option("--env", help="Environment: which TOML file is read.")]
ConfigDir = Annotated[
    Path | None, typer.Option("--config", help="Folder of the TOML files.", show_default=False)
]
TenantId = Annotated[str, typer.Option("--tenant", help="Tenant, as named in the TOML file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print data instead of a page.")]


@app.command()
def demo(
    tenant: Annotated[
        str, typer.Option("--tenant", help="Play this tenant's scenes alone.", show_default="all")
    ] = "",
    env: Env = "development",
    config: ConfigDir = None,
    as_json: AsJson = False,
) -> None:
    """Play a scripted conversation on the sample knowledge base and show every decision."""
    asyncio.run(demo_command.run(_settings(env, config), console, tenant=tenant, as_json=as_json))


@app.command()
def chat(tenant: TenantId = "advanced", env: Env = "development", config: ConfigDir = None) -> None:
    """Talk to a tenant; /why shows the last turn's decision record."""
    asyncio.run(chat_command.run(_settings(env, config), console, tenant=tenant))


@app.command()
def ask(
    message: Annotated[str, typer.Argument(help="The visitor's message.")],
    history: Annotated[
        Path | None,
        typer.Option("--history", help="JSON file: [{role, content}, …], oldest first.", show_default=False),
    ] = None,
    tenant: TenantId = "advanced",
    env: Env = "development",
    config: ConfigDir = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the decision record.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search for one message, given the conversation before it."""
    settings = _settings(env, config)
    code = asyncio.run(
        ask_command.run(
            settings,
            console,
            message=message,
            history=ask_command.read_history(history),
            tenant=tenant,
            explain=explain,
            as_json=as_json,
        )
    )
    raise typer.Exit(code)


@app.command()
def understand(
    query: Annotated[str, typer.Argument(help="Any query.")],
    hyde: Annotated[
        bool, typer.Option("--hyde/--no-hyde", help="Write made-up answers, with a model.")
    ] = True,
    glossary_term: Annotated[
        list[str] | None, typer.Option(help="A term; repeat it for more.", show_default=False)
    ] = None,
    glossary_synonyms: Annotated[
        list[str] | None, typer.Option(help="Its synonyms, comma-separated.", show_default=False)
    ] = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", help="The hybrid engine's plan: what goes to which index, why, and what does not."
        ),
    ] = False,
    history: Annotated[
        Path | None, typer.Option(help="With --plan: as for `ix ask`.", show_default=False)
    ] = None,
    tenant: Annotated[
        str,
        typer.Option(
            help="Tenant, as named in the TOML file.",
            show_default="advanced; with --plan the first hybrid one",
        ),
    ] = "",
    env: Env = "development",
    config: ConfigDir = None,
    as_json: AsJson = False,
) -> None:
    """Show what a query is made into, and what each index would be asked."""
    settings = _settings(env, config)
    if plan:
        earlier = ask_command.read_history(history)
        asyncio.run(
            plan_command.run(settings, console, query=query, history=earlier, tenant=tenant, as_json=as_json)
        )
        return
    asyncio.run(
        understand_command.run(
            settings,
            console,
            query=query,
            tenant=tenant or "advanced",
            hyde=hyde,
            terms=glossary_term or [],
            synonyms=glossary_synonyms or [],
            as_json=as_json,
        )
    )


@app.command()
def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on, instead of serve.host.", show_default=False)
    ] = "",
    port: Annotated[
        int | None, typer.Option(help="Port to listen on, instead of serve.port.", show_default=False)
    ] = None,
    env: Env = "development",
    config: ConfigDir = None,
) -> None:
    """Serve turns over HTTP, with a page at / that shows what each of them searched and why."""
    asyncio.run(serve_command.run(_settings(env, config), console, host=host, port=port))


@app.command()
def ingest(
    tenant: Annotated[str, typer.Option("--tenant", help="Tenant whose knowledge base it is.")],
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files and folders: md, txt, html, jsonl, csv, pdf, docx.")
    ] = None,
    tier: Annotated[
        str, typer.Option("--tier", help="The tier the tenant should have.", show_default=False)
    ] = "",
    glossary: Annotated[
        Path | None, typer.Option(help="Names that are certain, .toml or .csv.", show_default=False)
    ] = None,
    forget: Annotated[
        list[Path] | None, typer.Option(help="Take out what came from this path.", show_default=False)
    ] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Build again, also with another embedding model.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a knowledge base that was made elsewhere.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on whenever a file changes.")] = False,
    env: Env = "development",
    config: ConfigDir = None,
    as_json: AsJson = False,
) -> None:
    """Bring a tenant's knowledge base up to date with files; what has not changed costs nothing."""
    code = asyncio.run(
        ingest_command.run(
            _settings(env, config),
            console,
            paths=paths or [],
            tenant=tenant,
            tier=tier,
            glossary=glossary,
            forget=forget or [],
            rebuild=rebuild,
            replace=replace,
            watch=watch,
            as_json=as_json,
        )
    )
    raise typer.Exit(code)


@app.command()
def tenants(env: Env = "development", config: ConfigDir = None, as_json: AsJson = False) -> None:
    """List the tenants: mode, knowledge base, size, embedding model, last ingest."""
    asyncio.run(tenants_command.run(_settings(env, config), console, as_json=as_json))


@app.command()
def doctor(
    offline: Annotated[bool, typer.Option("--offline", help="Ask no model, server or tracing host.")] = False,
    env: Env = "development",
    config: ConfigDir = None,
    as_json: AsJson = False,
) -> None:
    """Check Python, packages, configuration, models, stores, tracing and indexes; say what mends them."""
    raise typer.Exit(asyncio.run(doctor_command.run(env, config, console, offline=offline, as_json=as_json)))


@app.command()
def telemetry(
    path: Annotated[Path, typer.Argument(help="What engine.telemetry_file names.")],
    purpose: Annotated[str, typer.Option("--for", help="What it trains: gate or rewriter.")] = "gate",
) -> None:
    """Print the hybrid engine's records as training data, one JSON line each."""
    telemetry_command.run(console, path=path, purpose=purpose)


@app.command("config")
def show_config(env: Env = "development", config: ConfigDir = None, as_json: AsJson = False) -> None:
    """Show the effective configuration, secrets masked, and where each value comes from."""
    config_command.run(_settings(env, config), console, as_json=as_json)


def _settings(env: str, directory: Path | None) -> Settings:
    return get_config(env, directory=directory)
