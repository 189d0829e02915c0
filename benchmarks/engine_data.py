"""What `benchmarks.engine` measures on: development halves of public sets, cut to what two cores can embed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ixchat.utils.history import turn_from
from ixchat.utils.local.resolver import LocalResolver
from ixchat.utils.resolution import Turn
from ixrag.names import NameIndex
from ixrag.profiles import NameProfiles
from ixrag.sample import sample_corpus
from ixrag.search.encoders import Text

MAX_WORDS = 110  # of a passage: its beginning, for every index alike
MTRAG_DOMAINS = ("clapnq", "cloud", "fiqa", "govt")


@dataclass(frozen=True, slots=True)
class Question:
    """A turn, the passages that answer it, and its class."""

    turn: Turn
    relevant: frozenset[str]
    kind: str
    conversation: str


@dataclass(frozen=True, slots=True)
class Pool:
    """One set of passages and its questions."""

    name: str
    passages: Sequence[Text]
    questions: Sequence[Question]


def mtrag(folder: Path, domain: str, distractors: int) -> Pool:
    """One domain of MTRAG: all passages that answer a question, and others by hash."""
    rows = [
        row
        for row in _rows(folder / "dev" / "retrieval-mtrag.jsonl")
        if row["domain"] == f"mtrag-{domain}" or row["domain"] == domain
    ]
    return _pool(
        f"mtrag-{domain}", rows, sorted((folder / "passages").glob(f"mtrag-{domain}-*.jsonl")), distractors
    )


def canard(folder: Path, questions: int, distractors: int) -> Pool:
    """Some conversations of CANARD, chosen by hash, and other passages by hash."""
    rows = sorted(
        _rows(folder / "dev" / "retrieval-canard.jsonl"), key=lambda row: _hash(row["conversation"])
    )
    return _pool("canard", rows[:questions], [folder / "passages" / "canard.jsonl"], distractors)


def sample_resolver() -> LocalResolver:
    """What decides on the bundled sample where no model is configured."""
    corpus = sample_corpus()
    names = NameIndex(corpus.entities)
    profiles = NameProfiles.of((passage.content for passage in corpus.passages), names)
    return LocalResolver(names, learned=True, profiles=lambda: profiles)


def _pool(name: str, rows: Sequence[dict[str, Any]], paths: Sequence[Path], distractors: int) -> Pool:
    wanted = {key for row in rows for key in row["relevant"]}
    found = {row["id"]: row for path in paths for row in _rows(path)}
    others = sorted((key for key in found if key not in wanted), key=_hash)[:distractors]
    passages = [_text(found[key]) for key in [*sorted(wanted), *others]]
    return Pool(name, passages, [_question(row) for row in rows])


def _question(row: dict[str, Any]) -> Question:
    history = [message for message in row["history"] if message["role"] != "system"]
    turn = turn_from(row["query"], history, tenant_id="benchmark")
    return Question(turn, frozenset(row["relevant"]), _kind(row, turn), row["conversation"])


def _kind(row: dict[str, Any], turn: Turn) -> str:
    """Whether a rewriter of the set had to add something from the conversation."""
    if len(turn.query.split()) <= 3:
        return "keywords"
    if not turn.messages:
        return "first turn"
    gate = row.get("gate") or row.get("gate_model_rewrite")
    return {"none": "well-formed", "resolve": "anaphoric"}.get(gate or "", "reworded")


def _text(row: dict[str, Any]) -> Text:
    words = (
        f"{row['title']}\n{row['text']}".split(" ") if row["domain"] == "canard" else row["text"].split(" ")
    )
    return Text(row["id"], " ".join(words[:MAX_WORDS]), "en", row["id"], row["title"] or "")


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _hash(key: str) -> str:
    return hashlib.sha256(f"pool:{key}".encode()).hexdigest()
