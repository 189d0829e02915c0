"""What a message needs before it can be searched: five ways, decided in well under five milliseconds.

The gate is a linear model over what a message looks like, not over what it is about: its small words in
order, its length, its question marks, whether its content stands in the conversation. So it reads five
languages alike and no topic. `python -m ixevaluation.gate_training` makes the shipped file again;
`intent_gate.md` beside it says what it was made from and where it is wrong.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ixchat.utils.history import recent_turns
from ixchat.utils.local.lexicon import Lean, lexicon_of, lexicons
from ixchat.utils.resolution import Turn
from ixinfra.errors import ConfigError, MissingExtraError
from ixrag.query.boundaries import clauses, is_courtesy, sentences
from ixrag.query.languages import languages
from ixrag.search.engine import Strategy
from ixrag.words import Word, folded_words, words

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
MIN_CONFIDENCE = 0.55  # a missed rewrite costs one search some recall, a wrong one finds wrong passages
SHIPPED = Path(__file__).with_name("intent_gate.onnx")

HASHED = 2048
MAX_WORDS = 64  # what a longer message needs shows in its beginning
_LEANS: tuple[Lean, ...] = (
    "impersonal", "thing", "party", "several", "inside", "opener", "company", "shift",
)  # fmt: skip
_SHAPES = 32
_SHAPE_SCALE = 2.0  # a mark of shape is worth several word patterns to the regularised model
_MARKS = ("?", "？", "؟")

Features = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Intent:
    """What the gate says of a message, and how sure it is, 0 to 1.

    Attributes:
        strategy: What will be done.
        confidence: Probability of the strategy, of the most likely one where the floor decided.
        scores: Probability of each strategy.
        reason: `model`, `first_turn` (a reference has nothing to refer to) or `unsure` (below the floor).
    """

    strategy: Strategy
    confidence: float
    scores: Mapping[Strategy, float]
    reason: str = "model"


class IntentGate:
    """The model, loaded once; it may be shared by threads.

    Args:
        path: An ONNX file with input `features` float32 `[n, DIM]` and output `probabilities` `[n, 5]`.
        min_confidence: Below it a message is searched as it is.

    Raises:
        MissingExtraError: onnxruntime is missing.
        ConfigError: The file is not such a model.
    """

    def __init__(self, path: Path = SHIPPED, *, min_confidence: float = MIN_CONFIDENCE) -> None:
        self._session = _session(path)
        self._min_confidence = min_confidence
        self.classify(Turn("?"))  # reads the word lists now: half a second that no visitor should wait for

    def classify(self, turn: Turn) -> Intent:
        """What the turn's message needs. No I/O; about a millisecond."""
        (row,) = self.probabilities(features(turn)[None, :])
        return decide(row, first_turn=not turn.messages, min_confidence=self._min_confidence)

    def probabilities(self, rows: Features) -> Features:
        """float32 `[n, 5]`, in the order of `STRATEGIES`, for float32 `[n, DIM]`."""
        (found,) = self._session.run(["probabilities"], {"features": rows})
        return np.asarray(found, np.float32)


def decide(row: Sequence[float] | Features, *, first_turn: bool, min_confidence: float) -> Intent:
    """The strategy that probabilities speak for. No I/O.

    On a first turn there is nothing to refer to: `coref` and `coref_decompose` fall to the likelier of
    `decompose` and `expand`. What is then below the floor is searched as it is.
    """
    scores = {name: float(value) for name, value in zip(STRATEGIES, row, strict=True)}
    best = max(STRATEGIES, key=lambda name: scores[name])
    reason = "model"
    if first_turn and best.startswith("coref"):
        best, reason = ("decompose" if scores["decompose"] > scores["expand"] else "expand"), "first_turn"
    if scores[best] < min_confidence:
        return Intent("passthrough", scores[best], scores, "unsure")
    return Intent(best, scores[best], scores, reason)


def features(turn: Turn) -> Features:
    """What a message looks like: float32 `[DIM]`, the shape of the message before hashed word patterns."""
    found = words(turn.query)[:MAX_WORDS]
    recent = [words(message.content) for message in recent_turns(turn.messages)]
    said = {word for message in recent for word in folded_words(message)}
    row = np.zeros(DIM, np.float32)
    shape = list(_shape(turn, found, said, recent))
    row[: len(shape)] = np.multiply(shape, _SHAPE_SCALE)
    for pattern in _patterns(_tokens(turn.query, found, said)):
        row[_SHAPES + zlib.crc32(pattern.encode()) % HASHED] = 1.0
    return row


DIM = _SHAPES + HASHED


def _shape(
    turn: Turn, found: Sequence[Word], said: set[str], recent: Sequence[Sequence[Word]]
) -> Iterator[float]:
    text = turn.query.strip()
    n = len(found)
    content = [word.folded for word in found if word.folded not in _small_words()]
    parts = [
        part
        for sentence in sentences(text[:1000])
        for part in clauses(sentence)
        if not is_courtesy(part)
    ]  # fmt: skip
    asked = sum(text.count(mark) for mark in _MARKS)
    questions = sum(_asks(part) for part in parts)
    yield from (float(n <= 1), float(n == 2), float(n == 3), float(n == 4), float(5 <= n <= 7))
    yield float(n > 7)  # no finer: the compounds that teach `decompose` are longer than what people write
    yield from (float(asked == 0), float(asked == 1), float(asked > 1), float(text.endswith(_MARKS)))
    yield from (float(len(parts) <= 1), float(len(parts) == 2), float(len(parts) > 2))
    yield from (float(questions == 0), float(questions == 1), float(questions > 1))
    yield from (float(bool(turn.messages)), len(content) / max(n, 1), float(not content))
    yield sum(word in said for word in content) / max(len(content), 1)
    yield float(any(_is_name(text, word) for word in found[1:]))
    lexicon = lexicon_of(found, *recent)
    folded = " ".join(word.folded for word in found)
    yield from (
        float(bool(lexicon and (pattern := lexicon.lean.get(lean)) and pattern.search(folded)))
        for lean in _LEANS
    )


def _tokens(text: str, found: Sequence[Word], said: set[str]) -> list[str]:
    """Small words as they are; of content words only whether they are names, figures or were said before."""
    tokens = ["<"]
    for place, word in enumerate(found):
        if word.folded in _small_words():
            tokens.append(word.folded)
        else:
            kind = (
                "9"
                if any(c.isdigit() for c in word.folded)
                else "N"
                if place and _is_name(text, word)
                else "W"
            )
            tokens.append(kind + ("+" if word.folded in said else ""))
    return [*tokens, ">"]


def _patterns(tokens: Sequence[str]) -> Iterator[str]:
    yield from tokens
    yield from map(" ".join, pairwise(tokens))
    yield from map(" ".join, zip(tokens, tokens[1:], tokens[2:], strict=False))


def _asks(part: str) -> bool:
    """Whether a part of a message is a question or a request of its own."""
    return part.endswith(_MARKS) or any(word.folded in _asking_words() for word in words(part[:40])[:2])


def _is_name(text: str, word: Word) -> bool:
    return text[word.start].isupper()


@lru_cache(maxsize=1)
def _small_words() -> frozenset[str]:
    """Words that say nothing of a topic, of every language, folded."""
    known = set[str]()
    for lexicon in lexicons().values():
        known |= lexicon.common | lexicon.frame | lexicon.question
    for language in languages().values():
        known |= {word for phrase in language.openers for word in phrase}
    return frozenset(known)


@lru_cache(maxsize=1)
def _asking_words() -> frozenset[str]:
    """Words that start a question or a request, of every language, folded."""
    starts = {phrase[0] for language in languages().values() for phrase in language.openers}
    return frozenset(starts.union(*(lexicon.question for lexicon in lexicons().values())))


def _session(path: Path) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("the intent gate needs onnxruntime: pip install 'ixchat[engine]'") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises its own
        raise ConfigError(f"the gate {str(path)!r} cannot be loaded: {type(error).__name__}") from None
    (wanted,) = session.get_inputs()
    if wanted.shape[-1] != DIM:
        raise ConfigError(
            f"the gate {str(path)!r} takes {wanted.shape[-1]} features, this version makes {DIM}; train it again"
        )
    return session
