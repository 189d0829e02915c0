"""Ingest on real LightRAG: what changed is done, what did not costs nothing, what breaks is told."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import HashEmbedder
from openai_server import LoopbackServer, answer, openai_server, status
from sample_files import mixed_folder
from small_base import small_config

from ixinfra.config.settings import ExtractionRoute
from ixinfra.embeddings import Embedder
from ixinfra.errors import DatasetError, KnowledgeBaseError
from ixinfra.llm import build_chat_model
from ixrag.ingest.extractor import Extraction
from ixrag.ingest.run import IngestPlan, Problem, ingest
from ixrag.ingest.state import IngestState
from ixrag.lightrag.knowledge_base import KnowledgeBase, open_knowledge_base
from ixrag.lightrag.langgraph_retriever import LightRAGRetriever

FEW = {
    "brodal.md": "# Brodal\n\nBrodal plans shifts. In every shop Brodal needs Fenstrel.",
    "lumquat.txt": "Lumquat keeps stock. Every month Lumquat costs 5 euros.",
    "faq.csv": "question,answer\nWho sells Brodal?,Orvelle does.\n",
}


def write(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def plan_for(tmp_path: Path, *paths: Path, **changes: Any) -> IngestPlan:
    config = small_config(tmp_path / "indexes", embedding_batch=4)
    return IngestPlan("orvelle", paths or (tmp_path / "docs",), config, **changes)


def texts_embedded(embedder: HashEmbedder) -> int:
    return sum(len(texts) for _, texts in embedder.calls)


async def found(
    plan: IngestPlan, query: str, *, mode: Any = "naive", embedder: Embedder | None = None
) -> list[str]:
    """The passages that a search finds."""
    base = await open_knowledge_base(plan.name, config=plan.config, embedder=embedder or HashEmbedder())
    try:
        return await passages(base, query, mode)
    finally:
        await base.close()


async def passages(base: KnowledgeBase, query: str, mode: Any) -> list[str]:
    documents = await LightRAGRetriever(knowledge_base=base, rag_mode=mode, tenant_id="t").ainvoke(query)
    return [document.page_content for document in documents if document.metadata["kind"] == "chunk"]


@pytest.mark.slow
async def test_three_hundred_mixed_files_are_searchable(tmp_path: Path) -> None:
    mixed_folder(tmp_path / "docs", 300)
    plan, embedder, seen = plan_for(tmp_path), HashEmbedder(1024), set()
    report = await ingest(plan, embedder, lambda stage, done, total: seen.add((stage, done == total)))
    assert len(report.changes.added) == 300
    assert {problem.source for problem in report.changes.problems} == {
        "docs/broken.jsonl",
        "docs/old.txt",
        "docs/cut.docx",
    }
    assert report.ignored == {".png": 1}
    assert {("read", True), ("embed", True)} <= seen
    assert report.manifest.origin.documents == 300
    base = await open_knowledge_base(plan.name, config=plan.config, embedder=embedder)
    try:
        names = {name.name for name in base.names}
        assert {f"Kelvara{number}" for number in range(300)} <= names
        for number in (20, 21, 22, 23, 24, 27, 28):  # md, html, txt, csv, jsonl, docx, pdf
            best = (await passages(base, f"Kelvara{number} costs {number} euros", "mix"))[0]
            assert f"{number} euros" in best, number
        edge = await base.rag.chunk_entity_relation_graph.get_edge("Kelvara25", "Kelvara24")
        assert {"cooccurs", "links"} <= set(edge["keywords"].split(", "))
    finally:
        await base.close()
    embedder.calls.clear()
    again = await ingest(plan, embedder)
    assert (again.built, again.embedded, embedder.calls, again.changes.unchanged) == (False, 0, [], 300)


async def test_the_same_content_twice_is_no_work(tmp_path: Path) -> None:
    write(tmp_path / "docs", FEW)
    plan, embedder = plan_for(tmp_path), HashEmbedder()
    first = await ingest(plan, embedder)
    assert first.built
    assert first.embedded == texts_embedded(embedder) > 3
    embedder.calls.clear()
    (tmp_path / "docs" / "brodal.md").touch()
    second = await ingest(plan, embedder)
    assert (second.built, second.embedded, embedder.calls) == (False, 0, [])
    assert second.manifest == first.manifest


async def test_a_changed_file_is_updated_and_only_its_texts_are_embedded(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", FEW)
    plan, embedder = plan_for(tmp_path, with_graph=False), HashEmbedder()
    await ingest(plan, embedder)
    embedder.calls.clear()
    write(docs, {"lumquat.txt": "Lumquat keeps stock. Now it costs 7 euros."})
    report = await ingest(plan, embedder)
    assert report.changes.changed == ["docs/lumquat.txt"]
    assert texts_embedded(embedder) == report.embedded == 1
    texts = "\n".join(await found(plan, "what does Lumquat cost"))
    assert "7 euros" in texts
    assert "5 euros" not in texts


async def test_a_removed_file_is_removed(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", FEW)
    plan, embedder = plan_for(tmp_path), HashEmbedder()
    await ingest(plan, embedder)
    embedder.calls.clear()
    (docs / "lumquat.txt").unlink()
    report = await ingest(plan, embedder)
    assert report.changes.removed == ["docs/lumquat.txt"]
    assert not any("Lumquat" in text for text in await found(plan, "Lumquat stock", mode="mix"))
    assert embedder.calls == []


async def test_another_path_adds_and_forget_takes_out(tmp_path: Path) -> None:
    docs, more = write(tmp_path / "docs", FEW), write(tmp_path / "more", {"x.txt": "Tarvo sends letters."})
    await ingest(plan_for(tmp_path, docs), HashEmbedder())
    added = await ingest(plan_for(tmp_path, more), HashEmbedder())
    assert (added.changes.added, added.manifest.origin.documents) == (["more/x.txt"], 4)
    taken = await ingest(replace(plan_for(tmp_path), paths=(), forget=(docs,)), HashEmbedder())
    assert sorted(taken.changes.removed) == ["docs/brodal.md", "docs/faq.csv", "docs/lumquat.txt"]
    assert await found(plan_for(tmp_path), "Brodal", mode="naive") == ["x\nTarvo sends letters."]


async def test_folders_of_one_name_may_hold_files_of_one_name(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = write(tmp_path / "a" / "docs", {"x.txt": "Tarvo sends letters."})
    second = write(tmp_path / "b" / "docs", {"x.txt": "Tarvo reads letters."})
    report = await ingest(plan_for(tmp_path, first, second), HashEmbedder())
    assert report.manifest.passages == 2


async def test_a_file_that_broke_keeps_its_earlier_text(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", FEW)
    plan = plan_for(tmp_path)
    await ingest(plan, HashEmbedder())
    (docs / "lumquat.txt").write_bytes(b"\xe9\xe8")
    report = await ingest(plan, HashEmbedder())
    assert report.changes.problems == [
        Problem("docs/lumquat.txt", "line 1 is not utf-8; save the file as UTF-8", kept=True)
    ]
    assert any("5 euros" in text for text in await found(plan, "what does Lumquat cost"))


async def test_a_lite_tenant_has_no_graph(tmp_path: Path) -> None:
    write(tmp_path / "docs", FEW)
    report = await ingest(plan_for(tmp_path, with_graph=False), HashEmbedder())
    assert (report.manifest.entities, report.manifest.origin.graph) == (0, "none")
    grown = await ingest(plan_for(tmp_path), HashEmbedder())
    assert grown.manifest.entities > 0


async def test_nothing_to_index_leaves_the_index(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", FEW)
    plan = plan_for(tmp_path)
    await ingest(plan, HashEmbedder())
    for file in docs.iterdir():
        file.unlink()
    with pytest.raises(DatasetError, match="nothing would be left"):
        await ingest(plan, HashEmbedder())
    assert await found(plan, "Brodal")
    with pytest.raises(DatasetError, match="no such file or folder"):
        await ingest(plan_for(tmp_path, tmp_path / "gone"), HashEmbedder())


async def test_another_embedding_model_is_refused_with_the_fix(tmp_path: Path) -> None:
    write(tmp_path / "docs", FEW)
    plan, other = plan_for(tmp_path), HashEmbedder(32, model_id="other")
    await ingest(plan, HashEmbedder())
    with pytest.raises(KnowledgeBaseError, match=r"'hash' \(64 dimensions\).*--rebuild"):
        await ingest(plan, other)
    rebuilt = await ingest(replace(plan, rebuild=True), other)
    assert (rebuilt.manifest.model_id, rebuilt.manifest.dim) == ("other", 32)
    assert await found(plan, "Brodal", embedder=other)


async def test_an_index_from_elsewhere_is_not_replaced_unasked(tmp_path: Path) -> None:
    write(tmp_path / "docs", FEW)
    plan = plan_for(tmp_path)
    await ingest(plan, HashEmbedder())
    plan.state_path.unlink()
    with pytest.raises(KnowledgeBaseError, match="--replace"):
        await ingest(plan, HashEmbedder())
    report = await ingest(replace(plan, replace=True), HashEmbedder())
    assert report.manifest.origin.documents == 3


async def test_two_runs_do_not_build_against_each_other(tmp_path: Path) -> None:
    write(tmp_path / "docs", FEW)
    plan = plan_for(tmp_path)
    state = IngestState(plan.state_path)
    with pytest.raises(KnowledgeBaseError, match="another `ix ingest`"):
        await ingest(plan, HashEmbedder())
    state.close()
    assert (await ingest(plan, HashEmbedder())).built


KILLED = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from fakes import HashEmbedder
from small_base import small_config
from ixrag.ingest.run import IngestPlan, ingest

plan = IngestPlan("orvelle", (Path({docs!r}),), small_config(Path({indexes!r}), embedding_batch=4), with_graph=False)
told = lambda stage, done, total: print(stage, done, flush=True)
asyncio.run(ingest(plan, HashEmbedder(delay_s=0.02), told))
"""


@pytest.mark.slow
def test_a_killed_run_is_taken_up_where_it_stopped(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", {f"{n}.txt": f"Product Kelvara{n} costs {n} euros." for n in range(60)})
    plan = plan_for(tmp_path, with_graph=False)
    script = KILLED.format(
        tests=str(Path(__file__).parents[1]), docs=str(docs), indexes=str(plan.config.working_dir)
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stdout is not None
    for line in process.stdout:
        if (match := re.match(r"embed (\d+)", line)) and int(match[1]) >= 20:
            process.send_signal(signal.SIGKILL)
            break
    assert process.wait(60) == -signal.SIGKILL
    process.stdout.close()
    with pytest.raises(KnowledgeBaseError, match="no knowledge base"):
        asyncio.run(found(plan, "Kelvara3"))
    embedder = HashEmbedder()
    report = asyncio.run(ingest(plan, embedder))
    assert report.changes.unchanged == 60
    assert 0 < texts_embedded(embedder) == report.embedded <= 40
    assert report.manifest.passages == 60
    assert not list(plan.config.working_dir.glob("orvelle/.part-*/orvelle-*/vdb_chunks.json"))


EXTRACTED = """entity<|#|>Brodal<|#|>product<|#|>Brodal plans shifts.
entity<|#|>Fenstrel<|#|>module<|#|>Fenstrel sends hours.
relation<|#|>Brodal<|#|>Fenstrel<|#|>payroll, hours<|#|>Brodal hands hours to Fenstrel.
<|COMPLETE|>"""


def extraction(server: LoopbackServer) -> Extraction:
    route = ExtractionRoute(model="openai:any", base_url=server.openai_url, timeout_s=10, max_retries=0)
    return Extraction(build_chat_model(route), route.model, route.timeout_s)


async def test_a_model_finds_the_graph_by_lightrags_own_extraction(tmp_path: Path) -> None:
    write(tmp_path / "docs", FEW)
    async with openai_server(answer(EXTRACTED)) as server:
        plan = plan_for(tmp_path, extraction=extraction(server))
        report = await ingest(plan, HashEmbedder())
        assert (report.asked, report.manifest.origin.graph) == (3, "model")
        assert (report.manifest.entities, report.manifest.relations) == (2, 1)
        assert any("shifts" in str(request.body["messages"]) for request in server.requests)
        base = await open_knowledge_base("orvelle", config=plan.config, embedder=HashEmbedder())
        try:
            assert {(name.name, name.type) for name in base.names} == {
                ("Brodal", "product"),
                ("Fenstrel", "module"),
            }
            retriever = LightRAGRetriever(knowledge_base=base, rag_mode="mix", tenant_id="t")
            documents = await retriever.ainvoke(
                "Brodal hours", ll_keywords=["Brodal"], hl_keywords=["payroll"]
            )
        finally:
            await base.close()
        kinds = {document.metadata["kind"] for document in documents}
        assert kinds == {"chunk", "entity", "relation"}
        assert {d.metadata["source"] for d in documents if d.metadata["kind"] == "chunk"} == {
            f"docs/{name}" for name in FEW
        }
        write(tmp_path / "docs", {"lumquat.txt": "Lumquat counts."})
        again = await ingest(plan, HashEmbedder())
        assert again.asked == 1  # the changed passage alone


async def test_a_passage_the_model_failed_on_goes_in_and_is_asked_for_again(tmp_path: Path) -> None:
    write(tmp_path / "docs", FEW)
    async with openai_server(status(500), answer(EXTRACTED)) as server:
        plan = plan_for(tmp_path, extraction=extraction(server))
        first = await ingest(plan, HashEmbedder())
        assert (first.failures, first.manifest.passages) == ({"model_error": 1}, 3)
        second = await ingest(plan, HashEmbedder())
        assert (second.asked, second.failures, second.built) == (1, {}, True)
        assert not (await ingest(plan, HashEmbedder())).built


async def test_a_dead_model_publishes_nothing(tmp_path: Path) -> None:
    write(tmp_path / "docs", FEW)
    await ingest(plan_for(tmp_path), HashEmbedder())
    async with openai_server(status(503)) as server:
        plan = plan_for(tmp_path, extraction=extraction(server))
        with pytest.raises(KnowledgeBaseError, match="answered none of 3 calls"):
            await ingest(plan, HashEmbedder())
    assert await found(plan, "Brodal", mode="mix")


async def test_an_open_knowledge_base_knows_that_a_newer_build_exists(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", FEW)
    plan = plan_for(tmp_path)
    await ingest(plan, HashEmbedder())
    base = await open_knowledge_base(plan.name, config=plan.config, embedder=HashEmbedder())
    try:
        assert await base.is_newest()
        write(docs, {"new.txt": "Tarvo sends letters."})
        await ingest(plan, HashEmbedder())
        assert not await base.is_newest()
        assert await passages(base, "Brodal", "naive")
    finally:
        await base.close()
