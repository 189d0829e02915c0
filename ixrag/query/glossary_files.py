"""Glossaries that people keep in files: one TOML or CSV file a tenant, checked when it is read.

TOML::

    [options]                       # all optional
    ignore_accents = true
    plurals_of = ["en", "fr"]

    [terms]                         # one way: the term finds its synonyms
    invoice = ["bill", "statement"]

    [groups]                        # both ways: each word finds all the others
    rag = ["RAG", "retrieval augmented generation"]

CSV: a header `term,synonym`, then one pair a line.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import permutations
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError

from ixinfra.errors import ConfigError
from ixrag.query.glossary import InMemoryGlossary, TenantGlossary
from ixrag.words import folded

SHARED = "_shared"  # stem of the file for tenants without one of their own
Text = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]


class Pair(NamedTuple):
    """A term, one of its synonyms, and where the file says so."""

    term: str
    synonym: str
    place: str


class GlossaryOptions(BaseModel):
    """How terms are found; see `InMemoryGlossary`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ignore_accents: StrictBool = True
    plurals_of: tuple[str, ...] = ()


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    options: GlossaryOptions = GlossaryOptions()
    terms: dict[Text, list[Text]] = Field(default_factory=dict)
    groups: dict[Text, Annotated[list[Text], Field(min_length=2)]] = Field(default_factory=dict)


def load_glossary(path: Path) -> InMemoryGlossary:
    """The glossary in a `.toml` or `.csv` file.

    Raises:
        ConfigError: The file cannot be read or understood, says something twice, or leads from a term
            through its synonyms back to the term. The message names the file and the place.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not readable as UTF-8 text: {error}") from error
    if path.suffix == ".toml":
        pairs, groups, options = _from_toml(path, text)
    elif path.suffix == ".csv":
        pairs, groups, options = _from_csv(path, text), {}, GlossaryOptions()
    else:
        raise ConfigError(f"{path}: a glossary is a .toml or a .csv file")
    _refuse_duplicates(path, pairs, groups)
    _refuse_cycles(path, pairs)
    try:
        return InMemoryGlossary(
            _merged(pairs, groups), ignore_accents=options.ignore_accents, plurals_of=options.plurals_of
        )
    except ValueError as error:
        raise ConfigError(f"{path}: options.plurals_of: {error}") from error


def read_names(path: Path) -> list[tuple[str, tuple[str, ...]]]:
    """The words of a glossary as names with their other names: each term, and the first word of each group.

    Raises:
        ConfigError: As for `load_glossary`.
    """
    load_glossary(path)
    text = path.read_text(encoding="utf-8-sig")
    pairs, groups = _from_toml(path, text)[:2] if path.suffix == ".toml" else (_from_csv(path, text), {})
    names = {words[0]: tuple(words[1:]) for words in groups.values()}
    for term, synonym, _ in pairs:
        names[term] = (*names.get(term, ()), synonym)
    return [*names.items()]


def load_tenant_glossaries(folder: Path) -> TenantGlossary:
    """The glossaries in a folder: `<tenant id>.toml` or `<tenant id>.csv`; `_shared` is for the others.

    Raises:
        ConfigError: There is no such folder, a tenant has two files, or a file is wrong.
    """
    glossaries = {tenant_id: load_glossary(path) for tenant_id, path in _files(folder).items()}
    shared = glossaries.pop(SHARED, None)
    return TenantGlossary(glossaries, shared)


def load_glossary_of(tenant_id: str, folder: Path) -> InMemoryGlossary:
    """One tenant's glossary from such a folder, or the shared one.

    Raises:
        ConfigError: There is no such folder, neither file, or the tenant's file is wrong.
    """
    files = _files(folder)
    path = files.get(tenant_id) or files.get(SHARED)
    if path is None:
        raise ConfigError(
            f"{folder}: no glossary for tenant {tenant_id!r}; add {tenant_id}.toml or {SHARED}.toml"
        )
    return load_glossary(path)


def _files(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder of glossaries")
    paths: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix not in (".toml", ".csv"):
            continue
        if path.stem in paths:
            raise ConfigError(f"{path}: tenant {path.stem!r} has {paths[path.stem].name!r} already; keep one")
        paths[path.stem] = path
    return paths


def _from_toml(path: Path, text: str) -> tuple[list[Pair], dict[str, list[str]], GlossaryOptions]:
    try:
        file = _File.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{path}: {place}: {first['msg']}") from error
    pairs = [
        Pair(term, synonym, f"terms.{term}") for term, synonyms in file.terms.items() for synonym in synonyms
    ]
    return pairs, file.groups, file.options


def _from_csv(path: Path, text: str) -> list[Pair]:
    rows = csv.reader(text.splitlines(), strict=True)
    pairs: list[Pair] = []
    try:
        header = [cell.strip().lower() for cell in next(rows, [])]
        if header != ["term", "synonym"]:
            raise ConfigError(f"{path}: line 1: expected the header 'term,synonym', got {','.join(header)!r}")
        for row in rows:
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if len(cells) != 2 or not all(cells):
                raise ConfigError(
                    f"{path}: line {rows.line_num}: expected a term and one synonym, got {row!r}"
                )
            pairs.append(Pair(cells[0], cells[1], f"line {rows.line_num}"))
    except csv.Error as error:
        raise ConfigError(f"{path}: line {rows.line_num}: {error}") from error
    return pairs


def _refuse_duplicates(path: Path, pairs: Iterable[Pair], groups: Mapping[str, list[str]]) -> None:
    seen: dict[tuple[str, str], str] = {}
    spellings: dict[str, tuple[str, str]] = {}
    for pair in [*pairs, *_group_pairs(groups)]:
        term, synonym = _key(pair.term), _key(pair.synonym)
        if not folded(pair.term):
            raise ConfigError(f"{path}: {pair.place}: {pair.term!r} holds no word to find")
        if term == synonym:
            raise ConfigError(f"{path}: {pair.place}: {pair.term!r} is given as its own synonym")
        if (term, synonym) in seen:
            raise ConfigError(
                f"{path}: {pair.place}: {pair.term!r} has the synonym {pair.synonym!r} already, "
                f"from {seen[term, synonym]}; remove one"
            )
        spelling, place = spellings.setdefault(term, (pair.term, pair.place))
        if spelling != pair.term:
            raise ConfigError(
                f"{path}: {pair.place}: {pair.term!r} and {spelling!r} ({place}) are the same term; use one spelling"
            )
        seen[term, synonym] = pair.place


def _refuse_cycles(path: Path, pairs: Sequence[Pair]) -> None:
    onward: dict[str, list[str]] = {}
    for pair in pairs:
        onward.setdefault(_key(pair.term), []).append(_key(pair.synonym))
    try:
        TopologicalSorter(onward).prepare()
    except CycleError as error:
        way = list(reversed(error.args[1]))
        place = next(pair.place for pair in pairs if _key(pair.term) == way[0])
        raise ConfigError(
            f"{path}: {place}: synonyms lead back to their term: {' -> '.join(way)}; "
            f"words that find each other belong in one list under [groups] of a .toml file"
        ) from error


def _key(text: str) -> str:
    return folded(text) or text


def _group_pairs(groups: Mapping[str, list[str]]) -> Iterator[Pair]:
    for name, members in groups.items():
        for member, other in permutations(members, 2):
            yield Pair(member, other, f"groups.{name}")


def _merged(pairs: Iterable[Pair], groups: Mapping[str, list[str]]) -> dict[str, list[str]]:
    merged: dict[str, list[str]] = {}
    for pair in [*pairs, *_group_pairs(groups)]:
        merged.setdefault(pair.term, []).append(pair.synonym)
    return merged
