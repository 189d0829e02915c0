"""How fast the engine is at a given number of passages: gate, rewriting, each index, and the path from end to end.

The turns are those of the bundled sets, in five languages; passages and their vectors are made up. One row of
the path embeds each query as well, and then searches for a made-up vector in its place.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
import zlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks.engine_data import sample_resolver
from benchmarks.engine_synthetic import DIM, LANGUAGE, PORTION, Synthetic
from benchmarks.timing import table
from ixchat.nodes.deps import Deps
from ixchat.nodes.knowledge_retriever import choose, retrieve
from ixchat.utils.intent_gate import IntentGate
from ixchat.utils.resolution import Turn
from ixevaluation.dataset import load_set
from ixinfra.config.settings import EmbeddingConfig
from ixinfra.embeddings import build_embedder
from ixrag.query import HeuristicQueryDecomposer, InMemoryGlossary, QueryUnderstandingPipeline
from ixrag.query.context import QueryContext
from ixrag.sample import sample_corpus
from ixrag.search.encoders import Encoders
from ixrag.search.engine import HybridRetriever, Limits
from ixrag.search.fan_out import Deadline
from ixrag.search.index import CHANNELS, Channel, Vector
from ixrag.search.qdrant_edge import EmbeddedIndex
from ixrag.search.rerank import ScoreMix

T = TypeVar("T")

PARTITION = "load"
PATIENT = Limits(deadline=Deadline(30.0, 30.0), rerank_s=5.0)  # times as they are, not cut at a deadline
SETS = ("v1", "elliptic", "reference")
WIDTHS = (1, 8, 64)
WARM_UP = 40
MANY = 600  # turns that the gate sees, some of them twice
EMBEDDED = 100


@dataclass(frozen=True, slots=True)
class MadeUp(Encoders):
    """Gives each text the vectors of some made-up query, after embedding it where `embeds`."""

    vectors: Sequence[Mapping[Channel, Vector]] = ()
    embeds: bool = False

    def language_of(self, text: str) -> str:
        """The one language of the passages; the look at the text is paid for all the same."""
        super(MadeUp, self).language_of(text)
        return LANGUAGE

    async def query(self, channel: Channel, text: str, lang: str) -> Vector:
        """Of `text`; see `Encoders.query`."""
        if self.embeds or channel == "bm25":
            await super(MadeUp, self).query(channel, text, lang)
        return self.vectors[zlib.crc32(text.encode()) % len(self.vectors)][channel]


async def latency(work: Path, passages: int, searches: int) -> None:
    """Print how long everything takes with this many passages; they are stored once in `work`."""
    folder = work / f"synthetic-{passages}"
    built = _built(folder, passages)
    index = EmbeddedIndex(folder, DIM)
    model = build_embedder(EmbeddingConfig())
    encoders = MadeUp(model, model, LANGUAGE, vectors=Synthetic().queries(searches))  # type: ignore[arg-type]  # the built embedder has learned terms
    print(
        f"\n{passages:,} passages: stored in {built['stored_s']:.0f} s, graph built in {built['graph_s']:.0f} s "
        f"({built['cpu_s']:.0f} s of CPU together), {built['disk_mb']:,.0f} MB on disk"
    )
    deps = _deps(index, encoders)
    turns = _turns()
    used = turns[:searches]
    for turn in turns[:WARM_UP]:
        await retrieve(turn, deps)
    rows = {
        **await _before_the_search(turns, deps),
        **await _indexes(index, encoders.vectors),
        **await _paths(used, deps, _deps(index, replace(encoders, embeds=True))),
    }
    print(table(f"{passages:,} passages", rows))
    for width in WIDTHS:
        started = time.perf_counter()
        await asyncio.gather(*(_lane(used[lane::width], deps) for lane in range(width)))
        print(f"{width:3} at once: {len(used) / (time.perf_counter() - started):.0f} turns a second")
    print(_memory())
    await index.close()


def _built(folder: Path, passages: int) -> dict[str, float]:
    """Store the passages in a process of its own, so that its memory does not count as that of searching."""
    record = folder.with_suffix(".json")
    if not record.is_file():
        child = multiprocessing.get_context("spawn").Process(target=_build, args=(folder, passages, record))
        child.start()
        child.join()
    facts: dict[str, float] = json.loads(record.read_text(encoding="utf-8"))
    return facts


def _build(folder: Path, passages: int, record: Path) -> None:
    async def build() -> dict[str, float]:
        index = EmbeddedIndex(folder, DIM)
        cpu, started = time.process_time(), time.perf_counter()
        done = sum((await index.languages(PARTITION)).values()) // PORTION * PORTION
        for portion in Synthetic().portions(done, passages):
            await index.upsert(PARTITION, portion)
        stored_s, started = time.perf_counter() - started, time.perf_counter()
        await index.optimize()
        graph_s = time.perf_counter() - started
        await index.close()
        return {"stored_s": stored_s, "graph_s": graph_s, "cpu_s": time.process_time() - cpu}

    facts = asyncio.run(build())
    blocks = sum(path.stat().st_blocks for path in folder.rglob("*") if path.is_file())
    record.write_text(json.dumps(facts | {"disk_mb": blocks * 512 / 2**20}), encoding="utf-8")


def _deps(index: EmbeddedIndex, encoders: Encoders) -> Deps:
    resolver = sample_resolver()
    splitting = QueryUnderstandingPipeline(decomposer=HeuristicQueryDecomposer())
    glossary = InMemoryGlossary(
        {entity.name: list(entity.aliases) or [entity.type] for entity in sample_corpus().entities}
    )
    engine = HybridRetriever(
        index,
        encoders,
        PARTITION,
        languages={LANGUAGE: 1},
        pipelines={
            "decompose": splitting,
            "coref_decompose": splitting,
            "expand": QueryUnderstandingPipeline(glossary=glossary),
        },
        limits=PATIENT,
        reranker=ScoreMix(),
    )
    return Deps(
        engine,
        text_resolver=resolver.search_query,
        reference_resolver=resolver.reference,
        tenant_id="benchmark",
        gate=IntentGate(),
    )


def _turns() -> list[Turn]:
    """Every item of the sets, mixed by hash so that the first hundred are like the rest."""
    items = [item for name in SETS for item in load_set(name).items]
    return [item.turn() for item in sorted(items, key=lambda item: zlib.crc32(item.id.encode()))]


async def _before_the_search(turns: Sequence[Turn], deps: Deps) -> dict[str, list[float]]:
    """What a message goes through before any index is asked, without a chat model."""
    gate, engine = _parts(deps)
    encoders, pipelines = engine.encoders, engine.pipelines
    context = QueryContext("benchmark", LANGUAGE)

    async def classify(turn: Turn) -> None:
        gate.classify(turn)

    async def add(turn: Turn) -> None:
        await deps.reference_resolver(turn)
        await deps.text_resolver(turn)
        await pipelines["coref_decompose"].understand(context, turn.query)
        await pipelines["expand"].understand(context, turn.query)

    async def embed(turn: Turn) -> None:
        await asyncio.gather(encoders.embedder.query([turn.query]), encoders.sparse.sparse([turn.query]))

    many = (list(turns) * (MANY // len(turns) + 1))[:MANY]
    return {
        "gate, features included": await _timed(classify, many),
        "added by rewriting and expansion": await _timed(add, many),
        "embedding of the query": await _timed(embed, turns[:EMBEDDED]),
    }


async def _indexes(
    index: EmbeddedIndex, queries: Sequence[Mapping[Channel, Vector]]
) -> dict[str, list[float]]:
    """Each index alone, and the three in one call that fuses them there."""
    rows: dict[str, list[float]] = {}
    for channel in CHANNELS:
        rows[f"index: {channel}"] = await _timed(partial(_search, index, channel), queries)

    async def fused(query: Mapping[Channel, Vector]) -> None:
        searches = [(channel, query[channel]) for channel in CHANNELS]
        await index.fused(PARTITION, searches, limit=40, depth=40, k=10)

    return rows | {"index: three, fused there": await _timed(fused, queries)}


async def _search(index: EmbeddedIndex, channel: Channel, query: Mapping[Channel, Vector]) -> None:
    await index.search(PARTITION, channel, query[channel], limit=40)


async def _paths(turns: Sequence[Turn], deps: Deps, embedding: Deps) -> dict[str, list[float]]:
    """A turn from the gate to the passages, by what the policy does with it."""
    rows: dict[str, list[float]] = defaultdict(list)
    for turn in turns:
        plan = choose(turn, deps)
        strategy = plan.retriever.strategy if isinstance(plan.retriever, HybridRetriever) else "short reply"
        (elapsed_ms,) = await _timed(lambda turn: retrieve(turn, deps), [turn])
        rows[f"path: {strategy}"].append(elapsed_ms)
    every = [value for values in rows.values() for value in values]
    with_embedding = await _timed(lambda turn: retrieve(turn, embedding), turns[:EMBEDDED])
    return {**dict(sorted(rows.items())), "path: all": every, "path: all, embedding included": with_embedding}


def _parts(deps: Deps) -> tuple[IntentGate, HybridRetriever]:
    assert deps.gate is not None
    assert isinstance(deps.retriever, HybridRetriever)
    return deps.gate, deps.retriever


async def _lane(turns: Sequence[Turn], deps: Deps) -> None:
    for turn in turns:
        await retrieve(turn, deps)


async def _timed(do: Callable[[T], Awaitable[object]], things: Sequence[T]) -> list[float]:
    """Milliseconds of each call, one after the other."""
    elapsed: list[float] = []
    for thing in things:
        started = time.perf_counter_ns()
        await do(thing)
        elapsed.append((time.perf_counter_ns() - started) / 1e6)
    return elapsed


def _memory() -> str:
    """What the process holds itself, and what it has mapped of the files."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    own, mapped = (
        int(line.split()[1]) / 1024
        for name in ("RssAnon:", "RssFile:")
        for line in status.splitlines()
        if line.startswith(name)
    )
    return f"memory of the process: {own:,.0f} MB its own, {mapped:,.0f} MB of mapped files"
