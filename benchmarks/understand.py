"""What query understanding itself costs. Run: `python -m benchmarks.understand`.

Goals: the pipeline adds at most 1 ms (p50) to a bare `gather` of the same four components; a glossary of
10,000 terms is no slower than one of 10.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from benchmarks.timing import table
from ixrag.query import (
    HeuristicQueryDecomposer,
    HyDEResult,
    InMemoryGlossary,
    MemoryCache,
    QueryContext,
    QueryUnderstandingPipeline,
)
from ixrag.query.cache import cache_key

CTX = QueryContext("acme")
QUERY = "What does the payroll module cost, and how do I export the hours of a month to it?"
REPEATS = 2_000


class Stub:
    """All four components; each gives the loop one turn, as an awaited model would."""

    async def rewrite(self, ctx: QueryContext, query_text: str, *, n: int = 3) -> list[str]:
        await asyncio.sleep(0)
        return ["price of the payroll module", "export hours to payroll", "payroll cost"]

    async def decompose(self, ctx: QueryContext, query_text: str) -> list[str]:
        await asyncio.sleep(0)
        return ["What does the payroll module cost?", "How do I export the hours of a month?"]

    async def expand(self, ctx: QueryContext, query_text: str) -> dict[str, list[str]]:
        await asyncio.sleep(0)
        return {"payroll": ["wages", "pay"]}

    async def generate(self, ctx: QueryContext, query_text: str) -> HyDEResult:
        await asyncio.sleep(0)
        return HyDEResult(["The payroll module costs 4 euros a head and month."], [1.0] + [0.0] * 383, "stub")


async def main() -> None:
    """Print the timings, one line each."""
    stub = Stub()
    pipeline = QueryUnderstandingPipeline(rewriter=stub, decomposer=stub, glossary=stub, hyde=stub)

    async def bare() -> Any:
        return await asyncio.gather(
            stub.rewrite(CTX, QUERY),
            stub.decompose(CTX, QUERY),
            stub.expand(CTX, QUERY),
            stub.generate(CTX, QUERY),
        )

    rows: dict[str, list[float]] = {"bare gather": [], "pipeline": []}
    for _ in range(REPEATS):  # alternating, so that both see the same machine
        rows["bare gather"].append(await _timed(bare))
        rows["pipeline"].append(await _timed(lambda: pipeline.understand(CTX, QUERY)))
    rows["difference"] = [
        full - plain for plain, full in zip(rows["bare gather"], rows["pipeline"], strict=True)
    ]
    print(table("four components, stubbed", rows))

    parts: dict[str, list[float]] = {}
    for size in (10, 10_000, 100_000):
        started = time.perf_counter()
        terms = {f"term {number}": ["x"] for number in range(size)} | {"payroll module": ["wages"]}
        glossary = InMemoryGlossary(terms, plurals_of=["en"])
        parts[f"glossary, load {size:,} terms"] = [(time.perf_counter() - started) * 1_000]
        expand = partial(glossary.expand, CTX, QUERY)
        parts[f"glossary, {size:,} terms"] = [await _timed(expand) for _ in range(REPEATS)]
    decomposer, cache = HeuristicQueryDecomposer(), MemoryCache()
    key = cache_key("acme", "rewrites", QUERY)
    assert key is not None
    await cache.put(key, b"x" * 200, ttl_s=3600)
    parts["decomposer, rules"] = [
        await _timed(lambda: decomposer.decompose(CTX, QUERY)) for _ in range(REPEATS)
    ]
    parts["cache in memory, hit"] = [await _timed(lambda: cache.get(key)) for _ in range(REPEATS)]
    print()
    print(table("each part", parts))


async def _timed(call: Callable[[], Awaitable[Any]]) -> float:
    """Milliseconds of one call."""
    started = time.perf_counter_ns()
    await call()
    return (time.perf_counter_ns() - started) / 1e6


if __name__ == "__main__":
    asyncio.run(main())
