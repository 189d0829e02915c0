"""A corpus into LightRAG's stores with entities and relations that a model finds: LightRAG's own extraction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ixinfra.errors import KnowledgeBaseError
from ixrag.lightrag.corpus import Corpus, Passage
from ixrag.lightrag.engine import ExtractModel
from ixrag.lightrag.manifest import Catalog, EntityName, PassageInfo

BETWEEN_PASSAGES = "\n\n⁂⁂⁂\n\n"  # LightRAG cuts there and nowhere else, so passages stay ours


@dataclass(frozen=True, slots=True)
class Extractor:
    """A model that finds entities and relations in passages. An index built by another one is not the same."""

    model: ExtractModel
    model_id: str
    verify: Callable[[], None] = lambda: None  # raises when what the model gave must not be published

    @property
    def fingerprint(self) -> str:
        """Eight hex digits that stand for the model."""
        return sha256(self.model_id.encode()).hexdigest()[:8]


async def insert(rag: Any, corpus: Corpus, extractor: Extractor) -> tuple[Catalog, int]:
    """Insert every passage and whatever the model finds in it.

    Returns:
        The catalog, names in alphabetical order, and the number of relations.

    Raises:
        KnowledgeBaseError: LightRAG gave a document up, or `extractor.verify` refuses.
    """
    documents: defaultdict[str, list[Passage]] = defaultdict(list)
    for passage in corpus.passages:
        documents[passage.source or passage.id].append(passage)
    texts = {
        source: BETWEEN_PASSAGES.join(passage.content for passage in passages)
        for source, passages in documents.items()
    }
    ids = {source: f"doc-{sha256(source.encode()).hexdigest()[:32]}" for source in _once_each(texts)}
    await rag.ainsert(
        [texts[source] for source in ids],
        split_by_character=BETWEEN_PASSAGES,
        split_by_character_only=True,
        ids=list(ids.values()),
        # LightRAG keeps the last part of a path alone, and refuses a second document of that name.
        file_paths=[source.replace("/", " › ") for source in ids],
    )
    extractor.verify()
    counts = await rag.doc_status.get_status_counts()
    if counts.get("processed", 0) != len(ids):
        raise KnowledgeBaseError(
            f"LightRAG processed {counts.get('processed', 0)} of {len(ids)} documents ({counts}); "
            "see the log at DEBUG"
        )
    return await _catalog(rag, documents, ids)


def _once_each(texts: dict[str, str]) -> list[str]:
    """The first source of each text: LightRAG takes a text once."""
    first = {text: source for source, text in reversed(texts.items())}
    return [source for source, text in texts.items() if first[text] == source]


async def _catalog(rag: Any, documents: dict[str, list[Passage]], ids: dict[str, str]) -> tuple[Catalog, int]:
    graph = rag.chunk_entity_relation_graph
    names = {
        str(node["entity_id"]): EntityName(name=node["entity_id"], type=str(node.get("entity_type") or ""))
        for node in await graph.get_all_nodes()
    }
    passages = {
        f"{document_id}-chunk-{order:03d}": PassageInfo(
            id=passage.id, title=passage.title, source=passage.source, lang=passage.lang
        )
        for source, document_id in ids.items()
        for order, passage in enumerate(documents[source])
    }
    catalog = Catalog(names=tuple(names[name] for name in sorted(names)), passages=passages)
    return catalog, len(await graph.get_all_edges())
