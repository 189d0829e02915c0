"""A knowledge base of a few lines about an invented company, for tests on real LightRAG."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fakes import HashEmbedder

from ixinfra.config.settings import LightRAGConfig
from ixinfra.embeddings import Embedder
from ixrag.lightrag.corpus import Corpus, Entity, Passage, Relation
from ixrag.lightrag.knowledge_base import KnowledgeBase, build_knowledge_base, open_knowledge_base


def small_corpus(company: str = "Orvelle") -> Corpus:
    """Three products of `company`; every passage and entity names it."""
    return Corpus(
        passages=(
            Passage(id="brodal", title="Brodal", lang="en", source="products.pdf", text=f"Brodal by {company} plans shifts."),
            Passage(id="brodal-price", lang="en", source="prices.pdf", text=f"{company} sells Brodal for 3 euros a month."),
            Passage(id="lumquat", lang="fr", source="produits.pdf", text=f"Lumquat de {company} tient les stocks."),
            Passage(id="offices", lang="en", source="about.pdf", text=f"{company} has offices in Turin and Ghent."),
            Passage(id="payroll", lang="en", source="products.pdf", text=f"Fenstrel of {company} sends hours to payroll."),
        ),
        entities=(
            Entity(name="Brodal", type="product", aliases=("Brodal Plan",), description=f"Planning tool of {company}", passages=("brodal", "brodal-price")),
            Entity(name="Lumquat", type="product", description=f"Stock tool of {company}", passages=("lumquat",)),
            Entity(name="Fenstrel", type="module", description=f"Payroll link of {company}", passages=("payroll",)),
            Entity(name=company, type="company", description="Maker of software", passages=("offices",)),
        ),
        relations=(
            Relation(source="Brodal", target="Fenstrel", description="Brodal hands hours to Fenstrel", keywords=("payroll", "hours"), passage="payroll"),
            Relation(source=company, target="Lumquat", description=f"{company} makes Lumquat", keywords=("stock",), passage="lumquat"),
        ),
    )  # fmt: skip


def small_config(folder: Path, **changes: Any) -> LightRAGConfig:
    """No threshold: hashed words are often orthogonal, and a search would find nothing."""
    return LightRAGConfig(**{"working_dir": folder, "cosine_threshold": -1.0, **changes})


@contextlib.asynccontextmanager
async def opened(
    folder: Path,
    *,
    name: str = "orvelle",
    corpus: Corpus | None = None,
    embedder: Embedder | None = None,
    keyword_model: Any = None,
    keyword_timeout_s: float | None = None,
    **config: Any,
) -> AsyncIterator[KnowledgeBase]:
    """Build and open a base in `folder`; closed at the end of the block."""
    embedder = embedder or HashEmbedder()
    settings = small_config(folder, **config)
    await build_knowledge_base(corpus or small_corpus(), name, config=settings, embedder=embedder)
    base = await open_knowledge_base(
        name,
        config=settings,
        embedder=embedder,
        keyword_model=keyword_model,
        keyword_timeout_s=keyword_timeout_s,
    )
    try:
        yield base
    finally:
        await base.close()
