"""The commands of `rose-eval`. Thin: each opens what it needs, calls one function and prints."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ixevaluation import public, seed
from ixevaluation.compare import TIE_WIDTH, compare
from ixevaluation.dataset import (
    BUNDLED,
    IMPORTED_DIR,
    Item,
    Split,
    imported_names,
    load_set,
    select,
    write_jsonl,
)
from ixevaluation.engines import DEFAULT_TENANT, ENGINES, EngineName, open_engine, open_judge_model
from ixevaluation.gate import Replay, Shares, read_turns, replay
from ixevaluation.html import render_html
from ixevaluation.records import Record, Run, find_runs, read_run
from ixevaluation.report import (
    CONTROL,
    as_json,
    build_report,
    counted,
    incomplete_line,
    number,
    print_report,
    render_comparison,
)
from ixevaluation.rewriter.arms import ALIASES, ARMS, find_arm
from ixevaluation.rewriter.judge import Judge, LabelJudge, SufficiencyJudge, VerdictCache
from ixevaluation.session import Options, refuse_unjudgeable, restrict, run_arm
from ixevaluation.stress import STRESS
from ixevaluation.thresholds import Decided, decide_items, decide_stress, sweep
from ixevaluation.upload import upload_items, upload_run
from ixinfra.config.loader import get_config
from ixinfra.config.settings import RagMode
from ixinfra.errors import ConfigError, DatasetError, IncompleteRunError
from ixinfra.langfuse_runs import open_client

Name = TypeVar("Name", bound=str)

RUNS_DIR = IMPORTED_DIR / "runs"
VERDICTS = IMPORTED_DIR / "verdicts.sqlite"

PIPE_WIDTH = 140  # columns of a table that goes to a file

app = typer.Typer(
    help="Measure query resolution: paired, item by item, with its own noise.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
err = Console(stderr=True, width=None if sys.stderr.isatty() else PIPE_WIDTH)
out = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Env = Annotated[str, typer.Option("--env", help="Which environment's TOML to read.")]


@app.command("query-rewriter")
def query_rewriter(
    dataset: Annotated[str, typer.Argument(help="Bundled or imported set, or a path.")] = "v1",
    arm: Annotated[list[str] | None, typer.Option("--arm", help="Arm to run; repeat for several.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Repetitions; below 2 there is no verdict.")] = 2,
    json_dir: Annotated[
        Path | None, typer.Option("--json", help="Folder for the records, one folder an arm below it.")
    ] = None,
    rag_mode: Annotated[
        RagMode | None,
        typer.Option("--rag-mode", help="Force a retrieval mode; naive stands in for a lite tenant."),
    ] = None,
    env: Env = "development",
    tenant: Annotated[str, typer.Option(help="Whose knowledge base and tier.")] = DEFAULT_TENANT,
    engine: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(ENGINES)}; default by the set.")
    ] = None,
    judge: Annotated[str, typer.Option(help="labels, or sufficiency (a chat model).")] = "labels",
    judge_model: Annotated[str | None, typer.Option(help="Chat model of the judge, provider:name.")] = None,
    judge_url: Annotated[str | None, typer.Option(help="Server that speaks the provider's protocol.")] = None,
    rejudge: Annotated[
        int, typer.Option(min=0, help="Judge this many items twice, to see the judge's noise.")
    ] = 0,
    mode: Annotated[
        list[str] | None, typer.Option("--mode", help="Only items of this mode; repeatable.")
    ] = None,
    lang: Annotated[
        list[str] | None, typer.Option("--lang", help="Only items in this language; repeatable.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Items at once; above 1, latencies mix.")] = 1,
    seed: Annotated[int, typer.Option(help="Written down with the run.")] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace what the folder holds.")] = False,
    langfuse: Annotated[bool, typer.Option("--langfuse", help="Record the run in Langfuse as well.")] = False,
) -> None:
    """Run arms over a set and compare them with `off` where it has been run.

    Exit status 0: every run is complete. 3: a run lost an item and has no score. 2: bad input.
    """
    arms = list(dict.fromkeys(find_arm(name)[0] for name in arm or ["production"]))
    item_set = load_set(dataset)
    if mode or lang:
        item_set = restrict(item_set, select(item_set.items, modes=mode or (), langs=lang or ()))
    chosen = _judge(judge, judge_model, judge_url)
    refuse_unjudgeable(item_set, chosen)
    settings = get_config(env)
    options = Options(
        runs=runs,
        env=env,
        seed=seed,
        concurrency=concurrency,
        rejudge=rejudge,
        fresh=fresh or json_dir is None,
    )
    if item_set.is_sealed:
        err.print(
            "[yellow]sealed holdout:[/] run it to confirm, never to choose a threshold, a rule or a prompt"
        )
    done: list[Run] = []
    folder = json_dir or RUNS_DIR / item_set.name / (rag_mode or "default")

    async def run_all() -> None:
        async with open_engine(
            item_set, settings, name=_engine(engine), rag_mode=rag_mode, tenant=tenant, announce=_say
        ) as opened:
            for name in arms:
                with _progress() as progress:
                    watch = _Watch(progress, f"{name} on {item_set.name}")
                    run = await run_arm(
                        item_set,
                        name,
                        folder / name,
                        engine=opened,
                        judge=chosen,
                        options=options,
                        started=watch.start,
                        on_record=watch.advance,
                    )
                done.append(run)

    try:
        asyncio.run(run_all())
    except KeyboardInterrupt:
        finished = [run.manifest.arm for run in done]
        raise IncompleteRunError(
            f"stopped; finished records are kept in {str(folder)!r} (complete: {', '.join(finished) or 'none'}); "
            "the same command takes the run up again"
        ) from None
    _show_runs(folder, [run.manifest.arm for run in done], as_json_output=json_dir is not None)
    if langfuse:
        client = open_client()
        for run in done:
            _say(f"recorded in Langfuse: {', '.join(upload_run(client, run, item_set))}")
        client.shutdown()
    for run in done:
        if not run.is_complete:
            raise IncompleteRunError(f"{run.manifest.arm}: {incomplete_line(run)}")


@app.command("compare")
def compare_runs(
    control: Annotated[Path, typer.Argument(help="Run directory of the control.")],
    treated: Annotated[Path, typer.Argument(help="Run directory of the arm.")],
    metric: Annotated[str | None, typer.Option(help="Default: the judge's first.")] = None,
    tie_width: Annotated[
        float, typer.Option(min=0, help="Largest movement that counts as a tie.")
    ] = TIE_WIDTH,
    json_output: AsJson = False,
) -> None:
    """Compare two runs, paired item by item."""
    before, after = read_run(control), read_run(treated)
    for run in (before, after):
        if not run.is_complete:
            raise IncompleteRunError(f"{run.manifest.arm}: {incomplete_line(run)}")
    result = compare(before, after, metric=metric, tie_width=tie_width)
    _print_json(as_json(result)) if json_output else out.print(render_comparison(result))


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder with run directories below it.")],
    html: Annotated[Path | None, typer.Option(help="Write one self-contained page.")] = None,
    control: Annotated[str, typer.Option(help="The arm that others are compared with.")] = CONTROL,
    metric: Annotated[str | None, typer.Option(help="Default: each judge's first.")] = None,
    json_output: AsJson = False,
) -> None:
    """Every run below a folder: tables, verdicts, and an HTML page with plots."""
    runs = find_runs(folder)
    sections = build_report(runs, control=find_arm(control)[0], metric=metric)
    if html:
        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(render_html(sections), encoding="utf-8")
        _say(f"written: {html}")
    _print_json(as_json(sections)) if json_output else print_report(sections, out)
    for run in runs:
        if not run.is_complete:
            raise IncompleteRunError(f"{run.manifest.arm}: {incomplete_line(run)}")


@app.command()
def thresholds(
    dataset: Annotated[
        str, typer.Argument(help=f"Set with expected decisions, a path, or {STRESS}.")
    ] = "reference",
    env: Env = "development",
    tenant: Annotated[str, typer.Option(help="Whose names.")] = DEFAULT_TENANT,
    json_output: AsJson = False,
) -> None:
    """What rules in front of a model decide alone, and how well, at each setting of `ask_below`."""
    decided = asyncio.run(_decide(dataset, env, tenant))
    if not decided:
        raise DatasetError(f"set {dataset!r} has no turn with an expected decision that reaches the check")
    points = sweep(decided)
    if json_output:
        _print_json([as_json(point) | {"at_best": point.at_best} for point in points])
        return
    table = Table("ask below", "calls saved", "right alone", "right with a perfect model", box=None)
    for point in points:
        table.add_row(
            f"{point.ask_below:.2f}",
            f"{point.alone} of {point.turns}",
            f"{point.right} of {point.alone}",
            f"{point.at_best} of {point.turns}",
        )
    out.print(table)


async def _decide(dataset: str, env: str, tenant: str) -> list[Decided]:
    if dataset == STRESS:
        return await decide_stress()
    item_set = load_set(dataset)
    async with open_engine(item_set, get_config(env), tenant=tenant, announce=_say) as opened:
        return await decide_items(item_set.items, opened.deps_for)


@app.command("replay-gate")
def replay_gate(
    turns: Annotated[
        Path, typer.Argument(help="JSON Lines: query, and history, messages or history_length.")
    ],
    json_output: AsJson = False,
) -> None:
    """What share of recorded traffic each path would see, and what other word limits would do."""
    result = replay(read_turns(turns))
    _print_json(_replay_json(result)) if json_output else _print_replay(result)


@app.command("import")
def import_benchmark(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(public.BENCHMARKS)}.")],
    source: Annotated[Path, typer.Option("--from", help="Folder with the benchmark's files.")],
    split: Annotated[str, typer.Option(help="dev, or holdout for confirming.")] = "dev",
    to: Annotated[Path, typer.Option(help="Where sets are kept.")] = IMPORTED_DIR,
    json_output: AsJson = False,
) -> None:
    """Read a public benchmark from a folder; it stays outside the repository, its licence with it."""
    done = public.import_benchmark(
        _one_of(name, public.BENCHMARKS, "benchmark"), source, split=_split(split), to=to
    )
    if json_output:
        _print_json(as_json(done) | {"folder": str(done.folder)})
        return
    out.print(f"{done.items} items and {done.passages} passages in {done.folder} ({done.licence})")
    out.print(
        f"run it: rose-eval query-rewriter {done.folder if to != IMPORTED_DIR else done.folder.name} --arm off"
    )


@app.command("seed")
def seed_set(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(seed.SEEDS)}.")],
    source: Annotated[Path, typer.Option("--from", help="Export of recorded turns, JSON Lines.")],
    to: Annotated[str, typer.Option("--to", help="langfuse, or a file.")],
    cap: Annotated[int, typer.Option(min=1, help="Most items of one site.")] = seed.CAP_PER_SITE,
    split: Annotated[str, typer.Option(help="dev or holdout half of the conversations.")] = "dev",
    json_output: AsJson = False,
) -> None:
    """Build a set from recorded turns: deduplicated, capped per site, personal data replaced."""
    kind = _one_of(name, seed.SEEDS, "set")
    seeded = seed.seed_items(source, kind, existing=_existing(), cap_per_site=cap, split=_split(split))
    if not seeded.items:
        raise DatasetError(f"{source}: no turn became an item ({counted(seeded.skipped)})")
    if to == "langfuse":
        client = open_client()
        upload_items(client, f"{kind}-seeded", seeded.items)
        client.shutdown()
    else:
        write_jsonl(Path(to), seeded.items)
    if json_output:
        _print_json({"items": len(seeded.items), "skipped": dict(seeded.skipped), "to": to})
        return
    out.print(f"{len(seeded.items)} items to {to}; left out: {counted(seeded.skipped)}")
    out.print(
        "Read them before sharing: rules find patterns, not everything personal. Then add `need` and `relevant`."
    )


@app.command("list")
def list_known(json_output: AsJson = False) -> None:
    """Arms, sets and modes that can be named."""
    arms = {name: (arm.__doc__ or "").strip().splitlines()[0] for name, arm in ARMS.items()}
    if json_output:
        _print_json({"arms": arms, "aliases": dict(ALIASES), "sets": [*BUNDLED, *imported_names()]})
        return
    for name, line in arms.items():
        out.print(f"[bold]{name:<16}[/] {line}")
    out.print(f"sets: {', '.join([*BUNDLED, *imported_names()])}")


def _judge(name: str, model: str | None, url: str | None) -> Judge:
    kind = _one_of(name, ("labels", "sufficiency"), "judge")
    if kind == "labels":
        return LabelJudge()
    if model is None:
        raise ConfigError(
            "--judge sufficiency needs --judge-model provider:name (and --judge-url for a server of your own)"
        )
    return SufficiencyJudge(open_judge_model(model, url), VerdictCache(VERDICTS))


def _engine(name: str | None) -> EngineName | None:
    return None if name is None else _one_of(name, ENGINES, "engine")


def _split(name: str) -> Split:
    known: tuple[Split, ...] = ("dev", "holdout")
    return _one_of(name, known, "split")


def _one_of(name: str, known: Sequence[Name], what: str) -> Name:
    for item in known:
        if item == name:
            return item
    raise ConfigError(f"unknown {what} {name!r}; expected one of {list(known)}")


def _existing() -> list[Item]:
    """Items of every set that can be found; a seeded set must not repeat them."""
    items: list[Item] = []
    for name in [*BUNDLED, *imported_names()]:
        try:
            items += load_set(name).items
        except DatasetError:
            continue
    return items


def _show_runs(folder: Path, names: list[str], *, as_json_output: bool) -> None:
    runs = [run for run in find_runs(folder) if run.manifest.arm in {*names, CONTROL}]
    sections = build_report(runs)
    if as_json_output:
        _print_json(as_json(sections))
    print_report(sections, err if as_json_output else out)
    _say(f"records: {folder}")


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=err, transient=True)


class _Watch:
    """One progress bar."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=None)

    def start(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)

    def advance(self, record: Record) -> None:
        self._progress.advance(self._task)
        if record.error:
            self._progress.console.print(
                f"{record.id} (run {record.run}): {record.error}", style="red", markup=False
            )


def _say(text: str) -> None:
    err.print(text, style="dim", markup=False)


def _print_json(value: Any) -> None:
    json.dump(value, sys.stdout, ensure_ascii=False, indent=1)
    sys.stdout.write("\n")


def _replay_json(result: Replay) -> Any:
    curve = [
        as_json(point) | {"precision": point.quality.precision, "recall": point.quality.recall}
        for point in result.curve
    ]
    quality = as_json(result.quality) | {
        "precision": result.quality.precision,
        "recall": result.quality.recall,
    }
    return as_json(result) | {"curve": curve, "quality": quality}


def _print_replay(result: Replay) -> None:
    for name, shares in {"all": result.shares, **result.by_lang}.items():
        out.print(f"[bold]{name:<4}[/] {_shares_line(shares)}")
    quality = result.quality
    if quality.labelled:
        out.print(
            f"gate on {quality.labelled} labelled follow-ups: {_ratios(quality.precision, quality.recall)}"
        )
    out.print("\nfired share of all turns by word limit   with the question-mark rule │ without")
    half = len(result.curve) // 2
    for ruled, unruled in zip(result.curve[:half], result.curve[half:], strict=True):
        labels = [
            f"  {_ratios(point.quality.precision, point.quality.recall)}" if quality.labelled else ""
            for point in (ruled, unruled)
        ]
        out.print(
            f"≤ {ruled.max_words:>2} words  {ruled.fired_share:6.1%}{labels[0]} │ {unruled.fired_share:6.1%}{labels[1]}"
        )


def _shares_line(shares: Shares) -> str:
    parts = (
        ("first turn", shares.first),
        ("short reply, gate fires", shares.short_reply),
        ("longer follow-up", shares.longer),
    )
    return f"{shares.turns} turns: " + ", ".join(f"{shares.share(count):.1%} {name}" for name, count in parts)


def _ratios(precision: float | None, recall: float | None) -> str:
    return f"precision {number(precision, 2) if precision is not None else '–'}, recall {number(recall, 2) if recall is not None else '–'}"
