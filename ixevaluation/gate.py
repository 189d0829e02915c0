"""Replay the gate over recorded turns: what share of real traffic would each path see?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ixchat.utils.gate import should_resolve
from ixchat.utils.history import turn_from
from ixchat.utils.resolution import Turn
from ixchat.utils.terms import count_words
from ixevaluation.dataset import read_records
from ixinfra.errors import DatasetError

MAX_CURVE_WORDS = 12


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """One turn of traffic.

    Attributes:
        turn: Message and conversation.
        lang: Language, "" where it is not recorded.
        needs_context: Whether a person says that the message needs the conversation; None unlabelled.
        has_history: Whether there was an earlier turn; may be known from a count alone.
    """

    turn: Turn
    lang: str
    needs_context: bool | None
    has_history: bool


@dataclass(frozen=True, slots=True)
class Shares:
    """How turns divide; the three counts add up to `turns`."""

    turns: int
    first: int
    short_reply: int
    longer: int

    def share(self, count: int) -> float:
        """A count as a share of all turns, 0 to 1."""
        return count / self.turns if self.turns else 0.0


@dataclass(frozen=True, slots=True)
class Quality:
    """A gate against labels, on follow-ups; None where a ratio has no denominator."""

    labelled: int
    positives: int
    fired: int
    hits: int

    @property
    def precision(self) -> float | None:
        """Share of the fired turns that need context."""
        return self.hits / self.fired if self.fired else None

    @property
    def recall(self) -> float | None:
        """Share of the turns that need context on which the gate fires."""
        return self.hits / self.positives if self.positives else None


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The length rule at one word limit: share of all turns that fire, and quality on labelled ones."""

    max_words: int
    question_mark_rule: bool
    fired_share: float
    quality: Quality


@dataclass(frozen=True, slots=True)
class Replay:
    """What the gate would have done."""

    shares: Shares
    by_lang: dict[str, Shares]
    quality: Quality
    curve: Sequence[CurvePoint]


def read_turns(path: Path) -> list[RecordedTurn]:
    """Read recorded turns from JSON Lines: `query`, and `history`/`messages` or `history_length`.

    Optional: `lang`; a label in `gate` (`resolve`, `none`) or `expected.decision`. Items of a set are
    recorded turns too.

    Raises:
        DatasetError: Names file, line and field.
    """
    turns = [_read(record, f"{path}:{number}") for number, record in read_records(path)]
    if not turns:
        raise DatasetError(f"{path}: no turns")
    return turns


def replay(turns: Sequence[RecordedTurn], gate: Callable[[str], bool] = should_resolve) -> Replay:
    """Divide the turns as the shipping gate would, and as other word limits would."""
    langs = sorted({turn.lang for turn in turns if turn.lang})
    curve = [_point(turns, limit, rule) for rule in (True, False) for limit in range(1, MAX_CURVE_WORDS + 1)]
    return Replay(
        shares=_shares(turns, gate),
        by_lang={lang: _shares([turn for turn in turns if turn.lang == lang], gate) for lang in langs},
        quality=_quality(turns, gate),
        curve=curve,
    )


def length_rule(max_words: int, *, question_mark_rule: bool) -> Callable[[str], bool]:
    """The gate at another word limit, with or without the rule that a question stands alone."""

    def fires(query: str) -> bool:
        short = 0 < count_words(query) <= max_words
        return short and not (question_mark_rule and query.rstrip().endswith(("?", "？", "؟")))

    return fires


def _point(turns: Sequence[RecordedTurn], limit: int, rule: bool) -> CurvePoint:
    gate = length_rule(limit, question_mark_rule=rule)
    shares = _shares(turns, gate)
    return CurvePoint(limit, rule, shares.share(shares.short_reply), _quality(turns, gate))


def _shares(turns: Iterable[RecordedTurn], gate: Callable[[str], bool]) -> Shares:
    counts = {"first": 0, "short": 0, "longer": 0}
    for recorded in turns:
        kind = "first" if not recorded.has_history else "short" if gate(recorded.turn.query) else "longer"
        counts[kind] += 1
    return Shares(sum(counts.values()), counts["first"], counts["short"], counts["longer"])


def _quality(turns: Iterable[RecordedTurn], gate: Callable[[str], bool]) -> Quality:
    labelled = [turn for turn in turns if turn.has_history and turn.needs_context is not None]
    fired = [turn for turn in labelled if gate(turn.turn.query)]
    return Quality(
        labelled=len(labelled),
        positives=sum(bool(turn.needs_context) for turn in labelled),
        fired=len(fired),
        hits=sum(bool(turn.needs_context) for turn in fired),
    )


def _read(record: dict[str, Any], where: str) -> RecordedTurn:
    query = record.get("query")
    if not isinstance(query, str):
        raise DatasetError(f"{where}: field 'query': expected the visitor's message as text")
    turn = turn_from(
        query, record.get("history", record.get("messages", ())), str(record.get("company_name") or "")
    )
    length = record.get("history_length")
    if length is not None and (not isinstance(length, int) or isinstance(length, bool) or length < 0):
        raise DatasetError(f"{where}: field 'history_length': expected a whole number from 0")
    return RecordedTurn(turn, str(record.get("lang") or ""), _label(record), bool(turn.messages or length))


def _label(record: dict[str, Any]) -> bool | None:
    expected = record.get("expected")
    word = record.get("gate") or (expected.get("decision") if isinstance(expected, dict) else None)
    return {"resolve": True, "none": False, "keep": False}.get(str(word))
