"""Compute the vectors of the sample again, after a passage or an entity has changed."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from ixinfra.config.settings import EmbeddingConfig, LightRAGConfig
from ixinfra.embeddings import build_embedder
from ixrag.lightrag.knowledge_base import build_knowledge_base
from ixrag.lightrag.known_vectors import KnownVectors
from ixrag.sample import SAMPLE_NAME, VECTORS, sample_corpus


async def compute_vectors(target: Path) -> None:
    """Build the sample once, and keep every vector that was asked for in `target`."""
    embedder = KnownVectors(build_embedder(EmbeddingConfig()))
    corpus = sample_corpus().without_vectors()
    with tempfile.TemporaryDirectory() as folder:
        config = LightRAGConfig(working_dir=Path(folder))
        await build_knowledge_base(corpus, SAMPLE_NAME, config=config, embedder=embedder)
    embedder.save(target)


if __name__ == "__main__":
    asyncio.run(compute_vectors(VECTORS))
