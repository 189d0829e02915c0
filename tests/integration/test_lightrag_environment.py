"""What LightRAG would read, install, log or connect to behind the operator's back."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from fakes import HashEmbedder
from small_base import small_config

from ixrag.lightrag.engine import WORKSPACE_VARIABLES, load_lightrag, pinned_values, query_param

TESTS = Path(__file__).parents[1]
LIGHTRAG = Path(str(find_spec("lightrag").submodule_search_locations[0]))  # type: ignore[union-attr,index]  # installed

SCRIPT = """
import asyncio, logging, os, sys
from pathlib import Path

sys.path.insert(0, {tests!r})
seen = []
def watch(event, args):
    if event == "open" and str(args[0]).endswith(".env"):
        seen.append(("read", str(args[0])))
    if event in ("subprocess.Popen", "os.system", "os.posix_spawn", "socket.connect", "socket.getaddrinfo"):
        seen.append((event, str(args[:2])))
sys.addaudithook(watch)
variables = dict(os.environ)

from fakes import HashEmbedder
from small_base import opened
from ixrag.lightrag.langgraph_retriever import LightRAGRetriever

async def main():
    async with opened(Path("base")) as base:
        rag = base.rag
        print(rag.top_k, rag.chunk_top_k, rag.cosine_better_than_threshold, rag.max_total_tokens)
        print(rag.workspace.startswith("orvelle-"), rag.user_prompt_prefix == "", rag.enable_content_headings)
        print(rag.embedding_func_max_async, rag.llm_model_max_async, rag.embedding_batch_num)
        print(bool(await LightRAGRetriever(knowledge_base=base).ainvoke("my secret question about Brodal")))

asyncio.run(main())
print(seen, dict(os.environ) == variables)
print(logging.getLogger().handlers, logging.getLogger().level, logging.getLogger("httpx").level)
"""


def test_no_dotenv_no_environment_no_network_no_installer_no_logging(tmp_path: Path) -> None:
    settings = {
        "TOP_K": "1",
        "CHUNK_TOP_K": "1",
        "COSINE_THRESHOLD": "0.99",
        "MAX_TOTAL_TOKENS": "7",
        "WORKSPACE": "evil",
        "USER_PROMPT_PREFIX": "evil",
        "EMBEDDING_FUNC_MAX_ASYNC": "77",
        "MAX_ASYNC_LLM": "77",
        "KEYWORD_MAX_ASYNC_LLM": "77",
        "EMBEDDING_BATCH_NUM": "77",
        "LIGHTRAG_PERFORMANCE_TIMING_LOGS": "true",
        "VERBOSE": "true",
    }
    (tmp_path / ".env").write_text("POSTGRES_WORKSPACE=evil\nENTITY_TYPES=evil\nTOP_K=2\n")
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(tests=str(TESTS))],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=tmp_path,
        env={"PYTHONPATH": str(TESTS.parent), "PATH": "", **settings},
        check=False,
    )
    assert ran.stdout.splitlines() == [
        "40 20 -1.0 30000",
        "True True False",
        f"{small_config(tmp_path).embedding_max_async} 4 10",
        "True",
        "[] True",
        "[] 30 0",
    ]
    assert ran.stderr == ""


def test_every_value_of_lightrag_is_pinned() -> None:
    lightrag = load_lightrag()
    values = pinned_values(Path("folder"), "workspace", small_config(Path("folder")), HashEmbedder(), None)
    fields = {field.name for field in dataclasses.fields(lightrag.LightRAG) if field.init}
    deprecated = {"log_level", "log_file_path", "_storages_status"}
    assert fields - deprecated | {"addon_params"} == set(values)


def test_every_value_of_a_query_is_given() -> None:
    param = query_param(small_config(Path("folder"), top_k=3, chunk_top_k=4), "mix", ["a"], ["b"])
    assert (param.top_k, param.chunk_top_k, param.ll_keywords, param.hl_keywords) == (3, 4, ["a"], ["b"])
    assert (param.enable_rerank, param.conversation_history) == (False, [])


def test_every_variable_that_overrides_a_workspace_is_known() -> None:
    """Read from LightRAG's own source, so that a new version with a new one does not pass unseen."""
    found = set()
    for path in (LIGHTRAG / "kg").rglob("*.py"):
        found |= set(re.findall(r'["\']([A-Z0-9]+_WORKSPACE)["\']', path.read_text(encoding="utf-8")))
    assert found == set(WORKSPACE_VARIABLES)


def test_visitor_text_never_reaches_a_log_above_debug(caplog: pytest.LogCaptureFixture) -> None:
    load_lightrag()
    import logging

    engine = logging.getLogger("lightrag")
    engine.error("failed on %s", "a secret question")
    engine.info("a secret question")
    assert "secret" not in caplog.text
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert re.search(r"test_lightrag_environment:\d+", caplog.text)
    with caplog.at_level(logging.DEBUG, "ixrag.lightrag.engine"):
        engine.error("failed on %s", "a secret question")
    assert "a secret question" in caplog.text


def test_environment_of_the_tests_is_clean() -> None:
    assert not {name for name in os.environ if name in WORKSPACE_VARIABLES}
