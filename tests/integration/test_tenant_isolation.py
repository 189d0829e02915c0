"""Two tenants with the same document names, and a thousand cancelled searches: neither sees the other."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from pathlib import Path

from fakes import HashEmbedder
from small_base import small_config, small_corpus

from ixchat.nodes.knowledge_retriever import Deps
from ixchat.tenants import OpenTenant, TenantRegistry
from ixinfra.config.settings import LightRAGConfig
from ixrag.lightrag.knowledge_base import build_knowledge_base, open_knowledge_base
from ixrag.lightrag.langgraph_retriever import LightRAGRetriever

COMPANIES = {"one": "Orvelle", "two": "Halvane"}
SEARCHES = 1000


async def open_tenant(tenant_id: str, *, config: LightRAGConfig, embedder: HashEmbedder) -> OpenTenant:
    base = await open_knowledge_base(tenant_id, config=config, embedder=embedder)
    retriever = LightRAGRetriever(knowledge_base=base, rag_mode="mix", tenant_id=tenant_id)
    return OpenTenant(Deps(retriever, tenant_id=tenant_id), base.close)


async def test_a_thousand_cancelled_searches_leak_nothing(tmp_path: Path) -> None:
    config, embedder = small_config(tmp_path), HashEmbedder(delay_s=0.002)
    for name, company in COMPANIES.items():
        await build_knowledge_base(small_corpus(company), name, config=config, embedder=embedder)
    before = asyncio.all_tasks()
    registry = TenantRegistry(partial(open_tenant, config=config, embedder=embedder), max_open=2)
    rng = random.Random(7)

    async def search(tenant_id: str) -> None:
        async with registry.lend(tenant_id) as deps:
            documents = await deps.retriever.ainvoke("Brodal prices, offices and payroll")
        other = COMPANIES["two" if tenant_id == "one" else "one"]
        text = " ".join(document.page_content for document in documents)
        assert COMPANIES[tenant_id] in text
        assert other not in text
        assert {document.metadata["tenant"] for document in documents} == {tenant_id}

    finished = 0
    for start in range(0, SEARCHES, 20):
        tasks = [asyncio.create_task(search(rng.choice(["one", "two"]))) for _ in range(20)]
        for task in tasks:
            await asyncio.sleep(rng.choice([0, 0, 0.0005]))
            if start or task is not tasks[0]:
                task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results)
        finished += sum(result is None for result in results)
    assert finished < SEARCHES / 2
    await asyncio.gather(*(search(tenant_id) for tenant_id in ["one", "two"] * 5))
    await registry.close()
    left = {task for task in asyncio.all_tasks() - before if not task.done()}
    assert left == set()
    assert embedder.running == 0


async def test_a_tenant_in_use_outlives_the_ones_that_push_it_out(tmp_path: Path) -> None:
    config, embedder = small_config(tmp_path), HashEmbedder()
    for name, company in COMPANIES.items():
        await build_knowledge_base(small_corpus(company), name, config=config, embedder=embedder)
    registry = TenantRegistry(partial(open_tenant, config=config, embedder=embedder), max_open=1)
    async with registry.lend("one") as held:
        async with registry.lend("two") as other:
            assert await other.retriever.ainvoke("offices")
        assert "Orvelle" in " ".join(d.page_content for d in await held.retriever.ainvoke("offices"))
    async with registry.lend("two") as again:  # it was closed meanwhile, and opens once more
        assert await again.retriever.ainvoke("offices")
    await registry.close()
