"""What an index says about itself: the file that decides whether it can be opened, or need not be built."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ixinfra.embeddings import Embedder
from ixinfra.errors import KnowledgeBaseError

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


class Catalog(BaseModel):
    """The names of a knowledge base, and its passages by LightRAG's chunk id."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    names: tuple[EntityName, ...]
    passages: dict[str, PassageInfo]


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a knowledge base folder, None where there is none.

    Raises:
        KnowledgeBaseError: It is not a manifest.
    """
    path = folder / "manifest.json"
    try:
        return Manifest.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValidationError, ValueError) as error:
        raise KnowledgeBaseError(f"{path} is damaged or of another version; build again: {error}") from None


def read_catalog(folder: Path) -> Catalog:
    """The catalog of one build.

    Raises:
        KnowledgeBaseError: It is missing or damaged.
    """
    path = folder / "catalog.json"
    try:
        return Catalog.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError, ValueError) as error:
        raise KnowledgeBaseError(f"{path} cannot be read; build the knowledge base again: {error}") from None


def expect_usable(manifest: Manifest | None, folder: Path, embedder: Embedder) -> Manifest:
    """The manifest, if its index can be searched with this embedder.

    Raises:
        KnowledgeBaseError: There is no index, or it was built with another model or layout.
    """
    if manifest is None:
        raise KnowledgeBaseError(f"no knowledge base in {str(folder)!r}; build it first")
    if manifest.format != FORMAT:
        raise KnowledgeBaseError(
            f"{str(folder)!r} has layout {manifest.format}, this version reads {FORMAT}; build it again"
        )
    built, given = (manifest.model_id, manifest.dim), (embedder.model_id, embedder.dim)
    if built != given:
        raise KnowledgeBaseError(
            f"{str(folder)!r} was built with the embedding model {built[0]!r} ({built[1]} dimensions), not with "
            f"{given[0]!r} ({given[1]}); set embedding.model back, or build it again"
        )
    return manifest


def write_json(path: Path, value: BaseModel) -> None:
    """Write a file in one step: a reader sees the old content or the new, never half of it."""
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(value.model_dump(mode="json"), ensure_ascii=False, indent=1), encoding="utf-8")
    part.replace(path)
