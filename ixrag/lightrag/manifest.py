"""What an index says about itself: the file that decides whether it can be opened, or need not be built."""

from __future__ import annotations

import asyncio
import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ixinfra.embeddings import Embedder
from ixinfra.errors import KnowledgeBaseError
from ixrag.lightrag.records import Records

FORMAT = 1  # raise it when an index built by earlier code must be built again


class EntityName(BaseModel):
    """A name a visitor may use, with the kind of thing it names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    type: str = ""
    aliases: tuple[str, ...] = ()


class PassageInfo(BaseModel):
    """What LightRAG does not keep of a passage."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    title: str = ""
    source: str = ""
    lang: str = ""


GraphOrigin = Literal["given", "none", "rules", "model"]


class Origin(BaseModel):
    """Where a corpus comes from.

    Attributes:
        graph: Who found the entities: they were `given`, found by `rules` or by a `model`, or not wanted.
        documents: Files it was ingested from; 0 for a corpus that was not.
        ingest_id: The record of those files, "" for none; see `ixrag.ingest.state`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    graph: GraphOrigin = "given"
    documents: int = 0
    ingest_id: str = ""


class Manifest(BaseModel):
    """One build of a knowledge base.

    Attributes:
        format: Version of the layout on disk.
        name: Name of the knowledge base.
        workspace: Folder of this build. It carries the fingerprint of content, model and format, so a
            new build stands beside the old one until this file points to it.
        model_id: Embedding model of the vectors.
        dim: Length of a vector.
        built_at: UTC, ISO 8601.
        origin: Where the corpus comes from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int
    name: str
    workspace: str
    model_id: str
    dim: int
    passages: int
    entities: int
    relations: int
    built_at: str
    origin: Origin = Origin()


class Builds(BaseModel):
    """Workspaces that hold something, oldest first: builds that are in use, going on or were interrupted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workspaces: tuple[str, ...] = ()


class Catalog(BaseModel):
    """The names of a knowledge base, and its passages by LightRAG's chunk id."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    names: tuple[EntityName, ...]
    passages: dict[str, PassageInfo]


async def read_manifest(records: Records) -> Manifest | None:
    """The manifest of a knowledge base, None where there is none.

    Raises:
        KnowledgeBaseError: It is not a manifest.
    """
    text = await records.read("manifest.json")
    try:
        return None if text is None else Manifest.model_validate_json(text)
    except ValidationError as error:
        raise KnowledgeBaseError(
            f"manifest.json in {records.where} is damaged or of another version; build again: {error}"
        ) from None


async def read_catalog(records: Records, manifest: Manifest) -> Catalog:
    """The catalog of one build.

    Raises:
        KnowledgeBaseError: It is missing or damaged.
    """
    key = f"{manifest.workspace}/catalog.json"
    text = await records.read(key)
    try:
        return await asyncio.to_thread(Catalog.model_validate_json, text or "")
    except ValidationError as error:
        raise KnowledgeBaseError(
            f"{key} in {records.where} cannot be read; build the knowledge base again: {error}"
        ) from None


async def read_builds(records: Records) -> Builds:
    """The builds written down; none where the record is missing or damaged."""
    try:
        return Builds.model_validate_json(await records.read("builds.json") or "{}")
    except ValidationError:
        return Builds()


def expect_usable(manifest: Manifest | None, where: str, embedder: Embedder) -> Manifest:
    """The manifest, if its index can be searched with this embedder.

    Raises:
        KnowledgeBaseError: There is no index, or it was built with another model or layout.
    """
    if manifest is None:
        raise KnowledgeBaseError(f"no knowledge base in {where!r}; build it first, with `ix ingest`")
    if manifest.format != FORMAT:
        raise KnowledgeBaseError(
            f"{where!r} has layout {manifest.format}, this version reads {FORMAT}; build it again"
        )
    built, given = (manifest.model_id, manifest.dim), (embedder.model_id, embedder.dim)
    if built != given:
        raise KnowledgeBaseError(
            f"{where!r} was built with the embedding model {built[0]!r} ({built[1]} dimensions), not with "
            f"{given[0]!r} ({given[1]}); set embedding.model back, or build it again, with `ix ingest --rebuild`"
        )
    return manifest


async def write_record(records: Records, key: str, value: BaseModel) -> None:
    """Write a manifest or catalog in one step."""
    text = json.dumps(value.model_dump(mode="json"), ensure_ascii=False, indent=1)
    await records.write(key, text)
