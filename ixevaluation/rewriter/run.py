"""Run one arm over a set: each item through the shipping `retrieve`, then through the judge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.documents import Document

from ixchat.nodes.knowledge_retriever import retrieve
from ixchat.nodes.record import Retrieval
from ixevaluation.dataset import Item, content_hash
from ixevaluation.records import FoundPassage, ItemRef, Record
from ixevaluation.rewriter.arms import Arm, ArmDeps
from ixevaluation.rewriter.hygiene import find_defects
from ixevaluation.rewriter.judge import Judge, passage_id
from ixinfra.errors import IxError
from ixinfra.tracing_tree import RecordingTracer, SpanRecord

ITEM_DEADLINE_S = 300.0  # an item that hangs is an error of that item, not of the run


@dataclass(frozen=True, slots=True)
class Bench:
    """What items are run on.

    Attributes:
        arm: Function from a turn to a plan.
        deps_for: The live objects of an item: its tenant, or the index of its domain.
        judge: Scores what was found.
        rejudge: How many items, in order, are judged twice on the same passages.
    """

    arm: Arm
    deps_for: Callable[[Item], ArmDeps]
    judge: Judge
    rejudge: int = 0


@dataclass(frozen=True, slots=True)
class Task:
    """One item in one repetition."""

    item: Item
    run: int
    rejudge: bool = False


def refs(items: Sequence[Item], judge: Judge) -> tuple[ItemRef, ...]:
    """What a manifest keeps of each item."""
    return tuple(
        ItemRef(
            id=item.id,
            lang=item.lang,
            mode=item.mode,
            cluster=item.cluster,
            query=item.query,
            judged=judge.can_judge(item),
            expected_decision=item.expected.decision if item.expected else None,
            expected_name=item.expected.name if item.expected else None,
        )
        for item in items
    )


def plan_tasks(
    items: Sequence[Item], runs: int, *, rejudge: int = 0, done: Sequence[Record] = ()
) -> list[Task]:
    """What is left to do, repetition by repetition, so that a stopped run holds whole repetitions first.

    Args:
        items: The set.
        runs: Repetitions.
        rejudge: Items judged twice, counted from the first, in the first repetition.
        done: Records that exist; those with an error are done again.
    """
    whole = {(record.id, record.run) for record in done if record.error is None}
    return [
        Task(item, number, number == 1 and position < rejudge)
        for number in range(1, runs + 1)
        for position, item in enumerate(items)
        if (item.id, number) not in whole
    ]


async def run_tasks(tasks: Sequence[Task], bench: Bench, *, concurrency: int = 1) -> AsyncIterator[Record]:
    """Records as they are finished. An item that fails gives a record with an error, never an exception.

    Args:
        tasks: What to run; started in this order.
        bench: What it is run on.
        concurrency: Items at once. More than one makes latencies wait for each other.
    """
    queue = iter(tasks)
    running: set[asyncio.Task[Record]] = set()
    try:
        while True:
            while len(running) < concurrency and (task := next(queue, None)) is not None:
                running.add(asyncio.create_task(run_task(task, bench)))
            if not running:
                return
            finished, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for one in finished:
                yield one.result()
    finally:
        for one in running:
            one.cancel()
        if running:
            await asyncio.wait(running, timeout=1.0)


async def run_task(task: Task, bench: Bench) -> Record:
    """Run and judge one item."""
    try:
        async with asyncio.timeout(ITEM_DEADLINE_S):
            retrieval, calls = await _retrieve(task.item, bench)
            record = _describe(task, retrieval, calls)
            if record.error is None and bench.judge.can_judge(task.item):
                record = await _judge(task, record, retrieval.documents, bench.judge)
            return record
    except Exception as error:  # one item must not end the run; the record says what was lost
        return Record(id=task.item.id, run=task.run, message=task.item.query, error=_reason(error))


async def _retrieve(item: Item, bench: Bench) -> tuple[Retrieval, Sequence[SpanRecord]]:
    deps = bench.deps_for(item)
    tracer = RecordingTracer()
    deps = replace(deps, tracer=tracer)
    turn = replace(item.turn(), tenant_id=deps.tenant_id)
    with tracer.turn(tenant_id=deps.tenant_id):
        retrieval = await retrieve(turn, deps, bench.arm(turn, deps))
    return retrieval, [
        span for record in tracer.take() for root in record.spans for span in _generations(root)
    ]


def _generations(span: SpanRecord) -> list[SpanRecord]:
    below = [found for child in span.children for found in _generations(child)]
    return [span, *below] if span.kind == "generation" else below


def _describe(task: Task, retrieval: Retrieval, calls: Sequence[SpanRecord]) -> Record:
    """The record without scores."""
    facts, used = retrieval.record, retrieval.used
    query = used.query if used else retrieval.resolution.query
    kwargs = dict(used.retriever_kwargs) if used else {}
    beside = _searched_beside(facts["channels"])
    return Record(
        id=task.item.id,
        run=task.run,
        error=None if used else f"search failed: {', '.join(retrieval.problems) or 'no documents'}",
        message=task.item.query,
        query=query,
        ll_keywords=tuple(kwargs.get("ll_keywords", ())),
        hl_keywords=tuple(kwargs.get("hl_keywords", ())),
        channels=facts["channels"],
        changed=facts["changed"] or bool(beside),
        path=retrieval.path,
        decision=retrieval.resolution.decision,
        fallback=retrieval.resolution.fallback,
        entity=facts["entity"],
        input_sha=content_hash([query, kwargs, retrieval.rag_mode, beside]),
        passages_sha=content_hash([document.page_content for document in retrieval.documents]),
        found=tuple(
            FoundPassage(id=passage_id(document), kind=str(document.metadata.get("kind", "chunk")))
            for document in retrieval.documents
        ),
        hygiene=find_defects(task.item.turn(), query),
        total_ms=round(retrieval.total_ms, 2),
        check_ms=round(retrieval.check.ms, 2) if retrieval.check else 0.0,
        asked=facts["asked"],
        agrees=facts["agrees"],
        model_calls=len(calls),
        tokens=sum(call.usage.get("total", 0) for call in calls),
        problems=tuple(retrieval.problems),
    )


def _searched_beside(channels: Mapping[str, Any]) -> list[str]:
    """Texts that an arm's own retriever searched beside the query; they are retrieval input too."""
    facts = channels["facts"]
    forms = (facts.get("understanding") or {}).get("forms") or []
    return sorted([*(str(form["text"]) for form in forms), *facts.get("carried", ())])


async def _judge(task: Task, record: Record, documents: Sequence[Document], judge: Judge) -> Record:
    verdict = await judge.score(task.item, documents)
    rejudged = None
    if task.rejudge:
        again = await judge.score(task.item, documents, attempt=2)
        rejudged = again.scores[judge.metrics[0]]
    return record.model_copy(
        update={
            "scores": dict(verdict.scores),
            "comment": verdict.comment,
            "judge_sha": verdict.read_sha,
            "rejudged": rejudged,
        }
    )


def _reason(error: Exception) -> str:
    """Our own messages hold no visitor text; of others the class name is all that is kept."""
    return f"{type(error).__name__}: {error}" if isinstance(error, IxError) else type(error).__name__
