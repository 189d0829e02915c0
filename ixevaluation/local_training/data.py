"""Turns of the public development halves, described by the shipping code, with what a person wrote into them."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ixchat.utils.candidates import recent
from ixchat.utils.history import normalise_messages
from ixchat.utils.local.features import Floats, TurnFeatures, describe
from ixchat.utils.local.grounding import PASSAGES, GroundWord, answers_to_ground, ground_words
from ixchat.utils.local.lexicon import lexicons
from ixevaluation.dataset import Passage, read_records
from ixevaluation.lexical import LexicalIndex
from ixrag.rarity import Rarity, word_key
from ixrag.words import words

WINDOW_TURNS = 6
FOLDS = 5
RETRIEVAL_SETS = ("mtrag", "mtragun", "canard")


@dataclass(slots=True)
class Example:
    """One turn.

    Attributes:
        source: Name of the file without its ending.
        fold: Which fold its conversation belongs to; the same in every file.
        gate: `resolve`, `none`, `unclear` or empty, as the data set labels it.
        features: What the scorer sees.
        written: float32 `[n]`, 1 where a person wrote the candidate into the message; None without a rewrite.
        antecedents: Words of the labelled antecedents, by `word_key`.
        domain: Index that holds the relevant passages; empty for gate sets.
        relevant: Relevant passage ids.
        ground: Words of the passages behind the earlier answers; empty for gate sets.
        rarity: Of the domain's passages.
    """

    source: str
    conversation: str
    fold: int
    query: str
    gate: str
    features: TurnFeatures
    written: Floats | None
    antecedents: frozenset[str]
    domain: str
    relevant: frozenset[str]
    ground: Mapping[str, GroundWord]
    rarity: Rarity


def fold_of(conversation: str) -> int:
    """A conversation's fold, the same for every set and run."""
    return int(hashlib.sha256(f"fold:{conversation}".encode()).hexdigest(), 16) % FOLDS


def read_passages(folder: Path) -> dict[str, list[Passage]]:
    """Passages by domain; CANARD's are indexed with their titles, MTRAG's begin with theirs."""
    by_domain: dict[str, list[Passage]] = {}
    for path in sorted((folder / "passages").glob("*.jsonl")):
        for _, row in read_records(path):
            text = f"{row['title']}\n{row['text']}" if row["domain"] == "wikipedia" else row["text"]
            passage = Passage(id=row["id"], text=text, domain=row["domain"])
            by_domain.setdefault(row["domain"], []).append(passage)
    return by_domain


def indexes(passages: Mapping[str, Sequence[Passage]]) -> dict[str, LexicalIndex]:
    """One lexical index a domain."""
    return {domain: LexicalIndex(rows) for domain, rows in passages.items()}


def read_examples(
    folder: Path,
    sources: Iterable[str],
    passages: Mapping[str, Sequence[Passage]],
    searched: Mapping[str, LexicalIndex],
) -> list[Example]:
    """The turns of some files of `folder/dev`, with the rarity of their own domain, or of all domains."""
    everything = Rarity.of(passage.text for rows in passages.values() for passage in rows)
    rarities = {domain: Rarity.of(passage.text for passage in rows) for domain, rows in passages.items()}
    examples = itertools.chain.from_iterable(
        (
            _example(source, row, rarities.get(row.get("domain", ""), everything), searched)
            for _, row in read_records(path)
        )
        for source in sources
        for path in [folder / "dev" / f"{source}.jsonl"]
    )
    return list(examples)


def _example(
    source: str, row: Mapping[str, Any], rarity: Rarity, searched: Mapping[str, LexicalIndex]
) -> Example:
    # System messages (CANARD's page titles) are no turns: the product's resolver never sees them.
    history = normalise_messages(row["history"])
    spoken = recent(history, WINDOW_TURNS)
    features = describe(words(row["query"]), row["query"], spoken, lexicons()[row["lang"]], rarity)
    domain = row.get("domain", "") if row.get("relevant") else ""
    answers = answers_to_ground(spoken) if domain else []
    behind = [said_in(searched[domain], answer) for answer in answers]
    rewrite = row.get("human_rewrite") or row.get("model_rewrite")
    gate = row.get("gate") or row.get("gate_model_rewrite") or ""
    named = [
        *(row.get("antecedents_all") or []),
        row.get("antecedent_extended"),
        row.get("antecedent_model_rewrite"),
    ]
    return Example(
        source=source,
        conversation=row["conversation"],
        fold=fold_of(row["conversation"]),
        query=row["query"],
        gate=gate if history else "first",
        features=features,
        written=_written(features, rewrite) if rewrite else None,
        antecedents=_keys(" ".join(filter(None, named))),
        domain=domain,
        relevant=frozenset(row.get("relevant") or ()),
        ground=ground_words(answers, behind, row["lang"]),
        rarity=rarity,
    )


def said_in(index: LexicalIndex, answer: str) -> list[str]:
    """Texts of the best passages for an answer."""
    return [index.passages[found].text for found, _ in index.search(answer, PASSAGES)]


def _written(features: TurnFeatures, rewrite: str) -> Floats:
    keys = _keys(rewrite)
    return np.array([seen.key in keys for seen in features.sightings], np.float32)


def _keys(text: str) -> frozenset[str]:
    return frozenset(word_key(word.folded) for word in words(text))
