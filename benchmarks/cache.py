"""What the rewrite cache takes and saves: bytes an entry, time of a hit, and what counts as the same question.

python -m benchmarks.cache                                  # in memory, and on Redis where one listens
python -m benchmarks.cache --redis redis://127.0.0.1:6379/9
python -m benchmarks.cache --likeness                       # needs the extra `local`

Entries are paraphrases of invented questions, three each; vectors have 384 dimensions. The Redis database
named is expected to be empty of `ix:` keys of the tenant `bench`; what was written is removed again.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import time
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.timing import table
from ixinfra.config.settings import EmbeddingConfig
from ixinfra.embeddings import Vectors, build_embedder
from ixrag.query.asked import Asked
from ixrag.query.cache import Cache, MemoryCache, RedisCache, open_redis_cache
from ixrag.query.near import MAX_A_TENANT, NearQueries, marks_of
from ixrag.query.rewrite_cache import RewriteCache
from ixrag.query.rewriter import REWRITE_PROMPT

TENANT = "bench"
ENTRIES = 20_000
LOOK_UPS = 2_000
DIM = 384
WORDS = [
    "payroll",
    "rota",
    "shift",
    "export",
    "hours",
    "month",
    "invoice",
    "contract",
    "price",
    "plan",
    "manager",
    "employee",
    "leave",
    "approval",
    "stock",
    "count",
    "restaurant",
    "shop",
    "report",
    "delivery",
    "training",
    "support",
    "licence",
    "badge",
    "reader",
    "overtime",
    "holiday",
]
ASKED = Asked(TENANT, "rewrites", "", "mistralai:ministral-3b-latest", f"v1 {REWRITE_PROMPT}", (3,), "en")

# Pairs of questions that mean the same, and pairs of which one word makes another question.
SAME = (
    ("How do I export the payroll file?", "how can I export payroll files", "en"),
    ("What does the starter plan cost per month?", "what's the monthly cost of the starter plan", "en"),
    ("Is there a mobile app for employees?", "do you have a mobile app for the employees?", "en"),
    ("How long are rotas kept?", "for how long do you keep rotas", "en"),
    ("Can managers approve leave requests?", "can a manager approve a leave request", "en"),
    ("Where is customer data stored?", "where do you store customer data?", "en"),
    ("What is the notice period for cancelling?", "whats the notice period to cancel", "en"),
    ("Do you offer training for store managers?", "is training offered to store managers", "en"),
    ("leave approval", "approval of leave", "en"),
    ("payroll integration", "integration with payroll", "en"),
    ("opening hours", "what are your opening hours?", "en"),
    ("price list", "prices list please", "en"),
    ("Combien de bureaux avez-vous ?", "vous avez combien de bureaux", "fr"),
    ("Quel est le préavis pour résilier ?", "c'est quoi le préavis pour résilier", "fr"),
    ("Où sont stockées les données des clients ?", "où stockez-vous les données des clients", "fr"),
    ("Comment exporter les heures du mois ?", "comment on exporte les heures du mois ?", "fr"),
    ("validation des congés", "valider les congés", "fr"),
    ("heures supplémentaires", "heures supp", "fr"),
    ("durée de conservation", "durée de conservation des données", "fr"),
    (
        "Peut-on importer les salariés depuis un tableur ?",
        "importer des salariés à partir d'un tableur, possible ?",
        "fr",
    ),
)
DIFFERENT = (
    ("How do I export the payroll file?", "How do I import the payroll file?", "en"),
    ("What does the starter plan cost per month?", "What does the starter plan cost per year?", "en"),
    ("What does the starter plan cost?", "What does the business plan cost?", "en"),
    ("Is there a mobile app for employees?", "Is there a mobile app for managers?", "en"),
    ("How long are rotas kept?", "How long are invoices kept?", "en"),
    ("Can managers approve leave requests?", "Can managers refuse leave requests?", "en"),
    ("Does it work with an internet connection?", "Does it work without an internet connection?", "en"),
    ("Is support included?", "Is support not included?", "en"),
    ("leave approval", "leave balance", "en"),
    ("payroll integration", "accounting integration", "en"),
    ("night work rules", "sunday work rules", "en"),
    ("price list", "price increase", "en"),
    ("Combien de bureaux avez-vous ?", "Combien de clients avez-vous ?", "fr"),
    ("Combien de bureaux avez-vous ?", "Combien de salariés avez-vous ?", "fr"),
    ("Quel est le préavis pour résilier ?", "Quel est le prix pour résilier ?", "fr"),
    ("Comment exporter les heures du mois ?", "Comment exporter les heures de la semaine ?", "fr"),
    ("validation des congés", "validation des notes de frais", "fr"),
    ("heures supplémentaires", "heures complémentaires", "fr"),
    (
        "Peut-on importer les salariés depuis un tableur ?",
        "Peut-on exporter les salariés vers un tableur ?",
        "fr",
    ),
    ("travail de nuit", "travail du dimanche", "fr"),
)


class RandomVectors:
    """A vector of its own for each text, at no cost; the same text has the same one."""

    dim, model_id = DIM, "random-384"

    async def query(self, texts: Sequence[str]) -> Vectors:
        rows = [np.random.default_rng(zlib.crc32(text.encode())).normal(size=DIM) for text in texts]
        return np.stack([row / np.linalg.norm(row) for row in rows]).astype(np.float32)

    async def passage(self, texts: Sequence[str]) -> Vectors:
        return await self.query(texts)


def questions(count: int) -> list[Asked]:
    """Invented questions of five to nine words."""
    rng = random.Random(7)
    return [
        replace(ASKED, query=f"{' '.join(rng.choices(WORDS, k=rng.randint(5, 9)))} {number}")
        for number in range(count)
    ]


def paraphrases(asked: Asked) -> list[str]:
    """Three texts as long as a model's."""
    rng = random.Random(asked.query)
    return [" ".join(rng.choices(WORDS, k=rng.randint(5, 9))) for _ in range(3)]


async def fill(cache: RewriteCache, asked: Sequence[Asked]) -> None:
    """Keep an answer for each."""
    for question in asked:
        await cache.keep(question, paraphrases(question))


async def timed(call: Callable[[Asked], Awaitable[object]], asked: Sequence[Asked]) -> list[float]:
    """Milliseconds of each call."""
    rows = []
    for question in asked:
        started = time.perf_counter_ns()
        await call(question)
        rows.append((time.perf_counter_ns() - started) / 1e6)
    return rows


async def in_memory() -> None:
    """Bytes an entry takes in this process, and the time of a look-up."""
    asked = questions(ENTRIES)
    marks_of(asked[0].query)  # word lists are loaded once, whatever is kept
    texts = sum(len(json.dumps(paraphrases(question))) for question in asked)
    print(f"three paraphrases as JSON: {texts / ENTRIES:.0f} bytes")
    tracemalloc.start()
    exact = RewriteCache(MemoryCache(ENTRIES))
    before, _ = tracemalloc.get_traced_memory()
    await fill(exact, asked)
    entries = tracemalloc.get_traced_memory()[0] - before
    near = NearQueries(RandomVectors(), at_least=0.98)
    both = RewriteCache(MemoryCache(ENTRIES), near=near)
    part = asked[:MAX_A_TENANT]
    await near.add(replace(asked[0], tenant_id="warm"), "00", ttl_s=3600)
    before, _ = tracemalloc.get_traced_memory()
    for question in part:
        await near.add(question, question.key.digest if question.key else "", ttl_s=3600)
    await asyncio.sleep(0.3)  # timers of finished calls stay in the loop until they are due
    gc.collect()
    vectors = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    print(f"memory, {ENTRIES:,} entries: {entries / ENTRIES:.0f} bytes each")
    print(f"memory, {len(part):,} vectors of a tenant: {vectors / len(part):.0f} bytes each")
    rows = {"hit": await timed(exact.find, asked[:LOOK_UPS])}
    rows["miss"] = await timed(exact.find, [replace(q, query=f"{q.query} no") for q in asked[:LOOK_UPS]])
    rows["miss, 1,000 vectors compared"] = await timed(
        both.find, [replace(q, query=f"{q.query} no") for q in asked[:LOOK_UPS]]
    )
    print(table("look-up in memory", rows))


async def on_redis(url: str) -> None:
    """Bytes an entry takes on the server, and the time of a look-up over loopback."""
    from redis.asyncio import Redis

    client = Redis.from_url(url)
    try:
        await client.ping()
    except Exception as error:
        print(f"no Redis at {url}: {type(error).__name__}")
        return
    server = open_redis_cache(url, timeout_s=5.0)
    await _forget(client)
    asked = questions(ENTRIES)
    before = (await client.info("memory"))["used_memory"]
    exact = RewriteCache(server)
    await fill(exact, asked)
    entries = (await client.info("memory"))["used_memory"] - before
    both = RewriteCache(server, near=NearQueries(RandomVectors(), at_least=0.98, shared=server))
    part = asked[:MAX_A_TENANT]
    await fill(both, part)
    vectors = await client.memory_usage(f"ix:near:{TENANT}", samples=0) or 0
    print(
        f"\nRedis, {ENTRIES:,} entries: {entries / ENTRIES:.0f} bytes each, key {len(str(asked[0].key))} characters"
    )
    print(f"Redis, log of {len(part):,} vectors: {vectors / len(part):.0f} bytes each")
    missing = [replace(q, query=f"{q.query} no") for q in asked[:LOOK_UPS]]
    rows = {"hit": await timed(exact.find, asked[:LOOK_UPS])}
    rows["miss"] = await timed(exact.find, missing)
    rows["miss, log read and 1,000 vectors compared"] = await timed(both.find, missing)
    print(table("look-up on Redis, loopback", rows))
    await _forget(client)
    await _close(client, server)


async def _forget(client: object) -> None:
    names = [name async for name in client.scan_iter(f"ix:*:{TENANT}*", count=1000)]  # type: ignore[attr-defined]
    for at in range(0, len(names), 1000):
        await client.delete(*names[at : at + 1000])  # type: ignore[attr-defined]


async def _close(client: object, server: Cache) -> None:
    await client.aclose()  # type: ignore[attr-defined]
    if isinstance(server, RedisCache):
        await server.close()


async def likeness() -> None:
    """How many pairs of each kind a threshold takes for one question, by the real embedder."""
    embedder = build_embedder(EmbeddingConfig())
    cosines: dict[str, list[float]] = {"same": [], "different": []}
    for kind, pairs in (("same", SAME), ("different", DIFFERENT)):
        for one, other, language in pairs:
            left, right = await embedder.query([one, other])
            marked = marks_of(one, language=language) == marks_of(other, language=language)
            cosines[kind].append(float(left @ right) if marked else 0.0)
    print(f"{len(SAME)} pairs that mean the same, {len(DIFFERENT)} that do not; taken for one question at")
    for at_least in (0.90, 0.95, 0.96, 0.97, 0.975, 0.98, 0.985, 0.99):
        same, different = (sum(c >= at_least for c in cosines[kind]) for kind in ("same", "different"))
        print(f"  {at_least:.3f}: {same} of the same, {different} of the others")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--redis", default="redis://127.0.0.1:6379/9", help="address of a Redis server")
    parser.add_argument("--likeness", action="store_true", help="compare pairs of questions instead")
    arguments = parser.parse_args()
    if arguments.likeness:
        await likeness()
        return
    await in_memory()
    await on_redis(arguments.redis)


if __name__ == "__main__":
    asyncio.run(main())
