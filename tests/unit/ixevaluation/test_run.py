import asyncio
from typing import Any

from fakes import ScriptedModel
from langchain_core.documents import Document

from ixchat.nodes.knowledge_retriever import Plan
from ixchat.utils.resolution import KeywordQuery, Resolution, Turn
from ixevaluation.compare import find_leak
from ixevaluation.records import Record, Run
from ixevaluation.rewriter.arms import ARMS
from ixevaluation.rewriter.judge import LabelJudge, SufficiencyJudge, Verdict
from ixevaluation.rewriter.run import Bench, Task, plan_tasks, run_task, run_tasks
from ixinfra.errors import RetrievalError
from ixrag.documents import current_report


async def words(turn: Turn) -> Resolution:
    return KeywordQuery(turn.query, "resolve", ll_keywords=("hotel",), hl_keywords=("price",))


async def collect(tasks: Any, bench: Bench, **options: Any) -> list[Record]:
    return [record async for record in run_tasks(tasks, bench, **options)]


async def test_a_record_tells_what_was_searched_and_found(item: Any, retriever: Any, arm_deps: Any) -> None:
    given = arm_deps(retriever({"reply a": ["bad", "good"]}), keyword_resolver=words)
    record = await run_task(Task(item(), 1), Bench(ARMS["keywords-gated"], lambda _: given, LabelJudge()))
    assert record.error is None
    assert (record.query, record.ll_keywords, record.changed) == ("reply a", ("hotel",), True)
    assert [p.id for p in record.found] == ["bad", "good"]
    assert record.scores["mrr"] == 0.5
    assert (record.path, record.decision, record.model_calls) == ("keywords", "resolve", 0)


async def test_model_calls_and_tokens_of_a_turn_are_counted(item: Any, retriever: Any, arm_deps: Any) -> None:
    given = arm_deps(retriever({}, ["good"]), model=ScriptedModel(script=["a clean question"]))
    record = await run_task(Task(item(), 1), Bench(ARMS["candidate"], lambda _: given, LabelJudge()))
    assert (record.model_calls, record.tokens, record.query) == (1, 15, "a clean question")


async def test_an_engine_that_fails_is_an_error_of_that_item_alone(
    item: Any, retriever: Any, arm_deps: Any
) -> None:
    broken = RetrievalError("LightRAG did not answer", reason="timeout")
    given = arm_deps(retriever({"reply b": broken}, ["good"]))
    tasks = plan_tasks([item("a"), item("b"), item("c")], 1)
    records = await collect(tasks, Bench(ARMS["off"], lambda _: given, LabelJudge()))
    assert [record.error is None for record in records] == [True, False, True]
    assert records[1].scores == {}
    assert "timeout" in str(records[1].error)


async def test_a_judge_that_fails_on_one_item_loses_that_item(
    item: Any, retriever: Any, arm_deps: Any
) -> None:
    model = ScriptedModel(script=["SCORE: 5", RuntimeError("secret visitor text"), "SCORE: 7"])
    given = arm_deps(retriever({}, ["good"]))
    tasks = plan_tasks([item("a"), item("b"), item("c")], 1)
    records = await collect(tasks, Bench(ARMS["off"], lambda _: given, SufficiencyJudge(model)))
    assert [record.error is None for record in records] == [True, False, True]
    assert "secret" not in str(records[1].error)
    assert records[1].error is not None
    assert records[1].error.startswith("ModelError")


async def test_an_unexpected_exception_is_recorded_by_its_class(
    item: Any, arm_deps: Any, retriever: Any
) -> None:
    class Broken(LabelJudge):
        async def score(self, *_: Any, **__: Any) -> Verdict:
            raise ZeroDivisionError("with visitor text")

    given = arm_deps(retriever({}, ["good"]))
    record = await run_task(Task(item(), 2), Bench(ARMS["off"], lambda _: given, Broken()))
    assert (record.error, record.run) == ("ZeroDivisionError", 2)


async def test_items_without_a_need_are_run_but_not_judged(item: Any, retriever: Any, arm_deps: Any) -> None:
    given = arm_deps(retriever({}, ["good"]))
    record = await run_task(Task(item(mode="greeting"), 1), Bench(ARMS["off"], lambda _: given, LabelJudge()))
    assert (record.error, record.scores) == (None, {})


def test_what_is_done_is_not_done_again_and_errors_are(item: Any) -> None:
    done = [Record(id="a", run=1), Record(id="b", run=1, error="timeout")]
    left = plan_tasks([item("a"), item("b")], 2, done=done)
    assert [(task.item.id, task.run) for task in left] == [("b", 1), ("a", 2), ("b", 2)]


def test_rejudging_takes_the_first_items_of_the_first_repetition(item: Any) -> None:
    tasks = plan_tasks([item("a"), item("b")], 2, rejudge=1)
    assert [task.rejudge for task in tasks] == [True, False, False, False]


async def test_a_second_opinion_is_asked_for_on_equal_passages(
    item: Any, retriever: Any, arm_deps: Any
) -> None:
    model = ScriptedModel(script=["SCORE: 5", "SCORE: 7"])
    given = arm_deps(retriever({}, ["good"]))
    record = await run_task(
        Task(item(), 1, True), Bench(ARMS["off"], lambda _: given, SufficiencyJudge(model))
    )
    assert (record.scores, record.rejudged) == ({"sufficiency": 0.5}, 0.7)
    assert model.asked[0] == model.asked[1]


async def test_no_more_items_run_at_once_than_asked(item: Any, arm_deps: Any) -> None:
    running, most = 0, 0

    class Slow:
        rag_mode = "mix"

        async def ainvoke(self, _input: str, **_: Any) -> list[Document]:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.002)
            running -= 1
            return []

    tasks = plan_tasks([item(str(n)) for n in range(9)], 1)
    records = await collect(
        tasks, Bench(ARMS["off"], lambda _: arm_deps(Slow()), LabelJudge()), concurrency=3
    )
    assert len(records) == 9
    assert most == 3


async def test_closing_the_stream_leaves_no_task_behind(item: Any, arm_deps: Any) -> None:
    class Endless:
        rag_mode = "mix"

        async def ainvoke(self, input: str, **_: Any) -> list[Document]:
            if input != "reply 0":
                await asyncio.sleep(3600)
            return []

    before = asyncio.all_tasks()
    tasks = plan_tasks([item(str(n)) for n in range(3)], 1)
    stream = run_tasks(tasks, Bench(ARMS["off"], lambda _: arm_deps(Endless()), LabelJudge()), concurrency=2)
    await anext(stream)
    await stream.aclose()
    assert asyncio.all_tasks() == before


class LeakyJudge(SufficiencyJudge):
    """What must not happen: the arm's keywords reach the prompt, here through the passages' metadata."""

    async def score(self, item: Any, passages: Any, *, attempt: int = 1) -> Verdict:
        shown = [Document(f"{p.page_content} {p.metadata.get('searched_with', '')}") for p in passages]
        return await super().score(item, shown, attempt=attempt)


class Annotating:
    """Equal passages for every arm, and what was searched in their metadata."""

    rag_mode = "mix"

    async def ainvoke(self, _input: str, **kwargs: Any) -> list[Document]:
        return [Document("Plan A.", metadata={"passage_id": "good", "searched_with": str(kwargs or "")})]


async def both_arms(item: Any, run: Any, arm_deps: Any, judge: Any) -> tuple[Run, Run, list[Any]]:
    model = ScriptedModel(script=["SCORE: 5"])
    runs = []
    for arm in ("off", "keywords"):
        given = arm_deps(Annotating(), keyword_resolver=words)
        record = await run_task(Task(item(), 1), Bench(ARMS[arm], lambda _, d=given: d, judge(model)))
        base = run(arm, {"a": [0.5]}, judge="sufficiency", metrics=("sufficiency",))
        runs.append(Run(base.manifest, (record,)))
    return runs[0], runs[1], model.asked


async def test_the_judge_reads_the_same_bytes_for_every_arm(item: Any, run: Any, arm_deps: Any) -> None:
    control, treated, asked = await both_arms(item, run, arm_deps, SufficiencyJudge)
    assert treated.records[0].ll_keywords == ("hotel",)
    assert len(asked) == 2
    assert asked[0] == asked[1]
    assert find_leak(control, treated) is None


async def test_a_planted_leak_is_found(item: Any, run: Any, arm_deps: Any) -> None:
    control, treated, asked = await both_arms(item, run, arm_deps, LeakyJudge)
    assert asked[0] != asked[1]
    assert find_leak(control, treated) == "a"


async def test_texts_searched_beside_the_query_are_retrieval_input_too(item: Any, arm_deps: Any) -> None:
    class Forms:
        rag_mode = "mix"

        async def ainvoke(self, _input: str, **_: Any) -> list[Document]:
            current_report().facts["understanding"] = {"forms": [{"text": "another wording"}]}
            return [Document("x", metadata={"passage_id": "good"})]

    def arm(_turn: Turn, deps: Any) -> Plan:
        return Plan(retriever=Forms())

    given = arm_deps(Annotating())
    plain = await run_task(Task(item(), 1), Bench(ARMS["off"], lambda _: given, LabelJudge()))
    forms = await run_task(Task(item(), 1), Bench(arm, lambda _: given, LabelJudge()))
    assert plain.query == forms.query
    assert plain.input_sha != forms.input_sha
    assert (plain.changed, forms.changed) == (False, True)
