"""The words a message lacks, by the learned scorer: for the word channel, and for texts that take a few words."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from ixchat.utils.candidates import recent
from ixchat.utils.local.features import RarityOf, Sighting, describe
from ixchat.utils.local.grounding import PASSAGES, GroundWord, answers_to_ground, ground_words
from ixchat.utils.local.lexicon import lexicon_of
from ixchat.utils.local.reading import MAX_WORDS
from ixchat.utils.local.scorer import Scorer, shipped_scorer
from ixchat.utils.local.weighing import weighable
from ixchat.utils.names import SEPARATOR
from ixchat.utils.resolution import Missing, MissingWord, Resolution, Resolver, Turn
from ixrag.documents import WordSearch
from ixrag.words import folded, words

WINDOW_TURNS = 6  # topics are named early and meant for long; two turns lose one antecedent in eight
MIN_NEED = 0.82  # from here on about one stand-alone turn in thirteen is changed (weights.md)
MIN_WEIGHT = 0.005  # lighter words move nothing and cost their posting lists
MAX_WORDS_ADDED = 2
MIN_SHARE = 0.05
GROUNDING_S = 0.03  # longest wait for the passages behind earlier answers
REMEMBERED_ANSWERS = 512

NOTHING = Missing()


def missing_words(
    turn: Turn,
    rarity: RarityOf,
    scorer: Scorer | None = None,
    *,
    passages: Sequence[Sequence[str]] = (),
) -> Missing:
    """Score the words of the last turns against the message. No I/O; about a millisecond.

    Args:
        turn: The message and its conversation; the last `WINDOW_TURNS` exchanges are read.
        rarity: Rarity of a folded word in the tenant's passages, 0 to 1 (`ixrag.rarity.Rarity`).
        scorer: Default: the one that comes with the package.
        passages: Texts of the best passages behind each earlier answer, newest answer first; empty where they
            are not known.
    """
    spoken = recent(turn.messages, WINDOW_TURNS)
    message = words(turn.query)[:MAX_WORDS]
    lexicon = lexicon_of(message, *(said.words[:MAX_WORDS] for said in spoken))
    if not spoken or not message or lexicon is None:
        return NOTHING
    scorer = scorer or shipped_scorer()
    features = describe(message, turn.query, spoken, lexicon, rarity)
    scores = scorer.score(features)
    ground: Mapping[str, GroundWord] = {}
    if passages:
        ground = ground_words(answers_to_ground(spoken), passages, lexicon.code)
    weighed = weighable(features, scores.need, scores.share, scores.term, ground, rarity)
    weights = scorer.weigh(weighed.rows, scores.need).tolist()
    shares = [*scores.share.tolist(), *[0.0] * (len(weights) - len(scores.share))]
    company = set(folded(turn.company_name).split())
    least = MIN_SHARE * scores.need
    found = [
        _missing_word(turn, word, features.sightings[place : place + 1], share, weight)
        for place, (word, share, weight) in enumerate(zip(weighed.words, shares, weights, strict=True))
        if (weight >= MIN_WEIGHT or share >= least) and word not in company
    ]
    return Missing(scores.need, tuple(sorted(found, key=lambda word: (-word.share, -word.weight))))


def _missing_word(
    turn: Turn, word: str, sighting: Sequence[Sighting], share: float, weight: float
) -> MissingWord:
    """The word as the conversation writes it, where it is one of the conversation's."""
    if not sighting:
        return MissingWord(word, share, weight)
    mention = sighting[0].mention
    written = turn.messages[mention.message].content[mention.start : mention.end]
    return MissingWord(written, share, weight, mention.as_evidence())


class WordWeigher:
    """Finds the words to weigh beside a message in a search of written words.

    Earlier answers are looked up among the passages; those of earlier turns are remembered.
    """

    def __init__(
        self,
        rarity: RarityOf,
        retriever: WordSearch | None = None,
        scorer: Scorer | None = None,
    ) -> None:
        """Weigh for one tenant.

        Args:
            rarity: Of its passages.
            retriever: Searches them; None goes without the passages behind earlier answers.
            scorer: Default: the one that comes with the package.
        """
        self._rarity, self._retriever, self._scorer = rarity, retriever, scorer
        self._behind: OrderedDict[str, list[str]] = OrderedDict()

    async def __call__(self, turn: Turn) -> Missing:
        """The words that are worth weighing; none where the message needs nothing of the conversation."""
        if not turn.messages:
            return NOTHING
        problem, passages = None, list[list[str]]()
        try:
            passages = await self._passages_behind(answers_to_ground(recent(turn.messages, WINDOW_TURNS)))
        except Exception as error:  # the passages are a help: without them the conversation is read alone
            problem = type(error).__name__
        missing = missing_words(turn, self._rarity, self._scorer, passages=passages)
        kept = [word for word in missing.words if word.weight >= MIN_WEIGHT]
        return Missing(missing.need, tuple(sorted(kept, key=lambda word: -word.weight)), problem)

    async def _passages_behind(self, answers: Sequence[str]) -> list[list[str]]:
        """Passages behind each answer; only those of new answers are searched."""
        if self._retriever is None or not answers:
            return []
        new = [answer for answer in dict.fromkeys(answers) if answer not in self._behind]
        if new:
            async with asyncio.timeout(GROUNDING_S):
                found = await self._retriever.said_in(new, PASSAGES)
            self._behind.update(zip(new, found, strict=True))
        passages = [self._behind[answer] for answer in answers]
        while len(self._behind) > REMEMBERED_ANSWERS:
            self._behind.popitem(last=False)
        return passages


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
        likely = [word for word in missing.words if word.evidence and word.share >= MIN_SHARE * missing.need]
        likely = likely[:most]
        facts: dict[str, Any] = {
            "model": "local:learned",
            "provider": "local",
            "confidence": round(max(missing.need, 1 - missing.need), 3),
            "need": round(missing.need, 3),
        }
        if missing.need < min_need or not likely:
            return Resolution(turn.query, "keep", trace=facts)
        evidence = [{"term": word.text, **(word.evidence or {})} for word in likely]
        added = " ".join(word.text for word in likely)
        return Resolution(f"{turn.query}{SEPARATOR}{added}", "resolve", trace={**facts, "evidence": evidence})

    return resolve
