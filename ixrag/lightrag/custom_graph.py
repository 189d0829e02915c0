"""A corpus into LightRAG's stores, without a model: its custom-graph call, and what that call leaves out."""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from ixrag.lightrag.corpus import Corpus, Entity, Passage, Relation
from ixrag.lightrag.manifest import Catalog, EntityName, PassageInfo

SEPARATOR = "<SEP>"  # between several values in one field of LightRAG's graph


async def insert(rag: Any, corpus: Corpus) -> Catalog:
    """Insert everything and say under which chunk id each passage went in.

    LightRAG's call links an entity to one passage alone. The other passages of an entity, and of
    relations that join the same pair, are added to the graph's nodes and edges afterwards: a search
    that finds the entity then brings all of them.
    """
    chunk_ids = {passage.id: chunk_id(passage.content) for passage in corpus.passages}
    relations = merge_relations(corpus.relations)
    await rag.ainsert_custom_kg(custom_graph(corpus, relations))
    graph = rag.chunk_entity_relation_graph
    sources = {
        node_name(entity.name): _joined(chunk_ids, entity.passages)
        for entity in corpus.entities
        if len(entity.passages) > 1
    }
    # In two calls each: on a server one by one is two journeys an entity.
    nodes = await graph.get_nodes_batch([*sources])
    await graph.upsert_nodes_batch(
        [(name, {**nodes[name], "source_id": source}) for name, source in sources.items()]
    )
    joined = {
        (node_name(relation.source), node_name(relation.target)): _joined(chunk_ids, passages)
        for relation, passages in relations
        if len(passages) > 1
    }
    edges = await graph.get_edges_batch([{"src": one, "tgt": other} for one, other in joined])
    await graph.upsert_edges_batch(
        [
            (*ends, {**(edges.get(ends) or edges[ends[::-1]]), "source_id": source})
            for ends, source in joined.items()
        ]
    )
    await graph.index_done_callback()
    return Catalog(
        names=tuple(
            EntityName(name=entity.name, type=entity.type, aliases=entity.aliases)
            for entity in corpus.entities
        ),
        # A text that occurs twice is one chunk; it goes by the name of its first passage.
        passages={chunk_ids[passage.id]: _info(passage) for passage in reversed(corpus.passages)},
    )


def custom_graph(corpus: Corpus, relations: Sequence[tuple[Relation, Sequence[str]]]) -> dict[str, Any]:
    """The argument of `ainsert_custom_kg`. Passage ids serve as its `source_id` aliases."""
    source = {passage.id: passage.source or passage.id for passage in corpus.passages}
    return {
        "chunks": [
            {
                "content": passage.content,
                "source_id": passage.id,
                "file_path": source[passage.id],
                "chunk_order_index": order,
            }
            for order, passage in enumerate(corpus.passages)
        ],
        "entities": [_entity(entity, source) for entity in corpus.entities],
        "relationships": [
            {
                "src_id": relation.source,
                "tgt_id": relation.target,
                "description": relation.description,
                "keywords": ", ".join(relation.keywords),
                "weight": relation.weight,
                **_origin(passages, source),
            }
            for relation, passages in relations
        ],
    }


def merge_relations(relations: Sequence[Relation]) -> list[tuple[Relation, list[str]]]:
    """One relation for each pair of entities, with the passages of all that were merged.

    LightRAG keeps one edge a pair, and the last one would win.
    """
    pairs: defaultdict[tuple[str, ...], list[Relation]] = defaultdict(list)
    for relation in relations:
        pairs[tuple(sorted((relation.source, relation.target)))].append(relation)
    return [
        (
            same[0].model_copy(
                update={
                    "description": " ".join(dict.fromkeys(relation.description for relation in same)),
                    "keywords": tuple(dict.fromkeys(word for relation in same for word in relation.keywords)),
                    "weight": max(relation.weight for relation in same),
                }
            ),
            list(dict.fromkeys(relation.passage for relation in same if relation.passage)),
        )
        for same in pairs.values()
    ]


def chunk_id(content: str) -> str:
    """The id under which LightRAG stores a text."""
    utils = importlib.import_module("lightrag.utils")
    return str(utils.compute_mdhash_id(utils.sanitize_text_for_encoding(content), prefix="chunk-"))


def node_name(name: str) -> str:
    """The spelling under which LightRAG stores an entity."""
    return str(importlib.import_module("lightrag.utils").normalize_entity_name(name))


def _entity(entity: Entity, source: dict[str, str]) -> dict[str, Any]:
    also = f" ({', '.join(entity.aliases)})" if entity.aliases else ""
    return {
        "entity_name": entity.name,
        "entity_type": entity.type,
        "description": entity.description + also,
        **_origin(entity.passages, source),
    }


def _origin(passages: Sequence[str], source: dict[str, str]) -> dict[str, str]:
    # Without a passage there is no `source_id`, and LightRAG marks the origin as unknown.
    return {"source_id": passages[0], "file_path": source[passages[0]]} if passages else {}


def _joined(chunk_ids: dict[str, str], passages: Sequence[str]) -> str:
    return SEPARATOR.join(dict.fromkeys(chunk_ids[passage] for passage in passages))


def _info(passage: Passage) -> PassageInfo:
    return PassageInfo(id=passage.id, title=passage.title, source=passage.source, lang=passage.lang)
