"""The stress set: stand-alone questions after unrelated dialogues, where nothing may be appended."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ixchat.utils.resolution import Message, Turn
from ixevaluation.dataset import BUNDLED_DIR
from ixrag.names import NameIndex

STRESS = "stress"


@dataclass(frozen=True, slots=True)
class Label:
    """A name of one of the set's companies."""

    name: str
    type: str
    aliases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """A question put after a dialogue of the same language, and the names of the dialogue's company."""

    turn: Turn
    names: NameIndex


def stress_pairs() -> list[Pair]:
    """Every question after every dialogue of its language."""
    data = json.loads((BUNDLED_DIR / f"{STRESS}.json").read_text(encoding="utf-8"))
    names = {
        company: NameIndex(Label(row["name"], row["type"], tuple(row["aliases"])) for row in rows)
        for company, rows in data["companies"].items()
    }
    return [
        Pair(_turn(question["text"], dialogue), names[dialogue["company_name"]])
        for dialogue in data["dialogues"]
        for question in data["questions"]
        if question["lang"] == dialogue["lang"]
    ]


def _turn(question: str, dialogue: dict[str, object]) -> Turn:
    history = dialogue["history"]
    assert isinstance(history, list)
    messages = tuple(Message(message["role"], message["content"]) for message in history)
    return Turn(question, messages, str(dialogue["company_name"]))
