"""The examples of `docs/embedding.md` run, and the page shows them as they are."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fakes import FakeRetriever, resolver_that, resolves_to
from starlette.applications import Starlette

from ixchat import Deps, build_chat_graph

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "embedding.md").read_text(encoding="utf-8")
CHAT = [
    {"role": "user", "content": "Do you have a tool that keeps track of stock?"},
    {"role": "assistant", "content": "Yes, Stokarel counts stock and deliveries. Shall I tell you more?"},
    {"role": "user", "content": "Which retailers already run it?"},
]
RESOLVED = "Which retailers already run it? — Stokarel"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Examples share one index of the sample, built by the first that needs it."""
    folder = tmp_path_factory.mktemp("ix")
    return {
        **os.environ,
        "IX_LIGHTRAG__WORKING_DIR": str(folder),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "PYTHONIOENCODING": "utf-8",
    }


def run(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["existing_graph", "web_app", "langgraph_server", "plain_asyncio"])
def test_the_page_shows_each_example_as_it_is(name: str) -> None:
    assert f"```python\n{(ROOT / 'examples' / f'{name}.py').read_text(encoding='utf-8')}```" in PAGE


@pytest.mark.parametrize("name", ["existing_graph", "plain_asyncio"])
def test_an_example_prints_what_the_page_says(name: str, environment: dict[str, str]) -> None:
    printed = run(environment, f"examples/{name}.py")
    assert f"```text\n{printed}```" in PAGE


def test_an_engine_of_ones_own_takes_three_lines(capsys: pytest.CaptureFixture[str]) -> None:
    *_, own_engine = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(own_engine, "embedding.md", "exec"), {"__name__": "own_engine"})
    assert f"prints `{capsys.readouterr().out.strip()}`" in PAGE


# ---- a web application


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_a_visitor_who_leaves_the_web_application_stops_the_turn() -> None:
    """The example's routes under uvicorn, around an engine that is slow enough to be left."""
    resolver = resolver_that(resolves_to("Stokarel"))
    slow = FakeRetriever(delay_s=60, cleanup_s=0.02)
    quick = FakeRetriever(["a passage"])
    app = Starlette(routes=load("web_app").routes)
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off")
    )
    serving = asyncio.create_task(server._serve())
    async with asyncio.timeout(60):
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        asked = {"tenant": "", "messages": [[message["role"], message["content"]] for message in CHAT]}
        async with httpx.AsyncClient(base_url=address, timeout=30) as client:
            app.state.graph = build_chat_graph(Deps(quick, reference_resolver=resolver))
            lines = (await client.post("/chat", json=asked)).text.split("\n\n")
            done = json.loads(lines[-2].removeprefix("data: "))
            assert (done["event"], done["decision"]) == ("done", "resolve")
            assert "a passage" in done["answer"]

            app.state.graph = build_chat_graph(Deps(slow, reference_resolver=resolver))
            async with client.stream("POST", "/chat", json=asked) as response:
                async for line in response.aiter_lines():
                    if "second search" in line:
                        break
            while slow.cleaned_up < 2:  # noqa: ASYNC110 - the fake counts
                await asyncio.sleep(0.01)
    server.should_exit = True
    await serving


# ---- LangGraph Server


SLOW_GRAPH = '''
"""A graph whose search outlasts any test, and says when it was cancelled."""
import asyncio
from pathlib import Path

from ixchat import Deps, build_chat_graph

LOG = Path(__file__).with_name("cancelled")


class Slow:
    rag_mode = "mix"

    async def ainvoke(self, query, **keywords):
        if query.startswith("quick"):
            return []
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            await asyncio.to_thread(lambda: LOG.open("a").write(query + "\\n"))
            raise


graph = build_chat_graph(Deps(Slow()))
'''


def test_the_configuration_for_langgraph_server_is_valid() -> None:
    pytest.importorskip("langgraph_cli", reason="langgraph-cli is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "langgraph_cli", "validate"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 graph" in done.stdout + done.stderr


@pytest.fixture(scope="module")
def dev_server(
    tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]
) -> Iterator[tuple[str, Path]]:
    """`langgraph dev` on the example, and on a slow graph; its address and folder."""
    for package in ("langgraph_cli", "langgraph_api", "langgraph_runtime_inmem"):
        pytest.importorskip(package, reason=f"{package} is missing: pip install 'langgraph-cli[inmem]'")
    folder = tmp_path_factory.mktemp(
        "server"
    )  # the server keeps a folder of its own beside its configuration
    (folder / "slow_graph.py").write_text(SLOW_GRAPH, encoding="utf-8")
    shutil.copytree(ROOT / "examples", folder / "examples")
    configuration = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
    configuration["graphs"]["slow"] = "./slow_graph.py:graph"
    (folder / "langgraph.json").write_text(json.dumps(configuration), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["--host", "127.0.0.1", "--port", str(port), "--no-browser", "--no-reload"]
    log = folder / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "langgraph_cli", "dev", *arguments, "--n-jobs-per-worker", "4"],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        is_up = _answers(f"{address}/ok", process, 60)
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        if not is_up:
            pytest.skip("langgraph dev did not come up in 60 s on this machine")
        yield address, folder
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(address: str, process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    ends_s = time.monotonic() + timeout_s
    while time.monotonic() < ends_s and process.poll() is None:
        try:
            if httpx.get(address, timeout=5).status_code == 200:
                return True
        except httpx.HTTPError:
            time.sleep(0.2)
    return False


@pytest.fixture
async def client(dev_server: tuple[str, Path]) -> AsyncIterator[Any]:
    """The SDK's client of the server."""
    from langgraph_sdk import get_client

    async with get_client(url=dev_server[0]) as opened:
        yield opened


async def test_langgraph_server_runs_and_streams_the_example(client: Any) -> None:
    ask: dict[str, Any] = {"input": {"messages": CHAT}, "context": {"tenant_id": "advanced"}}
    state = await client.runs.wait(None, "ix", **ask)
    assert state["retrieval"]["query"] == RESOLVED
    assert state["messages"][-1]["type"] == "ai"
    told = [
        part.data["event"]
        async for part in client.runs.stream(None, "ix", **ask, stream_mode="custom", stream_subgraphs=True)
        if part.event.startswith("custom")
    ]
    assert told[0] == "path"
    assert told[-1] == "documents"


async def test_langgraph_server_remembers_a_thread(client: Any) -> None:
    thread = (await client.threads.create())["thread_id"]
    context = {"tenant_id": "advanced"}
    await client.runs.wait(thread, "ix", input={"messages": CHAT[:2]}, context=context)
    state = await client.runs.wait(thread, "ix", input={"messages": CHAT[2:]}, context=context)
    assert state["retrieval"]["path"] == "reference", "the first turn was not remembered"
    stored = (await client.threads.get_state(thread))["values"]
    assert stored["retrieval"] == state["retrieval"]


async def test_cancelling_a_run_of_langgraph_server_cancels_its_search(
    client: Any, dev_server: tuple[str, Path]
) -> None:
    _, folder = dev_server
    thread = (await client.threads.create())["thread_id"]
    run_ = await client.runs.create(
        thread, "slow", input={"messages": [{"role": "user", "content": "cancel me"}]}
    )
    await _until_running(client, thread, run_["run_id"])
    await client.runs.cancel(thread, run_["run_id"], wait=True)
    assert (await client.runs.get(thread, run_["run_id"]))["status"] == "interrupted"
    assert "cancel me" in await _cancelled_in(folder, "cancel me")


async def test_a_second_message_stops_the_first_on_langgraph_server(
    client: Any, dev_server: tuple[str, Path]
) -> None:
    _, folder = dev_server
    thread = (await client.threads.create())["thread_id"]
    first = await client.runs.create(
        thread, "slow", input={"messages": [{"role": "user", "content": "first"}]}
    )
    await _until_running(client, thread, first["run_id"])
    state = await client.runs.wait(
        thread,
        "slow",
        input={"messages": [{"role": "user", "content": "quick, please"}]},
        multitask_strategy="interrupt",
    )
    assert state["retrieval"]["message"] == "quick, please"
    assert "first" in await _cancelled_in(folder, "first")


async def _until_running(client: Any, thread: str, run_id: str) -> None:
    async with asyncio.timeout(60):
        while (await client.runs.get(thread, run_id))["status"] != "running":  # noqa: ASYNC110 - as a poll does
            await asyncio.sleep(0.1)
    await asyncio.sleep(0.5)  # from "running" to the search itself


async def _cancelled_in(folder: Path, query: str) -> list[str]:
    log = folder / "cancelled"
    async with asyncio.timeout(30):
        while not (log.exists() and query in log.read_text()):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.05)
    return log.read_text().splitlines()
