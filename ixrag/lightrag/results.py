"""LightRAG's answer as Documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from ixrag.lightrag.custom_graph import SEPARATOR
from ixrag.lightrag.manifest import Catalog


def to_documents(raw: Mapping[str, Any], catalog: Catalog, tenant_id: str = "") -> list[Document]:
    """Everything LightRAG found: passages first, then entities, then relations, each best first.

    Entities and relations are Documents of their own, behind the passages: their descriptions answer
    questions that no single passage does, and a caller that wants passages alone filters by `kind`.
    Woven into one ranking they would push passages out at a cut, and LightRAG gives no score to weave
    by. Each names the passages it came from.

    Args:
        raw: Answer of `aquery_data`. All its forms of "nothing found" give `[]`.
        catalog: Says which passage a chunk id is; chunks it does not know keep LightRAG's file name.
        tenant_id: Put on every document.

    Returns:
        Documents whose metadata holds `kind` ("chunk", "entity" or "relation"), `rank` (from 1, within
        the kind), `source` and `tenant`; a chunk also `chunk_id` and, where known, `passage_id`,
        `title` and `lang`; entities and relations `chunk_ids`, `passage_ids` and their names.
    """
    data = raw.get("data") or {}
    return [
        *(_chunk(row, rank, catalog, tenant_id) for rank, row in _ranked(data, "chunks")),
        *(_entity(row, rank, catalog, tenant_id) for rank, row in _ranked(data, "entities")),
        *(_relation(row, rank, catalog, tenant_id) for rank, row in _ranked(data, "relationships")),
    ]


def used_keywords(raw: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """`(ll, hl)` as LightRAG extracted them; a term with a comma comes back as two."""
    keywords = (raw.get("metadata") or {}).get("keywords") or {}
    return list(keywords.get("low_level") or ()), list(keywords.get("high_level") or ())


def _ranked(data: Mapping[str, Any], key: str) -> enumerate[Mapping[str, Any]]:
    rows: Sequence[Mapping[str, Any]] = data.get(key) or ()
    return enumerate(rows, start=1)


def _chunk(row: Mapping[str, Any], rank: int, catalog: Catalog, tenant_id: str) -> Document:
    chunk_id = str(row.get("chunk_id", ""))
    metadata: dict[str, Any] = {
        "kind": "chunk",
        "rank": rank,
        "chunk_id": chunk_id,
        "source": str(row.get("file_path", "")),
        "tenant": tenant_id,
    }
    info = catalog.passages.get(chunk_id)
    if info is not None:
        metadata |= {"passage_id": info.id, "source": info.source or info.id}
        metadata |= {"title": info.title, "lang": info.lang}
    return Document(page_content=str(row["content"]), id=chunk_id, metadata=metadata)


def _entity(row: Mapping[str, Any], rank: int, catalog: Catalog, tenant_id: str) -> Document:
    name, kind = str(row["entity_name"]), str(row.get("entity_type", ""))
    return Document(
        page_content=f"{name} ({kind}): {row.get('description', '')}",
        id=f"entity:{name}",
        metadata={"kind": "entity", "rank": rank, "name": name, "type": kind}
        | _origin(row, catalog, tenant_id),
    )


def _relation(row: Mapping[str, Any], rank: int, catalog: Catalog, tenant_id: str) -> Document:
    ends = [str(row["src_id"]), str(row["tgt_id"])]
    return Document(
        page_content=f"{ends[0]} – {ends[1]}: {row.get('description', '')}",
        id=f"relation:{ends[0]}|{ends[1]}",
        metadata={"kind": "relation", "rank": rank, "names": ends, "keywords": str(row.get("keywords", ""))}
        | _origin(row, catalog, tenant_id),
    )


def _origin(row: Mapping[str, Any], catalog: Catalog, tenant_id: str) -> dict[str, Any]:
    chunk_ids = [part for part in str(row.get("source_id", "")).split(SEPARATOR) if part]
    passages = [catalog.passages[chunk_id] for chunk_id in chunk_ids if chunk_id in catalog.passages]
    source = (passages[0].source or passages[0].id) if passages else str(row.get("file_path", ""))
    return {
        "chunk_ids": chunk_ids,
        "passage_ids": [passage.id for passage in passages],
        "source": source,
        "tenant": tenant_id,
    }
