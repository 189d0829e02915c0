"""Resolution without a model: time of a decision, and what an index of many names costs.

python -m benchmarks.local

Each row is measured twice over: by the clock, which other processes and garbage collections stretch, and by the
thread's own CPU time over the calls in which nothing was collected, which is what the code costs.
"""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.timing import percentile
from ixchat.utils.local import LocalResolver
from ixchat.utils.local.learned import missing_words
from ixchat.utils.local.reading import REMEMBERED
from ixchat.utils.resolution import Message, Resolver, Turn
from ixrag.names import NameIndex
from ixrag.profiles import NameProfiles
from ixrag.rarity import Rarity

SYLLABLES = [a + b for a in "bcdfglmnprstv" for b in "aeiou"]
REPEATS = 1_000
PASSAGES = 2_000


@dataclass(frozen=True, slots=True)
class Entity:
    """An invented name."""

    name: str
    type: str = "product"
    aliases: tuple[str, ...] = ()


def main() -> None:
    """Print milliseconds of each decision and the cost of the index."""
    rng = random.Random(0)
    for size in (100, 10_000, 100_000):
        entities = [Entity(" ".join(_word(rng) for _ in range(rng.randint(1, 3)))) for _ in range(size)]
        started = time.perf_counter()
        index = NameIndex(entities)
        build_s = time.perf_counter() - started
        tracemalloc.start()
        kept = NameIndex(entities)
        memory_mb = tracemalloc.get_traced_memory()[0] / 1e6
        tracemalloc.stop()
        turns = [_turn(rng, entities) for _ in range(REPEATS)]
        text = " ".join(message.content for message in turns[0].messages)
        print(f"{size:>7} names: built in {build_s:.2f} s, {memory_mb:.1f} MB, {len(kept)} entities")
        _report(
            "match the names of two turns", lambda _, text=text, index=index: index.find(text), turns[:200]
        )
        started = time.perf_counter()
        profiles = NameProfiles.of(_passages(rng, entities), index)
        print(f"    profiles of {PASSAGES} passages: built in {time.perf_counter() - started:.2f} s")
        resolver = LocalResolver(index)
        learned = LocalResolver(index, learned=True, profiles=lambda profiles=profiles: profiles)
        french = [_french(rng, entities) for _ in turns]
        _report("reference by rules", _blocking(resolver.reference), turns)
        _report("reference by rules, French", _blocking(resolver.reference), french)
        _report("reference, learned", _blocking(learned.reference), turns)
        _report("reference, learned, French", _blocking(learned.reference), french)
        _report("short reply", _blocking(resolver.keyword_query), turns)
    rarity = Rarity.of(" ".join(_word(rng) for _ in range(100)) for _ in range(2_000))
    _report("missing words, all unread", lambda turn: missing_words(turn, rarity), turns)
    turns = [_turn(rng, entities) for _ in range(REMEMBERED // 4)]
    for turn in turns:
        missing_words(Turn(turn.messages[2].content, turn.messages[:2], turn.company_name), rarity)
    _report("missing words, as in a chat", lambda turn: missing_words(turn, rarity), turns)


def _blocking(resolve: Resolver) -> Callable[[Turn], object]:
    """Run a resolver that never waits, without an event loop's own time."""

    def run(turn: Turn) -> object:
        coroutine = resolve(turn)
        try:
            coroutine.send(None)  # type: ignore[attr-defined]  # ours are coroutines; the alias says Awaitable
        except StopIteration as done:
            return done.value
        raise RuntimeError("the resolver waited for something")

    return run


def _report(name: str, call: Callable[..., object], turns: list[Turn]) -> None:
    clock_ms: list[float] = []
    cpu_ms: list[float] = []
    collections = 0
    for turn in turns:
        before, started, started_cpu = _collections(), time.perf_counter(), time.thread_time()
        call(turn)
        cpu, clock = time.thread_time() - started_cpu, time.perf_counter() - started
        clock_ms.append(clock * 1e3)
        if _collections() == before:
            cpu_ms.append(cpu * 1e3)
        else:
            collections += 1
    print(
        f"    {name:<30} clock p50 {percentile(clock_ms, 0.5):6.3f} p99 {percentile(clock_ms, 0.99):6.3f} ms   "
        f"CPU p50 {percentile(cpu_ms, 0.5):6.3f} p99 {percentile(cpu_ms, 0.99):6.3f} ms   "
        f"collected in {collections} of {len(turns)}"
    )


def _collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def _turn(rng: random.Random, entities: list[Entity]) -> Turn:
    name = rng.choice(entities).name
    answer = f"Yes, **{name}** does that. " + " ".join(_word(rng) for _ in range(80)) + "."
    history = [
        Message("user", "Do you have something for the planning of our shops?"), Message("assistant", answer),
        Message("user", f"What does {name} do on holidays?"), Message("assistant", answer[:300]),
    ]  # fmt: skip
    query = rng.choice(
        ["Does it work offline in our warehouses?", "How many offices do you have?", "Yes please"]
    )
    return Turn(query, history, "Lumeo")


def _french(rng: random.Random, entities: list[Entity]) -> Turn:
    """Ordinary prose with accents and typographic signs, and a single name."""
    name = rng.choice(entities).name
    answer = (
        f"Oui, **{name}** compte les stocks et prépare les commandes : chaque livraison est pointée à l’arrivée, "
        "les écarts sont signalés le jour même, et les dates courtes remontent en tête de liste. Le déploiement "
        "prend environ six semaines, formation des équipes comprise. Souhaitez-vous en savoir plus ?"
    )
    history = [
        Message("user", "Bonjour, comment éviter les ruptures dans nos magasins ?"), Message("assistant", answer),
        Message("user", f"Que fait {name} pendant l’inventaire ?"), Message("assistant", answer[:200]),
    ]  # fmt: skip
    query = rng.choice(
        [
            "Quelles enseignes l’ont déjà installé ?",
            "Combien de bureaux avez-vous en France ?",
            "Et pour les restaurants ?",
        ]
    )
    return Turn(query, history, "Lumeo")


def _passages(rng: random.Random, entities: list[Entity]) -> list[str]:
    """A hundred words with a name among them, each."""
    return [
        f"{rng.choice(entities).name} is what the team has for it: " + " ".join(_word(rng) for _ in range(90))
        for _ in range(PASSAGES)
    ]


def _word(rng: random.Random) -> str:
    return "".join(rng.choice(SYLLABLES) for _ in range(rng.randint(2, 4))).capitalize()


if __name__ == "__main__":
    main()
