"""How much each missing word should weigh beside the message in a search of written words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ixchat.utils.local.features import MESSAGE_FEATURES, WORD_FEATURES, Floats, RarityOf, TurnFeatures
from ixchat.utils.local.grounding import GroundWord

MAX_UNSAID = 20  # words of the passages alone that are weighed
MIN_ODDS = 1e-3
LOG_WEIGHT_RANGE = (-8.0, 1.0)
OF_THE_MESSAGE = (
    "rarity_sum", "overlap", "content_words", "rarest_new", "new_rarity", "overlap_answer", "question_leans", "turns",
)  # fmt: skip
OF_THE_WORD = (
    "in_question", "in_question_before", "in_answer", "in_both", "user_share", "user_age", "capital_share", "frame",
    "focus", "beside_message_word", "rank",
)  # fmt: skip

WEIGHT_FEATURES = (
    "term", "share", "unsaid", "ground_share", "ground_title", "ground_last", "ground_last_title", "support",
    "supported_share", "rarity", *OF_THE_WORD, "need", *OF_THE_MESSAGE, "need_and_term", "rarity_sum_and_term",
)  # fmt: skip

_MESSAGE_COLUMNS = [MESSAGE_FEATURES.index(name) for name in OF_THE_MESSAGE]
_WORD_COLUMNS = [WORD_FEATURES.index(name) for name in OF_THE_WORD]
_RARITY = WORD_FEATURES.index("rarity")
_RARITY_SUM = MESSAGE_FEATURES.index("rarity_sum")
_NOT_GROUND = GroundWord("", 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Weighable:
    """Words to weigh: those of the conversation, then the best of those its passages alone hold.

    Attributes:
        words: Folded; the first are the sightings of the turn, in their order.
        rows: float32 `[len(words), len(WEIGHT_FEATURES)]`.
    """

    words: Sequence[str]
    rows: Floats


def weighable(
    features: TurnFeatures,
    need: float,
    share: Floats,
    term: Floats,
    ground: Mapping[str, GroundWord],
    rarity: RarityOf,
) -> Weighable:
    """Put the words of a turn and of the passages behind its answers into numbers.

    Args:
        features: The turn.
        need: Probability that the message lacks anything.
        share: float32 `[n]` over the sightings: probability that this word is what it lacks most.
        term: float32 `[n]`: probability that a person would write it into the message.
        ground: As `ground_words` gives them; empty where no passages are known.
        rarity: Of the tenant's passages.
    """
    said = {seen.key for seen in features.sightings} | features.message_keys
    unsaid = sorted(
        (word for key, word in ground.items() if key not in said),
        key=lambda word: -(word.share + word.title) * rarity(word.folded),
    )[:MAX_UNSAID]
    words = [*(seen.folded for seen in features.sightings), *(word.folded for word in unsaid)]
    n, extra = len(words), len(unsaid)
    grounded = np.zeros((n, 6), np.float32)
    if ground:
        known = [ground.get(seen.key, _NOT_GROUND) for seen in features.sightings]
        grounded[:] = [
            (word.share, word.title, word.last, word.last_title, word.support, word.share * word.support)
            for word in (*known, *unsaid)
        ]
    need_odds = log_odds(np.float32(need))
    term_odds = np.concatenate([log_odds(term), np.zeros(extra, np.float32)])
    message = features.message[_MESSAGE_COLUMNS]
    columns = [
        term_odds,
        np.concatenate([log_odds(share), np.zeros(extra, np.float32)]),
        np.repeat(np.array([0, 1], np.float32), [n - extra, extra]),
        grounded,
        np.concatenate(
            [features.words[:, _RARITY], np.array([rarity(word.folded) for word in unsaid], np.float32)]
        ),
        np.concatenate([features.words[:, _WORD_COLUMNS], np.zeros((extra, len(OF_THE_WORD)), np.float32)]),
        np.full(n, need_odds),
        np.tile(message, (n, 1)),
        need_odds * term_odds,
        features.message[_RARITY_SUM] * term_odds,
    ]
    return Weighable(words, np.asarray(np.column_stack(columns), np.float32))


def log_odds(probability: Floats | np.float32) -> Floats:
    """Half the log odds, bounded at both ends."""
    return np.asarray(np.log((probability + MIN_ODDS) / (1 - probability + MIN_ODDS)) / 2, np.float32)
