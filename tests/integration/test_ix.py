"""`ix` as a user runs it: a process, its output, its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def working_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ix")


def ix(*arguments: str, working_dir: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "IX_LIGHTRAG__WORKING_DIR": str(working_dir),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "120",
    }
    return subprocess.run(
        [sys.executable, "-m", "ixchat.cli", *arguments],
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def test_the_demo_decides_as_scripted(working_dir: Path) -> None:
    done = ix("demo", "--json", working_dir=working_dir)
    assert done.returncode == 0, done.stderr
    played: list[dict[str, Any]] = json.loads(done.stdout)
    surprises = [
        (turn["message"], turn["expected"], turn["record"]["path"], turn["record"]["decision"])
        for turn in played
        if (turn["record"]["path"], turn["record"]["decision"])
        != (turn["expected"]["path"], turn["expected"]["decision"])
        or turn["record"]["entity"] != turn["expected"].get("name", turn["record"]["entity"])
    ]
    assert surprises == []
    assert {turn["tenant"] for turn in played} == {"lite", "advanced"}
    assert all(turn["documents"] for turn in played)
    dead = [turn for turn in played if turn["record"]["fallback"] == "model_error"]
    assert dead, "the script has no dead model"
    assert all(turn["record"]["query"] == turn["message"] for turn in dead)


def test_the_demo_shows_time_line_and_spans(working_dir: Path) -> None:
    done = ix("demo", "--tenant", "advanced", working_dir=working_dir)
    assert done.returncode == 0, done.stderr
    for part in ("tool-query-reference", "early search", "second search", "superseded", "vector channel"):
        assert part in done.stdout


def test_ask_resolves_with_a_history_file(working_dir: Path, tmp_path: Path) -> None:
    history = tmp_path / "chat.json"
    chat = [
        {"role": "user", "content": "Do you have a tool for stock?"},
        {"role": "assistant", "content": "Yes, Stokarel keeps track of stock."},
    ]
    history.write_text(json.dumps(chat), encoding="utf-8")
    done = ix(
        "ask", "Which retailers already run it?", "--history", str(history), "--explain", "--json",
        working_dir=working_dir,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["record"]["query"] == "Which retailers already run it? — Stokarel"
    assert answer["documents"]


def test_a_tenant_on_the_hybrid_engine_is_asked_and_shows_each_index_call(working_dir: Path) -> None:
    done = ix("ask", "Combien coûte Stokarel ?", "--tenant", "hybrid", "--explain", working_dir=working_dir)
    assert done.returncode == 0, done.stderr
    for part in ("tool-hybrid-retrieval", "dense index", "bm25 index", "sparse index", "stokarel"):
        assert part in done.stdout
    assert "tool-lightrag-retrieval" not in done.stdout


def test_the_plan_of_the_hybrid_engine_is_shown_without_naming_a_tenant(working_dir: Path) -> None:
    done = ix("understand", "--plan", "payroll export", "--json", working_dir=working_dir)
    assert done.returncode == 0, done.stderr
    explained = json.loads(done.stdout)
    assert explained["tenant"] == "hybrid"
    assert {probe["channel"] for probe in explained["searches"][0]["probes"]} == {"dense", "bm25", "sparse"}


def test_chat_answers_and_explains(working_dir: Path) -> None:
    lines = "Do you have a tool for stock?\n/why\n/nonsense\n/quit\n"
    done = ix("chat", "--tenant", "lite", working_dir=working_dir, stdin=lines)
    assert done.returncode == 0, done.stderr
    assert "first_turn" in done.stdout
    assert "unknown command '/nonsense'" in done.stdout


def test_config_shows_values_and_sources(working_dir: Path) -> None:
    done = ix("config", "--env", "staging", "--json", working_dir=working_dir)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert rows["query_rewriter.enabled"]["value"] is True
    assert rows["lightrag.working_dir"]["source"] == "IX_LIGHTRAG__WORKING_DIR"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["ask", "Bonjour", "--env", "prodution"], "production", id="unknown environment"),
        pytest.param(["ask", "Bonjour", "--tenant", "nobody"], "advanced", id="unknown tenant"),
        pytest.param(["ask", "Bonjour", "--history", "missing.json"], "missing.json", id="no such file"),
        pytest.param(["demo", "--tenant", "nobody"], "advanced", id="no scene"),
        pytest.param(["ask", "Bonjour", "--confg", "x"], "--config", id="unknown option"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(
    working_dir: Path, arguments: list[str], says: str
) -> None:
    done = ix(*arguments, working_dir=working_dir)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
