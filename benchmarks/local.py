"""Resolution without a model: time of a decision, and what an index of many names costs.

python -m benchmarks.local
"""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

from ixchat.utils.local import LocalResolver
from ixchat.utils.local.learned import missing_words
from ixchat.utils.resolution import Message, Resolver, Turn
from ixrag.names import NameIndex
from ixrag.rarity import Rarity

SYLLABLES = [a + b for a in "bcdfglmnprstv" for b in "aeiou"]
REPEATS = 1_000


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
        resolver = LocalResolver(index)
        _report("reference by rules", _blocking(resolver.reference), turns)
        _report("short reply", _blocking(resolver.keyword_query), turns)
    rarity = Rarity.of(" ".join(_word(rng) for _ in range(100)) for _ in range(2_000))
    _report("missing words, learned", lambda turn: missing_words(turn, rarity), turns)


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
    times_ms = []
    for turn in turns:
        started = time.perf_counter()
        call(turn)
        times_ms.append((time.perf_counter() - started) * 1e3)
    times_ms.sort()
    p50, p99 = times_ms[len(times_ms) // 2], times_ms[int(len(times_ms) * 0.99)]
    print(f"    {name:<30} p50 {p50:6.3f} ms   p99 {p99:6.3f} ms")


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


def _word(rng: random.Random) -> str:
    return "".join(rng.choice(SYLLABLES) for _ in range(rng.randint(2, 4))).capitalize()


if __name__ == "__main__":
    main()
