"""The bundled sample: the knowledge base of Velmora, an invented software company."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ixrag.lightrag.corpus import Corpus, read_corpus

__all__ = ["SAMPLE_NAME", "sample_corpus"]

SAMPLE_NAME = "velmora"
VECTORS = Path(__file__).parent / "vectors.npz"


def sample_corpus() -> Corpus:
    """Passages in five languages and a curated graph, with the vectors of the default embedder.

    The vectors spare the first start half a minute; `python -m ixrag.sample` computes them again.
    """
    return replace(read_corpus(VECTORS.parent), vectors=VECTORS)
