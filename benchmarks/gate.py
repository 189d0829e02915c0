"""How long the gate takes. Run: `python -m benchmarks.gate`.

Goals: at most 20 µs for 200 characters, at most 5 ms for 10,000.
"""

from __future__ import annotations

import time

from benchmarks.timing import table
from ixchat.utils.query_keywords import should_resolve

TEXTS = {
    "one word": "Santé",
    "four words": "5 à 10 ans",
    "200 characters, ASCII": ("which retailers already run the scheduling module " * 5)[:200],
    "200 characters, accents": ("à partir de quelle durée le forfait évolué est-il rentable " * 5)[:200],
    "200 characters, CJK": ("勤怠管理にはどの機能を使いますか" * 20)[:200],
    "10,000 characters": ("à partir de quelle durée " * 500)[:10_000],
    "10,000 characters, one token": "x" * 10_000,
    "10,000 zero-width characters": "\u200b" * 10_000,
}


def main() -> None:
    """Print one line per kind of text."""
    rows: dict[str, list[float]] = {}
    for name, text in TEXTS.items():
        repeats = 2_000 if len(text) <= 200 else 50
        samples = []
        for _ in range(repeats):
            started = time.perf_counter_ns()
            should_resolve(text)
            samples.append((time.perf_counter_ns() - started) / 1_000)
        rows[name] = samples
    print(table("should_resolve", rows, unit="µs"))


if __name__ == "__main__":
    main()
