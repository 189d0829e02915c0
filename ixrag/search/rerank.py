"""The last word on the order of a few candidates."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from langchain_core.documents import Document

from ixinfra.errors import ConfigError, MissingExtraError
from ixrag.search.index import Channel

MAX_PAIR_TOKENS = 256  # of query and passage together; longer pairs cost twice as much for little
MAX_PASSAGE_CHARS = 1500


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that may be returned.

    Attributes:
        document: The passage.
        fused: Its score in the fused ranking, above 0.
        scores: What each channel said of it when asked the query itself; channels that did not find it
            are absent.
    """

    document: Document
    fused: float
    scores: Mapping[Channel, float] = field(default_factory=dict)


class Reranker(Protocol):
    """Scores candidates once more."""

    @property
    def name(self) -> str:
        """For records and spans."""

    async def scores(self, query: str, candidates: Sequence[Candidate]) -> list[float]:
        """One score for each candidate, higher is better. Raises whatever goes wrong."""


class FusedOrder:
    """Leaves the fused ranking as it is."""

    name = "none"

    async def scores(self, query: str, candidates: Sequence[Candidate]) -> list[float]:
        """The fused scores."""
        return [candidate.fused for candidate in candidates]


@dataclass(frozen=True, slots=True)
class ScoreMix:
    """Adds up what the channels said, each stretched to 0…1 over the candidates, and the fused score.

    Ranks forget by how much a passage won; scores do not. It needs no model and takes microseconds.

    Attributes:
        weights: Say of each channel.
        fused_weight: Say of the fused score, for passages that only another form of the query found.
    """

    weights: Mapping[Channel, float] = field(
        default_factory=lambda: {"dense": 0.5, "sparse": 0.3, "bm25": 0.2}
    )
    fused_weight: float = 0.3
    name: str = "score-mix"

    async def scores(self, query: str, candidates: Sequence[Candidate]) -> list[float]:
        """The weighted sums."""
        total = self.fused_weight * _stretched([candidate.fused for candidate in candidates])
        for channel, weight in self.weights.items():
            found = [candidate.scores.get(channel) for candidate in candidates]
            known = [score for score in found if score is not None]
            if known:
                # Who was not found has less than the last that was; that one's score is the best guess.
                floor = min(known)
                total = total + weight * _stretched([floor if score is None else score for score in found])
        return [float(value) for value in total]


class CrossEncoder:
    """A model that reads query and passage together, on CPU threads of its own.

    Args:
        folder: Holds `model.onnx` (inputs ids and mask, one output per pair) and `tokenizer.json`; any
            sentence-transformers cross-encoder exported to ONNX has both.
        threads: Threads of one call.

    Raises:
        MissingExtraError: onnxruntime or tokenizers is missing.
        ConfigError: The folder lacks a file, or the model cannot be loaded.
    """

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        self._session, self._tokenizer = _load(folder, threads)
        self._inputs = [value.name for value in self._session.get_inputs()]
        self._pool = ThreadPoolExecutor(1, "ix-rerank")
        self.name = f"cross-encoder:{folder.name}"

    async def scores(self, query: str, candidates: Sequence[Candidate]) -> list[float]:
        """The model's scores; a call that has begun cannot be interrupted."""
        texts = [candidate.document.page_content[:MAX_PASSAGE_CHARS] for candidate in candidates]
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._score, query, texts)

    def _score(self, query: str, texts: list[str]) -> list[float]:
        encoded = self._tokenizer.encode_batch([(query, text) for text in texts])
        columns = {
            "input_ids": [pair.ids for pair in encoded],
            "attention_mask": [pair.attention_mask for pair in encoded],
            "token_type_ids": [pair.type_ids for pair in encoded],
        }
        feed = {name: np.asarray(columns[name], np.int64) for name in self._inputs}
        (logits,) = self._session.run(None, feed)[:1]
        return [float(row) for row in np.asarray(logits).reshape(len(texts), -1)[:, -1]]


def _load(folder: Path, threads: int) -> tuple[Any, Any]:
    try:
        import onnxruntime
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingExtraError(
            "a cross-encoder needs onnxruntime and tokenizers: pip install 'ixchat[rerank]'"
        ) from error
    for name in ("model.onnx", "tokenizer.json"):
        if not (folder / name).is_file():
            raise ConfigError(f"{str(folder)!r} is no cross-encoder: {name} is missing")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # both libraries raise their own
        raise ConfigError(f"the cross-encoder in {str(folder)!r} cannot be loaded: {error}") from None
    tokenizer.enable_truncation(MAX_PAIR_TOKENS)
    tokenizer.enable_padding()
    return session, tokenizer


def _stretched(values: Sequence[float]) -> Any:
    """The values moved and scaled to 0…1; equal ones become 0."""
    array = np.asarray(values, np.float64)
    span = float(np.ptp(array)) if len(array) else 0.0
    return (array - array.min()) / span if span else np.zeros(len(array))
