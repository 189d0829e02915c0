"""Cancelled searches and closed bases on real LightRAG: slots come back, nothing hangs, nothing crosses over."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fakes import HashEmbedder, ScriptedModel
from langchain_core.callbacks import AsyncCallbackHandler
from small_base import opened, small_config, small_corpus

from ixinfra.errors import RetrievalError
from ixrag.lightrag.knowledge_base import build_knowledge_base, open_knowledge_base
from ixrag.lightrag.langgraph_retriever import LightRAGRetriever

TESTS = Path(__file__).parents[1]
MODES = ("naive", "local", "global", "hybrid", "mix")
KEYWORDS = json.dumps({"low_level_keywords": ["Brodal"], "high_level_keywords": ["payroll"]})


class SlowModel(ScriptedModel):
    """Counts the calls that are running."""

    running: int = 0

    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        self.running += 1
        try:
            return await super()._agenerate(*args, **kwargs)
        finally:
            self.running -= 1


async def until(condition: Any, within_s: float = 5.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.002)


def tasks() -> list[str]:
    """What runs in the loop; not the look-ups of LightRAG's idle workers, which come and go."""
    names = (str(getattr(task.get_coro(), "__qualname__", "")) for task in asyncio.all_tasks())
    return sorted(name for name in names if name != "Queue.get")


async def test_cancelled_searches_free_the_slots_of_the_keyword_model(tmp_path: Path) -> None:
    model = SlowModel(script=[KEYWORDS], delay_s=60)
    async with opened(tmp_path, keyword_model=model, llm_max_async=2, keyword_timeout_s=60) as base:
        retriever = LightRAGRetriever(knowledge_base=base)
        early = [asyncio.create_task(retriever.ainvoke(f"question number {n}")) for n in range(10)]
        await until(lambda: model.running == 2)
        for search in early:
            search.cancel()
        await asyncio.gather(*early, return_exceptions=True)
        assert model.running == 0
        assert len(model.asked) == 2  # those that waited for a slot never asked
        model.delay_s = 0
        async with asyncio.timeout(10):  # a slot that was kept would hold this for a minute
            assert await retriever.ainvoke("Brodal and payroll")


async def test_a_cancelled_search_frees_its_embedding_slot(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    async with opened(tmp_path, embedder=embedder, embedding_max_async=1) as base:
        retriever = LightRAGRetriever(knowledge_base=base)
        embedder.delay_s = 60
        search = asyncio.create_task(retriever.ainvoke("Brodal"))
        await until(lambda: embedder.running == 1)
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        assert (embedder.running, embedder.cancelled) == (0, 1)
        embedder.delay_s = 0
        async with asyncio.timeout(10):
            assert await retriever.ainvoke("Brodal")


async def test_two_hundred_random_cancels_leave_no_task_and_a_working_base(tmp_path: Path) -> None:
    rng = random.Random(7)
    embedder = HashEmbedder(delay_s=0.001)
    async with opened(tmp_path, embedder=embedder) as base:

        async def cancelled_search(number: int) -> None:
            retriever = LightRAGRetriever(knowledge_base=base, rag_mode=MODES[number % 5])
            search = asyncio.create_task(retriever.ainvoke(f"Brodal number {number}"))
            await asyncio.sleep(rng.random() * 0.02)
            search.cancel()
            await asyncio.wait({search})
            assert search.cancelled() or search.result() is not None

        await LightRAGRetriever(knowledge_base=base).ainvoke("warm up")
        before = tasks()
        for batch in range(25):
            await asyncio.gather(*(cancelled_search(8 * batch + n) for n in range(8)))
        assert tasks() == before
        assert embedder.running == 0
        for mode in MODES:
            assert await LightRAGRetriever(knowledge_base=base, rag_mode=mode).ainvoke("Brodal")
    assert len(asyncio.all_tasks()) == 1


async def test_cancelling_closes_the_observation_of_the_host(tmp_path: Path) -> None:
    class Watcher(AsyncCallbackHandler):
        def __init__(self) -> None:
            self.events: list[str] = []

        async def on_retriever_start(self, *args: Any, **kwargs: Any) -> None:
            self.events.append("start")

        async def on_retriever_end(self, *args: Any, **kwargs: Any) -> None:
            self.events.append("end")

        async def on_retriever_error(self, error: BaseException, **kwargs: Any) -> None:
            self.events.append(type(error).__name__)

    watcher, embedder = Watcher(), HashEmbedder()
    async with opened(tmp_path, embedder=embedder) as base:
        embedder.delay_s = 60
        retriever = LightRAGRetriever(knowledge_base=base)
        search = asyncio.create_task(retriever.ainvoke("Brodal", {"callbacks": [watcher]}))
        await until(lambda: embedder.running)
        search.cancel()
        await asyncio.wait({search})
    assert watcher.events == ["start", "CancelledError"]


async def test_close_with_searches_in_flight_ends_them_as_closed(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    async with opened(tmp_path, embedder=embedder) as base:
        embedder.delay_s = 60
        searches = [
            asyncio.create_task(LightRAGRetriever(knowledge_base=base, rag_mode=mode).ainvoke("Brodal"))
            for mode in MODES
        ]
        await until(lambda: embedder.running)
        started = time.monotonic()
        await base.close()
        await base.close()
        assert time.monotonic() - started < 10
        results = await asyncio.gather(*searches, return_exceptions=True)
    assert [getattr(result, "reason", result) for result in results] == ["closed"] * 5
    assert len(asyncio.all_tasks()) == 1
    with pytest.raises(RetrievalError) as raised:
        await LightRAGRetriever(knowledge_base=base).ainvoke("Brodal")
    assert raised.value.reason == "closed"


async def test_close_does_not_wait_for_an_engine_that_ignores_it(tmp_path: Path) -> None:
    class Stubborn(HashEmbedder):
        async def query(self, texts: Any) -> Any:
            started = time.monotonic()
            while time.monotonic() - started < 20:
                try:
                    await asyncio.sleep(20 - (time.monotonic() - started))
                except asyncio.CancelledError:
                    if finished.is_set():
                        raise
            return await super().query(texts)

    finished = asyncio.Event()
    async with opened(tmp_path, embedder=Stubborn(), query_timeout_s=0.1) as base:
        with pytest.raises(RetrievalError, match="within"):
            await LightRAGRetriever(knowledge_base=base).ainvoke("Brodal")
        started = time.monotonic()
        await base.close()
        assert time.monotonic() - started < 15
    finished.set()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
        await asyncio.wait({task}, timeout=5)


async def test_a_cancelled_search_of_one_tenant_never_answers_another(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    async with (
        opened(tmp_path, name="orvelle", embedder=embedder) as ours,
        opened(tmp_path, name="zamprine", embedder=embedder, corpus=small_corpus("Zamprine")) as theirs,
    ):
        first = LightRAGRetriever(knowledge_base=ours, rag_mode="naive", tenant_id="orvelle")
        second = {
            mode: LightRAGRetriever(knowledge_base=theirs, rag_mode=mode, tenant_id="zamprine")
            for mode in MODES
        }
        until_s, repeats = time.monotonic() + 6, 0
        while repeats < 1000 and time.monotonic() < until_s:
            early = asyncio.create_task(first.ainvoke("which offices"))
            for _ in range(repeats % 12):
                await asyncio.sleep(0)
            early.cancel()
            documents = await second["naive" if repeats % 10 else MODES[repeats // 10 % 5]].ainvoke(
                "which offices"
            )
            assert documents
            assert not [
                d for d in documents if "Orvelle" in d.page_content or d.metadata["tenant"] != "zamprine"
            ]
            repeats += 1
        assert repeats > 20


async def test_tenants_that_share_a_base_share_one_engine(tmp_path: Path) -> None:
    embedder, config = HashEmbedder(), small_config(tmp_path)
    await build_knowledge_base(small_corpus(), "orvelle", config=config, embedder=embedder)
    lite = await open_knowledge_base("orvelle", config=config, embedder=embedder)
    advanced = await open_knowledge_base("orvelle", config=config, embedder=embedder)
    assert lite.rag is advanced.rag
    await lite.close()
    with pytest.raises(RetrievalError):
        await LightRAGRetriever(knowledge_base=lite).ainvoke("Brodal")
    assert await LightRAGRetriever(knowledge_base=advanced).ainvoke("Brodal")
    await advanced.close()
    assert len(asyncio.all_tasks()) == 1


SCRIPT = """
import asyncio, sys
from pathlib import Path
from fakes import HashEmbedder
from small_base import small_config, small_corpus
from ixrag.lightrag.knowledge_base import build_knowledge_base, open_knowledge_base
from ixrag.lightrag.langgraph_retriever import LightRAGRetriever

async def main(ending):
    embedder, config = HashEmbedder(), small_config(Path(sys.argv[1]))
    await build_knowledge_base(small_corpus(), "orvelle", config=config, embedder=embedder)
    base = await open_knowledge_base("orvelle", config=config, embedder=embedder)
    embedder.delay_s = 600
    search = asyncio.create_task(LightRAGRetriever(knowledge_base=base).ainvoke("Brodal"))
    while not embedder.running:
        await asyncio.sleep(0.001)
    if "cancel" in ending:
        search.cancel()
    if "close" in ending:
        await base.close()
        await asyncio.gather(search, return_exceptions=True)
    if "exit" in ending:
        raise SystemExit

for ending in (["close"], ["cancel", "close"], ["cancel"], [], ["exit"]):
    try:
        asyncio.run(main(ending))
    finally:
        print(*ending, "ended", flush=True)
"""


def test_a_process_always_ends(tmp_path: Path) -> None:
    """LightRAG alone waits for ever: its workers swallow the one cancellation of `asyncio.run`."""
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        env={"PYTHONPATH": f"{TESTS}:{TESTS.parent}", "PATH": ""},
        check=False,
    )
    endings = ["close ended", "cancel close ended", "cancel ended", "ended", "exit ended"]
    assert (ran.stdout.splitlines(), ran.stderr, ran.returncode) == (endings, "", 0)
