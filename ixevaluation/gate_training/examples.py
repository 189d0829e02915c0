"""Labelled messages: public, bundled and written for this, and compounds made of them by a seeded rule."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ixchat.utils.history import turn_from
from ixchat.utils.intent_gate import STRATEGIES
from ixchat.utils.resolution import Turn
from ixevaluation.dataset import BUNDLED_DIR
from ixrag.query.languages import languages
from ixrag.search.engine import Strategy
from ixrag.words import words

MESSAGES = Path(__file__).with_name("messages.toml")
COMPOUNDS = 220  # of each kind and language
MIN_WORDS = 5  # a shorter standalone question is as often a keyword query


@dataclass(frozen=True, slots=True)
class Example:
    """A turn, what it needs, its language and where it comes from."""

    turn: Turn
    label: Strategy
    lang: str
    source: str


def written(part: str) -> list[Example]:
    """The messages of `messages.toml`; `part` is `train` or `test`."""
    tables = tomllib.loads(MESSAGES.read_text(encoding="utf-8"))
    return [
        Example(turn, label, lang, f"written-{part}")
        for lang, table in tables.items()
        for label in STRATEGIES
        for text in table[part].get(label, [])
        for turn in _placed(text, label, table["history"])
    ]


def bundled(split: str) -> list[Example]:
    """The product's own reference sets: `resolve` and `ambiguous` lean on the conversation, `keep` does not."""
    suffix = "" if split == "dev" else "-holdout"
    rows = _rows(BUNDLED_DIR / f"reference{suffix}.jsonl")
    return [
        Example(
            turn_from(row["query"], row["history"]),
            "passthrough" if row["expected"]["decision"] == "keep" else "coref",
            row["lang"],
            f"reference-{split}",
        )
        for row in rows
        if row.get("expected")
    ]


def public(folder: Path, names: Iterable[str]) -> list[Example]:
    """Turns whose rewriters added something from the conversation (`resolve`), or nothing (`none`).

    Args:
        folder: Holds `dev/NAME.jsonl`.
        names: Such as `gate-trec`; unclear turns are left out.
    """
    labels: Mapping[str, Strategy] = {"resolve": "coref", "resolve_in_answer": "coref", "none": "passthrough"}
    found: list[Example] = []
    for name in names:
        for row in _rows(folder / "dev" / f"{name}.jsonl"):
            gate = str(row.get("gate") or row.get("gate_model_rewrite"))
            if gate in labels and (gate != "none" or len(words(row["query"])) >= MIN_WORDS):
                found.append(Example(turn_from(row["query"], row["history"]), labels[gate], "en", name))
    return found


def compounds(examples: Sequence[Example], rng: random.Random) -> list[Example]:
    """Two questions in one, and keywords cut out of questions: classes no public set labels.

    `decompose` joins two standalone questions, `coref_decompose` a leaning one with either kind,
    `expand` keeps one to three words of content of a standalone question.
    """
    made: list[Example] = []
    tables = tomllib.loads(MESSAGES.read_text(encoding="utf-8"))
    for lang, table in tables.items():
        alone = [e for e in examples if e.lang == lang and e.label == "passthrough"]
        leaning = [e for e in examples if e.lang == lang and e.label == "coref" and e.turn.messages]
        for _ in range(COMPOUNDS):
            first, second, lead = rng.choice(alone), rng.choice(alone), rng.choice(leaning)
            other = rng.choice([*leaning, *alone])
            parts = [lead, other] if rng.random() < 0.7 else [other, lead]
            made += [
                _joined(first, second.turn.query, "decompose", rng.choice(table["joins"]), rng),
                _with_history(
                    lead, _join(parts[0].turn.query, parts[1].turn.query, rng.choice(table["joins"]), rng)
                ),
                _cut(rng.choice(alone), lang, rng),
            ]
    return made


def _placed(text: str, label: Strategy, history: Sequence[str]) -> Iterator[Turn]:
    """The message after its exchange, and for what needs none without it as well."""
    said = [
        {"role": role, "content": line} for role, line in zip(("user", "assistant"), history, strict=True)
    ]
    yield turn_from(text, said)
    if not label.startswith("coref"):
        yield turn_from(text)


def _joined(first: Example, second: str, label: Strategy, join: str, rng: random.Random) -> Example:
    text = _join(first.turn.query, second, join, rng)
    return Example(Turn(text, first.turn.messages), label, first.lang, "compound")


def _with_history(lead: Example, text: str) -> Example:
    return Example(Turn(text, lead.turn.messages), "coref_decompose", lead.lang, "compound")


def _join(first: str, second: str, join: str, rng: random.Random) -> str:
    first, second = first.strip(), second.strip()
    if rng.random() < 0.4:
        return f"{first} {second}"
    if join[0].isupper():
        return f"{first} {join} {_small(second)}"
    return f"{first.rstrip('?.! ')} {join} {_small(second)}"


def _cut(example: Example, lang: str, rng: random.Random) -> Example:
    common = languages()[lang].common
    text = example.turn.query
    content = [text[w.start : w.end] for w in words(text) if w.folded not in common and len(w.folded) > 2]
    start = rng.randrange(max(1, len(content) - 1)) if content else 0
    kept = content[start : start + rng.choice([1, 2, 2, 3])] or [text]
    cased = " ".join(kept).lower() if rng.random() < 0.5 else " ".join(kept)
    return Example(
        Turn(cased, example.turn.messages if rng.random() < 0.5 else ()), "expand", lang, "compound"
    )


def _small(text: str) -> str:
    text = text.lstrip("¿ ")
    return text[:1].lower() + text[1:]


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
