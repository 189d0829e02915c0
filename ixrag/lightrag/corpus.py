"""What a knowledge base is built from: passages, and a curated graph of entities and relations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ixinfra.errors import DatasetError


def _as_list(value: Any) -> Any:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


Text = Annotated[str, Field(min_length=1)]
Terms = Annotated[tuple[str, ...], BeforeValidator(_as_list)]


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Passage(_Row):
    """A piece of text that a search can return; `source` is the document it comes from."""

    id: Text
    text: Text
    title: str = ""
    lang: str = ""
    source: str = ""

    @property
    def content(self) -> str:
        """What is embedded and returned: the title, which often names the subject, above the text."""
        return f"{self.title}\n{self.text}" if self.title else self.text


class Entity(_Row):
    """A named thing; `passages` are the ids of those that are about it, best first."""

    name: Text
    type: Text
    description: Text
    aliases: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()


class Relation(_Row):
    """How two entities belong together, without direction; `keywords` are the themes it is found by."""

    source: Text
    target: Text
    description: Text
    keywords: Terms = ()
    weight: float = Field(1.0, gt=0)
    passage: str = ""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Everything one knowledge base holds. Two relations may join the same entities.

    Attributes:
        vectors: File of `known_vectors`, used where its model is the one that embeds.

    Raises:
        DatasetError: Two passages share an id, two entities a name, a relation joins an entity to
            itself, or something refers to a passage or entity that is not there.
    """

    passages: tuple[Passage, ...]
    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    vectors: Path | None = None

    def __post_init__(self) -> None:
        passages = _unique("passages", [passage.id for passage in self.passages])
        entities = _unique("entities", [entity.name for entity in self.entities])
        for entity in self.entities:
            _expect_known(f"entity {entity.name!r}", "passage", entity.passages, passages)
        for relation in self.relations:
            where = f"relation {relation.source!r} – {relation.target!r}"
            _expect_known(where, "entity", (relation.source, relation.target), entities)
            _expect_known(where, "passage", (relation.passage,) if relation.passage else (), passages)
            if relation.source == relation.target:
                raise DatasetError(f"{where} joins an entity to itself")

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits that change with any text, name or link."""
        rows = [
            [row.model_dump() for row in group] for group in (self.passages, self.entities, self.relations)
        ]
        return sha256(json.dumps(rows, ensure_ascii=False).encode()).hexdigest()[:12]

    def without_vectors(self) -> Corpus:
        """The same content; every vector will be computed."""
        return replace(self, vectors=None)


def read_corpus(folder: Path) -> Corpus:
    """Read `passages.jsonl` (one `Passage` a line) and, where it exists, `graph.json`.

    `graph.json` holds `{"entities": [Entity, …], "relations": [Relation, …]}`.

    Raises:
        DatasetError: A file is missing or wrong; the message names file, line and field.
    """
    passages_file, graph_file = folder / "passages.jsonl", folder / "graph.json"
    passages = [
        _row(Passage, _json(line, f"{passages_file}:{number}"), f"{passages_file}:{number}")
        for number, line in enumerate(_text(passages_file).splitlines(), start=1)
        if line.strip()
    ]
    if not graph_file.exists():
        return Corpus(tuple(passages))
    graph = _row(_Graph, _json(_text(graph_file), str(graph_file)), str(graph_file))
    return Corpus(tuple(passages), graph.entities, graph.relations)


class _Graph(_Row):
    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()


R = TypeVar("R", bound=_Row)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DatasetError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from None


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise DatasetError(f"{where}: not JSON: {error}") from None


def _row(shape: type[R], value: Any, where: str) -> R:
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise DatasetError(f"{where}: {field or 'row'}: {first['msg']}") from None


def _unique(what: str, keys: list[str]) -> set[str]:
    twice = [key for key, count in Counter(keys).items() if count > 1]
    if twice:
        raise DatasetError(f"two {what} are called {twice[0]!r}")
    return set(keys)


def _expect_known(where: str, what: str, keys: Iterable[str], known: set[str]) -> None:
    for key in keys:
        if key not in known:
            raise DatasetError(f"{where} names the {what} {key!r}, which does not exist")
