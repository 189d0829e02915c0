"""Labelled follow-ups of invented companies: a dialogue, the next message, and the name it needs, if any."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ixchat.utils.resolution import Message, Turn
from ixevaluation.dataset import BUNDLED_DIR, Expected, Split, load_set
from ixevaluation.stress import Label, stress_pairs
from ixrag.names import NameIndex
from ixrag.profiles import NameProfiles
from ixrag.sample import SAMPLE_NAME, sample_corpus

FOLLOW_UPS = "follow-ups"


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A message with the decision that a person took on it."""

    id: str
    lang: str
    turn: Turn
    expected: Expected

    def outcome(self, name: str | None) -> str:
        """How adding a name, as the index spells it, compares: `right`, `missed`, `wrong name` or `unneeded`."""
        if self.expected.decision != "resolve":
            return "unneeded" if name else "right"
        if not name:
            return "missed"
        return "right" if name == self.expected.name else "wrong name"


@dataclass(frozen=True)
class Company:
    """Follow-ups on one site.

    Attributes:
        key: Name of the group; follow-ups of one group never teach a scorer that is measured on it.
        split: `holdout` groups are for confirming, never for tuning.
        names: Names of the company's knowledge base.
        texts: Its passages.
        follow_ups: In the order of the file.
    """

    key: str
    split: Split
    names: NameIndex
    texts: tuple[str, ...]
    follow_ups: tuple[FollowUp, ...]

    @cached_property
    def profiles(self) -> NameProfiles:
        """What the passages say of each name."""
        return NameProfiles.of(self.texts, self.names)


def companies(split: Split) -> list[Company]:
    """Every group of a split: the companies of `datasets/follow-ups`, and the set `reference` on the sample."""
    paths = sorted((BUNDLED_DIR / FOLLOW_UPS).glob("*.json"))
    found = [_company(path) for path in paths]
    return [company for company in [*found, _sample(split)] if company.split == split]


def stress_company() -> Company:
    """The stress pairs as one group; each has the names of its own dialogue's company, so `names` is empty."""
    keep = Expected(decision="keep")
    rows = tuple(FollowUp(f"stress-{n}", "", pair.turn, keep) for n, pair in enumerate(stress_pairs()))
    return Company("stress", "dev", NameIndex(), (), rows)


def _company(path: Path) -> Company:
    data: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    names = NameIndex(Label(row["name"], row["type"], tuple(row["aliases"])) for row in data["names"])
    follow_ups = tuple(
        FollowUp(
            row["id"],
            row["lang"],
            Turn(
                row["query"],
                tuple(Message(said["role"], said["content"]) for said in row["history"]),
                data["company"],
            ),
            Expected(**row["expected"]),
        )
        for row in data["turns"]
    )
    texts = tuple(f"{row['title']}\n{row['text']}" for row in data["passages"])
    return Company(path.stem, data["split"], names, texts, follow_ups)


def _sample(split: Split) -> Company:
    corpus = sample_corpus()
    items = load_set("reference" if split == "dev" else "reference-holdout").items
    follow_ups = tuple(
        FollowUp(item.id, item.lang, item.turn(), item.expected) for item in items if item.expected
    )
    texts = tuple(passage.text for passage in corpus.passages)
    return Company(SAMPLE_NAME, split, NameIndex(corpus.entities), texts, follow_ups)
