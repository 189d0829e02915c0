"""The words of the passages that earlier answers came from: the conversation's subject as the documents write it.

A follow-up is mostly about what the last answers were about, and the passages behind those answers name it more
reliably than the answers do. Nothing is generated: earlier answers are searched as they stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ixchat.utils.candidates import Spoken
from ixchat.utils.local.reading import read_message

PASSAGES = 2  # looked at behind each answer; the best one is wrong too often to be trusted alone
ANSWER_WORDS = 120  # of an answer that are searched: its beginning
TITLE_WORDS = 10  # of a passage that count as its title


@dataclass(frozen=True, slots=True)
class GroundWord:
    """A content word of those passages.

    Attributes:
        folded: The word.
        share: Share of the passages that hold it, 0 to 1.
        title: Share of the passages whose first words hold it.
        last: Share of the passages behind the last answer that hold it.
        last_title: Likewise, in their first words.
        support: Of the answers whose passages hold it, the largest share of words found in such a passage.
    """

    folded: str
    share: float
    title: float
    last: float
    last_title: float
    support: float


def answers_to_ground(spoken: Sequence[Spoken]) -> list[str]:
    """The beginnings of the assistant's messages, newest first."""
    answers = [said.text for said in reversed(spoken) if said.role == "assistant"]
    return [" ".join(text.split()[:ANSWER_WORDS]) for text in answers]


def ground_words(
    answers: Sequence[str], passages: Sequence[Sequence[str]], language: str
) -> dict[str, GroundWord]:
    """What the passages behind the answers say, by `ixrag.rarity.word_key`.

    Args:
        answers: As `answers_to_ground` gives them.
        passages: The best passages for each, best first.
        language: ISO 639-1 code of the conversation's word lists.
    """
    found: dict[str, list[float]] = {}
    spelt: dict[str, str] = {}
    behind_last = len(passages[0]) if passages else 0
    total = sum(map(len, passages))
    for age, (answer, texts) in enumerate(zip(answers, passages, strict=True)):
        said = set(read_message(answer, language).occurrences)
        for text in texts:
            occurrences = read_message(text, language).occurrences
            support = len(said & occurrences.keys()) / max(1, len(said))
            for key, seen in occurrences.items():
                spelt.setdefault(key, seen.folded)
                row = found.setdefault(key, [0.0] * 5)
                in_title = seen.position < TITLE_WORDS
                row[0] += 1 / total
                row[1] += in_title / total
                if age == 0:
                    row[2] += 1 / behind_last
                    row[3] += in_title / behind_last
                row[4] = max(row[4], support)
    return {key: GroundWord(spelt[key], *row) for key, row in found.items()}
