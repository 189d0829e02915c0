"""The doctor: each line says what is ready or missing, and the command that mends it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from ixchat.commands import doctor
from ixchat.commands.doctor import Check, Needed, package_checks, page, python_check, store_check
from ixinfra.config.loader import get_config
from ixinfra.config.settings import Settings
from ixrag.lightrag.manifest import Manifest


def settings_of(folder: Path, text: str = "") -> Settings:
    (folder / "development.toml").write_text(f'[lightrag]\nworking_dir = "{folder}"\n{text}')
    return get_config("development", directory=folder, environ={})


async def checks_of(settings: Settings, variables: dict[str, str]) -> list[Check]:
    return [check async for check in doctor.tracer_checks(settings, variables, offline=True)]


def test_an_old_python_is_named_with_what_is_needed() -> None:
    assert python_check((3, 12)).status == "ok"
    old = python_check((3, 9))
    assert (old.status, old.detail) == ("failed", "3.9, needs 3.11")


@pytest.mark.parametrize(
    ("packages", "status", "fix"),
    [
        pytest.param([Needed("a", "", ">=1", "1.0", True)], "ok", "", id="core complete"),
        pytest.param(
            [Needed("a", "", ">=1", None, False)], "failed", "pip install -U ixchat", id="core missing"
        ),
        pytest.param(
            [Needed("a", "x", ">=1", None, False)],
            "ok",
            "if you need it: pip install 'ixchat[x]'",
            id="extra not wanted",
        ),
        pytest.param(
            [Needed("a", "x", ">=1", None, False), Needed("b", "x", "", "2", True)],
            "warning",
            "pip install -U 'ixchat[x]'",
            id="extra half there",
        ),
        pytest.param(
            [Needed("a", "x", ">=2", "1.0", False)],
            "warning",
            "pip install -U 'ixchat[x]'",
            id="extra too old",
        ),
    ],
)
def test_packages(packages: list[Needed], status: str, fix: str) -> None:
    (check,) = package_checks(packages)
    assert (check.status, check.fix) == (status, fix)


def test_the_distribution_lists_its_core() -> None:
    core = {needed.name for needed in doctor.installed_requirements() if not needed.extra}
    assert {"langgraph", "lightrag-hku", "pydantic"} <= core


def test_a_variable_that_mixes_tenants_fails() -> None:
    assert doctor.environment_check({}).status == "ok"
    failed = doctor.environment_check({"POSTGRES_WORKSPACE": "all"})
    assert failed.status == "failed"
    assert "POSTGRES_WORKSPACE" in failed.detail


def test_a_folder_that_cannot_be_written_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert doctor.folder_check(tmp_path / "new").status == "ok"
    failed = doctor.folder_check(tmp_path / "file" / "inside")
    assert (failed.status, "working_dir" in failed.fix) == ("failed", True)


async def test_a_route_without_its_key_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings = settings_of(tmp_path, '[models.answer]\nmodel = "openai:gpt-5.4-mini"')
    failed = await doctor.route_check(settings, "answer", offline=True)
    assert failed.status == "failed"
    assert "OPENAI_API_KEY" in failed.detail
    assert (await doctor.route_check(settings, "query_rewriter", offline=False)).status == "ok"


async def test_a_model_that_does_not_answer_fails(tmp_path: Path) -> None:
    settings = settings_of(
        tmp_path, '[models.answer]\nmodel = "openai:any"\nbase_url = "http://127.0.0.1:9/v1"\ntimeout_s = 5.0'
    )
    failed = await doctor.route_check(settings, "answer", offline=False)
    assert failed.status == "failed"
    assert "models.answer.base_url" in failed.fix
    assert (await doctor.route_check(settings, "answer", offline=True)).status == "ok"


async def test_a_store_that_is_not_there_fails(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, '[vector_database]\nstorage = "qdrant"\nurl = "http://127.0.0.1:9"')
    assert (await store_check(settings, offline=False)).status == "failed"
    assert (await store_check(settings, offline=True)).detail == "not asked"
    wrong = settings_of(tmp_path, '[vector_database]\nstorage = "postgres"\nurl = "http://127.0.0.1:9"')
    assert "postgresql://" in (await store_check(wrong, offline=True)).detail


def test_a_tenant_on_the_hybrid_engine_needs_its_packages(tmp_path: Path) -> None:
    text = '[tenants.shop]\ntier = "lite"\nknowledge_base = "shop"\n'
    assert doctor.engine_check(settings_of(tmp_path, text)) is None
    hybrid = settings_of(tmp_path, text + 'retriever = "hybrid"\n')
    ready, missing = doctor.engine_check(hybrid), doctor.engine_check(hybrid, ["json", "no_such_package"])
    assert ready is not None
    assert (ready.status, ready.detail) == ("ok", "tenant shop")
    assert missing is not None
    assert (missing.status, missing.detail) == ("warning", "tenant shop: no package no_such_package")
    assert "ixchat[engine]" in missing.fix


async def test_langfuse_without_keys_is_a_warning_with_the_variables(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, '[tracing]\nexporter = ["langfuse", "console"]')
    langfuse, screen = await checks_of(settings, {"LANGFUSE_PUBLIC_KEY": "pk"})
    assert (langfuse.status, langfuse.fix) == ("warning", "export LANGFUSE_SECRET_KEY=…")
    assert screen.status == "ok"


async def test_an_index_of_another_model_or_without_its_files_fails(tmp_path: Path) -> None:
    text = '[tenants.shop]\ntier = "lite"\nknowledge_base = "shop"\n'
    settings = settings_of(tmp_path, text)
    shop = settings.tenants["shop"]
    missing = await doctor.index_check(settings, "shop", shop, None)
    assert (missing.status, missing.fix) == ("warning", "ix ingest PATH --tenant shop")
    manifest = Manifest(
        format=1,
        name="shop",
        workspace="w",
        model_id="m",
        dim=8,
        passages=1,
        entities=0,
        relations=0,
        built_at="now",
    )
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "manifest.json").write_text(manifest.model_dump_json())
    broken = await doctor.index_check(settings, "shop", shop, None)
    assert (broken.status, broken.fix) == ("failed", "ix ingest PATH --tenant shop --rebuild")
    (tmp_path / "shop" / "w").mkdir()
    (tmp_path / "shop" / "w" / "catalog.json").write_text('{"names": [], "passages": {}}')
    assert (await doctor.index_check(settings, "shop", shop, None)).status == "ok"


async def test_a_broken_file_is_one_line_and_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "development.toml").write_text("[lightrag]\ntop_kk = 3")
    out = io.StringIO()
    code = await doctor.run("development", tmp_path, Console(file=out), offline=True, as_json=True)
    report = json.loads(out.getvalue())
    assert (code, report["ok"]) == (1, False)
    assert "top_kk" in report["checks"][-1]["detail"]


def test_the_page_shows_the_remedy_below_what_is_missing() -> None:
    out = io.StringIO()
    Console(file=out, width=100).print(
        page(
            [
                Check("python", "version", "ok", "3.12", "no"),
                Check("index", "shop", "failed", "gone", "ix ingest"),
            ]
        )
    )
    first, second, remedy = out.getvalue().splitlines()
    assert "✓" in first
    assert "✗" in second
    assert remedy.strip() == "→ ix ingest"
