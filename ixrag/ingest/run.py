"""One run of ingest: read what changed, make the corpus, build the index, forget what is gone."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Literal

from ixinfra.config.settings import LightRAGConfig, VectorDatabaseConfig
from ixinfra.embeddings import Embedder
from ixinfra.errors import DatasetError, KnowledgeBaseError, MissingExtraError
from ixrag.ingest.extractor import Extraction, RememberedAnswers
from ixrag.ingest.files import Found, find_files, is_inside
from ixrag.ingest.graph import GlossaryTerm, find_graph
from ixrag.ingest.readers import READER_VERSION, read_document
from ixrag.ingest.split import split
from ixrag.ingest.state import IngestState, KnownFile, open_state
from ixrag.ingest.vectors import RememberedVectors
from ixrag.lightrag.building import build_knowledge_base
from ixrag.lightrag.corpus import Corpus
from ixrag.lightrag.custom_graph import merge_relations
from ixrag.lightrag.extraction import Extractor
from ixrag.lightrag.manifest import GraphOrigin, Manifest, Origin, expect_usable, read_manifest
from ixrag.lightrag.records import open_records
from ixrag.lightrag.stores import FILES

CORPUS_VERSION = 1  # raise it when the same files give other passages or another graph
STATE_FILE = "ingest.sqlite3"

Stage = Literal["read", "extract", "embed"]
Told = Callable[[Stage, int, int], None]
"""Progress: the stage, how far it is, and how far it goes."""


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """What is ingested where.

    Attributes:
        name: Knowledge base.
        paths: Files and folders that are read now. What came from them earlier and is gone is removed.
        forget: Files and folders whose earlier content is taken out.
        config: Where files go, and the size of passages.
        database: Where the index is kept.
        with_graph: Whether a graph is wanted; without one only passages are searched.
        glossary: Names that are certain.
        extraction: Finds the graph by a model; by rules without one.
        rebuild: Build again, also with another embedding model.
        replace: Replace a knowledge base that was made elsewhere.
    """

    name: str
    paths: tuple[Path, ...]
    config: LightRAGConfig
    forget: tuple[Path, ...] = ()
    database: VectorDatabaseConfig = FILES
    with_graph: bool = True
    glossary: tuple[GlossaryTerm, ...] = ()
    extraction: Extraction | None = None
    rebuild: bool = False
    replace: bool = False

    @property
    def state_path(self) -> Path:
        """The record of files and vectors."""
        return self.config.working_dir / self.name / STATE_FILE


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that was skipped, and why; `kept` when its earlier content stays in the index."""

    source: str
    reason: str
    kept: bool = False


@dataclass(slots=True)
class Changes:
    """What became of the files."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unchanged: int = 0
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What one run did.

    Attributes:
        changes: What became of the files.
        ignored: Files of other kinds, by suffix.
        manifest: The index as it is now.
        built: Whether it was built in this run.
        embedded: Texts the embedding model was asked for.
        asked: Calls of the extraction model.
        failures: Its failed calls, by reason; those passages have no entities yet.
        elapsed_s: Wall time.
    """

    changes: Changes
    ignored: Counter[str]
    manifest: Manifest
    built: bool
    embedded: int
    asked: int
    failures: Counter[str]
    elapsed_s: float


async def ingest(plan: IngestPlan, embedder: Embedder, told: Told | None = None) -> IngestReport:
    """Bring a knowledge base up to date with its files. Nothing changed means no work.

    Interrupted at any moment, the old index stays valid, and the next run goes on with what was read and
    embedded before.

    Raises:
        DatasetError: A path does not exist, or there is nothing to index.
        KnowledgeBaseError: Another run is at work, or the index was made with another embedding model or
            from another record of files; the message names the option that goes on.
    """
    started = time.monotonic()
    found = await asyncio.to_thread(find_files, plan.paths)
    state = await open_state(plan.state_path)
    try:
        return await _ingest(plan, found, state, embedder, told or (lambda *_: None), started)
    finally:
        await asyncio.to_thread(state.close)


async def _ingest(
    plan: IngestPlan, found: Found, state: IngestState, embedder: Embedder, told: Told, started: float
) -> IngestReport:
    manifest = await _expect_ours(plan, state, embedder)
    changes = await _read_changes(plan, found, state, told)
    recipe = await asyncio.to_thread(_recipe, plan, state)
    vectors = RememberedVectors(embedder, state)
    answers: RememberedAnswers | None = None
    if plan.rebuild or manifest is None or state.fact("built") != f"{recipe} {manifest.workspace}":
        built = True
        files = await asyncio.to_thread(state.files)
        corpus = await asyncio.to_thread(compose, files, plan)
        if not corpus.passages:
            raise DatasetError(_nothing(plan, changes))
        texts = len(corpus.passages) + len(corpus.entities) + len(merge_relations(corpus.relations))
        vectors.told = _counter(told, "embed", texts)
        if plan.extraction and plan.with_graph:
            answers = RememberedAnswers(
                plan.extraction, state, _counter(told, "extract", len(corpus.passages))
            )
        manifest = await _build(plan, corpus, state, vectors, answers, len(files))
        unanswered = answers.failures.total() if answers else 0
        state.set_fact("unanswered", str(unanswered or ""))
        state.set_fact("built", "" if unanswered else f"{recipe} {manifest.workspace}")
        if vectors.used:
            await asyncio.to_thread(state.keep_vectors, embedder.model_id, vectors.used)
    else:
        built = False
    return IngestReport(
        changes=changes,
        ignored=found.ignored,
        manifest=manifest,
        built=built,
        embedded=vectors.embedded,
        asked=answers.asked if answers else 0,
        failures=answers.failures if answers else Counter(),
        elapsed_s=time.monotonic() - started,
    )


async def _expect_ours(plan: IngestPlan, state: IngestState, embedder: Embedder) -> Manifest | None:
    """The index to go on from, if it may be replaced by one from this record of files."""
    async with open_records(plan.name, plan.config, plan.database) as records:
        manifest = await read_manifest(records)
        if manifest is None:
            return None
        if manifest.origin.ingest_id != state.id and not plan.replace:
            raise KnowledgeBaseError(
                f"the knowledge base {plan.name!r} was not made from the files this machine remembers; "
                "--replace makes it from the given paths alone"
            )
        return manifest if plan.rebuild else expect_usable(manifest, records.where, embedder)


async def _read_changes(plan: IngestPlan, found: Found, state: IngestState, told: Told) -> Changes:
    known = await asyncio.to_thread(state.digests)
    changes = Changes()
    for done, file in enumerate(found.files):
        told("read", done, len(found.files))
        source, digest = known.get(file.path, (file.source, ""))
        await asyncio.to_thread(_read_file, file.path, source, digest, state, changes)
    told("read", len(found.files), len(found.files))
    present = {file.path for file in found.files}
    forget = [path.expanduser().resolve() for path in plan.forget]
    gone = [
        path
        for path in known
        if any(is_inside(path, root) for root in forget)
        or (path not in present and any(is_inside(path, root) for root in found.roots))
    ]
    changes.removed += [known[path][0] for path in gone]
    await asyncio.to_thread(state.forget_files, gone)
    return changes


def _read_file(path: Path, source: str, known: str, state: IngestState, changes: Changes) -> None:
    try:
        data = path.read_bytes()
        digest = f"{READER_VERSION}-{sha256(data).hexdigest()[:32]}"
        if digest == known:
            changes.unchanged += 1
            return
        document = read_document(data, path.name)
    except (DatasetError, MissingExtraError, OSError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        changes.problems.append(Problem(source, reason, kept=bool(known)))
        return
    state.put_file(KnownFile(path, source, digest, document))
    (changes.changed if known else changes.added).append(source)


def compose(files: Sequence[KnownFile], plan: IngestPlan) -> Corpus:
    """The corpus of some files: their passages, and a graph by rules where one is wanted and no model makes it."""
    names = Counter(file.source for file in files)
    cuts = [
        cut
        for file in files
        for cut in split(
            file.document,
            # Folders of the same name may hold files of the same name: those go by their whole path.
            file.source if names[file.source] == 1 else file.path.as_posix(),
            max_tokens=plan.config.chunk_token_size,
            overlap_tokens=plan.config.chunk_overlap_token_size,
        )
    ]
    passages = tuple(cut.passage for cut in cuts)
    if not plan.with_graph or plan.extraction:
        return Corpus(passages)
    entities, relations = find_graph(cuts, plan.glossary)
    return Corpus(passages, entities, relations)


async def _build(
    plan: IngestPlan,
    corpus: Corpus,
    state: IngestState,
    vectors: RememberedVectors,
    answers: RememberedAnswers | None,
    documents: int,
) -> Manifest:
    extractor = None
    if answers and plan.extraction:
        extractor = Extractor(answers, plan.extraction.model_id, answers.expect_answers)
    return await build_knowledge_base(
        corpus,
        plan.name,
        config=plan.config,
        embedder=vectors,
        database=plan.database,
        extractor=extractor,
        origin=Origin(graph=_graph(plan), documents=documents, ingest_id=state.id),
        rebuild=plan.rebuild or bool(state.fact("unanswered")),
    )


def _graph(plan: IngestPlan) -> GraphOrigin:
    if not plan.with_graph:
        return "none"
    return "model" if plan.extraction else "rules"


def _counter(told: Told, stage: Stage, total: int) -> Callable[[int], None]:
    """Counts what is done; what LightRAG does beyond the plan moves the goal along."""
    done = 0

    def advance(more: int) -> None:
        nonlocal done
        done += more
        told(stage, done, max(done, total))

    return advance


def _recipe(plan: IngestPlan, state: IngestState) -> str:
    """Changes with everything the corpus is made of."""
    parts = [
        CORPUS_VERSION,
        sorted((str(path), *about) for path, about in state.digests().items()),
        plan.config.chunk_token_size,
        plan.config.chunk_overlap_token_size,
        _graph(plan),
        plan.extraction.model_id if plan.extraction else "",
        [(term.name, term.aliases, term.kind) for term in plan.glossary],
    ]
    return sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _nothing(plan: IngestPlan, changes: Changes) -> str:
    if changes.problems:
        first = changes.problems[0]
        return f"nothing could be read; {first.source}: {first.reason}"
    if changes.removed:
        return f"nothing would be left in {plan.name!r}; the index stays as it was"
    return f"no file of a known kind in {', '.join(map(str, plan.paths)) or 'the given paths'}"
