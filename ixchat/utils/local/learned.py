"""The words a message lacks, by the learned scorer: for the lexical channel, and for texts that take a few words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ixchat.utils.candidates import Mention, recent
from ixchat.utils.local.features import MAX_WORDS, RarityOf, describe
from ixchat.utils.local.lexicon import lexicon_of
from ixchat.utils.local.scorer import Scorer, shipped_scorer
from ixchat.utils.names import SEPARATOR
from ixchat.utils.resolution import Resolution, Resolver, Turn
from ixrag.words import folded, words

WINDOW_TURNS = 6  # topics are named early and meant for long; two turns lose one antecedent in eight
MIN_NEED = 0.8  # from here on about one stand-alone turn in twelve is changed (weights.md)
MAX_WORDS_ADDED = 2
MIN_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class MissingWord:
    """A word of the conversation the message lacks.

    Attributes:
        text: As the conversation writes it.
        share: Probability that it is the one the message lacks most, 0 to 1.
        weight: Weight beside the message's own words in a lexical search; 1 is as good as typed.
        mention: Where it stands.
    """

    text: str
    share: float
    weight: float
    mention: Mention


@dataclass(frozen=True, slots=True)
class Missing:
    """What a message lacks: `need`, the probability that it lacks anything, and words, likeliest first."""

    need: float
    words: Sequence[MissingWord]


NOTHING = Missing(0.0, ())


def missing_words(turn: Turn, rarity: RarityOf, scorer: Scorer | None = None) -> Missing:
    """Score the words of the last turns against the message. No I/O; about a millisecond.

    Args:
        turn: The message and its conversation; the last `WINDOW_TURNS` exchanges are read.
        rarity: Rarity of a folded word in the tenant's passages, 0 to 1 (`ixrag.rarity.Rarity`).
        scorer: Default: the one that comes with the package.
    """
    spoken = recent(turn.messages, WINDOW_TURNS)
    message = words(turn.query)[:MAX_WORDS]
    lexicon = lexicon_of(message, *(said.words[:MAX_WORDS] for said in spoken))
    if not spoken or not message or lexicon is None:
        return NOTHING
    features = describe(message, turn.query, spoken, lexicon, rarity)
    scores = (scorer or shipped_scorer()).score(features)
    company = set(folded(turn.company_name).split())
    found = [
        MissingWord(
            turn.messages[seen.mention.message].content[seen.mention.start : seen.mention.end],
            float(share),
            float(weight),
            seen.mention,
        )
        for seen, share, weight in zip(features.sightings, scores.share, scores.weight, strict=True)
        if seen.folded not in company
    ]
    return Missing(scores.need, sorted(found, key=lambda word: -word.share))


def append_missing_words(
    rarity: RarityOf,
    scorer: Scorer | None = None,
    *,
    min_need: float = MIN_NEED,
    most: int = MAX_WORDS_ADDED,
) -> Resolver:
    """A resolver for channels that match words: the message, or the message and the few words it lacks.

    Each word stands in the history, in the history's spelling. The message itself is never changed.
    """

    async def resolve(turn: Turn) -> Resolution:
        if not turn.messages:
            return Resolution(turn.query, fallback="first_turn")
        missing = missing_words(turn, rarity, scorer)
        likely = [word for word in missing.words if word.share >= MIN_SHARE * missing.need][:most]
        facts: dict[str, Any] = {
            "model": "local:learned",
            "provider": "local",
            "confidence": round(max(missing.need, 1 - missing.need), 3),
            "need": round(missing.need, 3),
        }
        if missing.need < min_need or not likely:
            return Resolution(turn.query, "keep", trace=facts)
        evidence = [{"term": word.text, **word.mention.as_evidence()} for word in likely]
        added = " ".join(word.text for word in likely)
        return Resolution(f"{turn.query}{SEPARATOR}{added}", "resolve", trace={**facts, "evidence": evidence})

    return resolve
