"""What is evaluated: items read strictly from JSON Lines, bundled or imported, with a hash of their content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ixchat.utils.resolution import Message, Turn
from ixinfra.errors import DatasetError

Mode = Literal[
    "elliptical",
    "pronoun",
    "self_sufficient",
    "topic_shift",
    "no_retrieval",
    "qualification",
    "case_request",
    "reference",
    "correction",
    "greeting",
]
MODES: tuple[Mode, ...] = get_args(Mode)
UNJUDGED_MODES: frozenset[Mode] = frozenset({"no_retrieval", "greeting"})
"""Turns without an information need: run, reported, never scored."""

Split = Literal["dev", "holdout"]

BUNDLED = ("v1", "elliptic", "reference", "v1-holdout", "elliptic-holdout", "reference-holdout")
BUNDLED_DIR = Path(__file__).parent / "datasets"
IMPORTED_DIR = Path(".ix") / "eval"
NAME_PREFIX = "query-rewriter-"  # the sets' names in Langfuse; accepted wherever a name is


class HistoryMessage(BaseModel):
    """One earlier message. `system` carries what is not a turn, such as a page title."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Literal["user", "assistant", "system"]
    content: str


class Expected(BaseModel):
    """The decision a person would take on this turn, and the name they would add."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    decision: Literal["resolve", "keep", "ambiguous"]
    name: str | None = None


class Item(BaseModel):
    """One turn to evaluate.

    Attributes:
        id: Unique within its set.
        site: Invented company or source the item belongs to.
        lang: Language of the visitor, ISO 639-1.
        mode: What kind of turn it is.
        history: Messages before it, oldest first.
        query: The visitor's message as written.
        company_name: Company whose site the conversation is on.
        need: What the visitor wants to know, in one sentence; read by the sufficiency judge.
        relevant: Ids of the passages that answer it.
        answer: Text that an answering passage contains.
        tags: Free marks.
        split: `holdout` items are sealed: run to confirm, never to tune.
        expected: The right decision, where one is labelled.
        conversation: Conversation the item comes from; items that share one are not independent.
        domain: Which passages to search, where a set has several indexes.
        rewrite: A published stand-alone form of the query, for ceilings only.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    site: str
    lang: str = Field(pattern=r"^[a-z]{2}$")
    mode: Mode
    history: tuple[HistoryMessage, ...] = ()
    query: str = Field(min_length=1)
    company_name: str = ""
    need: str | None = None
    relevant: tuple[str, ...] = ()
    answer: str | None = None
    tags: tuple[str, ...] = ()
    split: Split = "dev"
    expected: Expected | None = None
    conversation: str = ""
    domain: str = ""
    rewrite: str | None = None

    @model_validator(mode="after")
    def _not_blank(self) -> Item:
        if not self.query.strip():
            raise ValueError("`query` is blank")
        return self

    @property
    def cluster(self) -> str:
        """What is resampled together: the conversation, or the item itself."""
        return self.conversation or self.id

    @property
    def is_judged(self) -> bool:
        """Whether the item carries an information need at all."""
        return self.mode not in UNJUDGED_MODES

    @property
    def is_labelled(self) -> bool:
        """Whether the label judge can score it."""
        return self.is_judged and bool(self.relevant)

    def turn(self) -> Turn:
        """The turn as a host would build it: user and assistant messages with text, nothing else."""
        earlier = tuple(
            Message(message.role, message.content)
            for message in self.history
            if message.role != "system" and message.content.strip()
        )
        return Turn(self.query, earlier, self.company_name)


class Passage(BaseModel):
    """One text that can be found; `domain` names its index."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str = Field(min_length=1)
    text: str
    title: str = ""
    domain: str = ""


@dataclass(frozen=True)
class ItemSet:
    """Items under one name.

    Attributes:
        name: As asked for.
        items: In file order; ids are unique.
        passages_path: Passages that travel with an imported set; None for the bundled knowledge base.
    """

    name: str
    items: tuple[Item, ...]
    passages_path: Path | None = None

    @cached_property
    def sha256(self) -> str:
        """Hash of the items' content and order; whitespace and key order of the file do not count."""
        return content_hash([item.model_dump(mode="json") for item in self.items])

    @property
    def is_sealed(self) -> bool:
        """Whether any item belongs to a holdout."""
        return any(item.split == "holdout" for item in self.items)

    def passages(self) -> list[Passage]:
        """The passages of an imported set.

        Raises:
            DatasetError: The set has none, or the file cannot be read.
        """
        if self.passages_path is None:
            raise DatasetError(f"set {self.name!r} has no passages of its own; use the LightRAG engine")
        return list(read_jsonl(self.passages_path, Passage))


Model = TypeVar("Model", bound=BaseModel)


def read_jsonl(path: Path, model: type[Model]) -> Iterator[Model]:
    """Read one `model` a line; blank lines are skipped.

    Raises:
        DatasetError: The file is missing, or a line is not valid; names file, line and field.
    """
    for number, record in read_records(path):
        try:
            yield model.model_validate(record)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or "record"
            raise DatasetError(f"{path}:{number}: field {field!r}: {first['msg']}") from None


def read_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file with their line numbers, from 1.

    Raises:
        DatasetError: The file is missing, not UTF-8, or a line is not a JSON object.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"cannot read {str(path)!r}: {_why(error)}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise DatasetError(f"{path}:{number}: not JSON: {error.msg} (column {error.colno})") from None
        if not isinstance(record, dict):
            raise DatasetError(f"{path}:{number}: expected an object, got {type(record).__name__}")
        yield number, record


def read_items(path: Path) -> tuple[Item, ...]:
    """Read a set's items, in order.

    Raises:
        DatasetError: As `read_jsonl`; also for an id that occurs twice and for an empty file.
    """
    seen: dict[str, None] = {}
    items = []
    for item in read_jsonl(path, Item):
        if item.id in seen:
            raise DatasetError(f"{path}: id {item.id!r} occurs twice; ids must be unique within a set")
        seen[item.id] = None
        items.append(item)
    if not items:
        raise DatasetError(f"{path}: the set is empty; it needs at least one item")
    return tuple(items)


def write_jsonl(path: Path, records: Iterable[BaseModel]) -> int:
    """Write one record a line, leaving out what has its default; returns how many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(
                json.dumps(record.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False) + "\n"
            )
            count += 1
    return count


def load_set(name: str, *, imported_dir: Path = IMPORTED_DIR) -> ItemSet:
    """Find a set: a bundled name, the name of an imported one, or a path to a file or folder.

    Args:
        name: The Langfuse spelling `query-rewriter-NAME` works as well.
        imported_dir: Where `rose-eval import` writes; a folder per set.

    Raises:
        DatasetError: No such set; lists the known ones. Or it cannot be read.
    """
    short = name.removeprefix(NAME_PREFIX)
    if short in BUNDLED:
        return ItemSet(short, read_items(BUNDLED_DIR / f"{short}.jsonl"))
    folder = imported_dir / short
    if folder.is_dir():
        return _from_folder(short, folder)
    path = Path(name)
    if path.is_dir():
        return _from_folder(path.name, path)
    if path.is_file():
        return ItemSet(path.stem, read_items(path))
    known = [*BUNDLED, *imported_names(imported_dir)]
    raise DatasetError(
        f"unknown dataset {name!r}; expected one of {known}, or a path to a .jsonl file or folder"
    )


def imported_names(imported_dir: Path = IMPORTED_DIR) -> list[str]:
    """Names of the sets that `rose-eval import` has written."""
    return sorted(path.parent.name for path in imported_dir.glob("*/items.jsonl"))


def content_hash(value: Any) -> str:
    """SHA-256 of a JSON value in canonical form, as hex."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def select(
    items: Sequence[Item], *, modes: Sequence[str] = (), langs: Sequence[str] = ()
) -> tuple[Item, ...]:
    """The items of the given modes and languages; nothing given selects all.

    Raises:
        DatasetError: An unknown mode or a language that no item has; lists the known ones.
    """
    for mode in modes:
        if mode not in MODES:
            raise DatasetError(f"unknown mode {mode!r}; expected one of {list(MODES)}")
    known = sorted({item.lang for item in items})
    for lang in langs:
        if lang not in known:
            raise DatasetError(f"no item in language {lang!r}; the set has {known}")
    return tuple(
        item for item in items if (not modes or item.mode in modes) and (not langs or item.lang in langs)
    )


def _from_folder(name: str, folder: Path) -> ItemSet:
    passages = folder / "passages.jsonl"
    return ItemSet(name, read_items(folder / "items.jsonl"), passages if passages.is_file() else None)


def _why(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or "unreadable") if isinstance(error, OSError) else "not UTF-8 text"
