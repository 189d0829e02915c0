"""`ix ingest`, `ix ask`, `ix tenants` on the embedded model, in files and on PostgreSQL by TOML alone."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from postgres_server import postgres, url_of
from rich.console import Console

from ixchat.commands import ask, ingest, tenants
from ixinfra.config.loader import get_config
from ixinfra.config.settings import Settings
from ixinfra.errors import ConfigError, UnknownTenantError, UnknownTierError

TOML = """
[lightrag]
working_dir = "{folder}/indexes"

[vector_database]
{database}

[tenants.orvelle]
tier = "advanced"
company_name = "Orvelle"
knowledge_base = "orvelle"

[tenants.sample]
tier = "lite"
knowledge_base = "velmora"
"""


def settings_in(folder: Path, database: str = 'storage = "files"') -> Settings:
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config" / "development.toml").write_text(TOML.format(folder=folder, database=database))
    return get_config("development", directory=folder / "config", environ={})


def console() -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=200), out


@pytest.fixture(params=["files", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "files":
        yield 'storage = "files"'
        return
    with postgres(tmp_path_factory.mktemp("pg")) as server:
        yield f'storage = "postgres"\nurl = "{url_of(server)}"'


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_ingest_then_ask_by_toml_alone(tmp_path: Path, database: str) -> None:
    settings = settings_in(tmp_path, database)
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "brodal.md").write_text("# Brodal\n\nBrodal plans shifts and costs 3 euros a month.")
    (docs / "lumquat.html").write_text("<h1>Lumquat</h1><p>Lumquat keeps the stock of a shop.</p>")
    (docs / "bad.jsonl").write_text("{")
    screen, out = console()
    code = await ingest.run(settings, screen, paths=[docs], tenant="orvelle")
    assert code == ingest.EXIT_SKIPPED
    assert "2 new" in out.getvalue()
    assert "skipped docs/bad.jsonl: line 1 is not JSON" in out.getvalue()
    screen, out = console()
    asked: Any = {"message": "How much is Brodal?", "history": [], "tenant": "orvelle"}
    assert await ask.run(settings, screen, **asked, explain=False, as_json=True) == 0
    assert "3 euros" in json.loads(out.getvalue())["documents"][0]["text"]
    screen, out = console()
    await tenants.run(settings, screen, as_json=True)
    ours, sample = json.loads(out.getvalue())
    assert (ours["status"], ours["documents"], ours["passages"], ours["rag_mode"]) == ("ready", 2, 2, "mix")
    assert (ours["model_id"], ours["graph"]) == ("multilingual-e5-small-q4-neutral", "rules")
    assert sample["status"] == "built when first used"


@pytest.mark.slow
async def test_watch_takes_a_new_file_up(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("Brodal plans shifts.")
    screen, out = console()
    watching = asyncio.create_task(
        ingest.run(settings, screen, paths=[docs], tenant="orvelle", watch=True, as_json=True)
    )
    for wanted, name in (('"documents": 1', "a.txt"), ('"documents": 2', "b.txt")):
        for _ in range(180):
            if wanted in out.getvalue():
                break
            await asyncio.sleep(0.5)
            (docs / name).write_text("Lumquat keeps stock.")
        assert wanted in out.getvalue()
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching


def test_an_unknown_tenant_is_told_with_the_lines_to_add(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    with pytest.raises(UnknownTenantError) as error:
        ingest.expect_tenant(settings, "halvane", "lite")
    path, _, lines = str(error.value).partition(":\n\n")
    assert path.endswith("development.toml")
    file = tmp_path / "config" / "development.toml"
    file.write_text(f"{file.read_text()}\n{lines}")
    added = get_config("development", directory=tmp_path / "config", environ={})
    assert ingest.expect_tenant(added, "halvane", "lite").knowledge_base == "halvane"


def test_a_tenant_that_cannot_be_ingested_into_is_refused(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    with pytest.raises(ConfigError, match=r"tier 'advanced'.*not 'lite'"):
        ingest.expect_tenant(settings, "orvelle", "lite")
    with pytest.raises(UnknownTierError, match="'gold'"):
        ingest.expect_tenant(settings, "orvelle", "gold")
    with pytest.raises(ConfigError, match="bundled sample"):
        ingest.expect_tenant(settings, "sample")


def test_a_plan_follows_the_configuration(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    glossary = tmp_path / "words.toml"
    glossary.write_text('[groups]\nbadge = ["clock in", "badge in"]\n[terms]\ninvoice = ["bill"]\n')
    configured = settings.tenants["orvelle"]
    plan = ingest.plan_of(settings, "orvelle", configured, paths=[tmp_path], glossary=glossary)
    assert plan.with_graph
    assert plan.extraction is None
    assert {term.name: term.aliases for term in plan.glossary} == {
        "clock in": ("badge in",),
        "invoice": ("bill",),
    }
    lite = configured.model_copy(update={"tier": "lite"})
    alone = settings.model_copy(update={"tenants": {"orvelle": lite}})
    assert not ingest.plan_of(alone, "orvelle", lite, paths=[tmp_path]).with_graph
