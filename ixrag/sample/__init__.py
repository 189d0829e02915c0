"""The bundled sample: the knowledge base of Velmora, an invented software company."""

from __future__ import annotations

from pathlib import Path

from ixrag.lightrag.corpus import Corpus, read_corpus

__all__ = ["SAMPLE_NAME", "sample_corpus"]

SAMPLE_NAME = "velmora"


def sample_corpus() -> Corpus:
    """Passages in five languages and a curated graph, read from the installed package."""
    return read_corpus(Path(__file__).parent)
