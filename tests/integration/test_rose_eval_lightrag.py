"""`rose-eval` on real LightRAG and on the hybrid engine, with the embedded model; and with a judge over the wire."""

from __future__ import annotations

from pathlib import Path

import pytest
from openai_server import answer, openai_server, status

from ixevaluation.compare import compare
from ixevaluation.dataset import ItemSet, load_set
from ixevaluation.engines import open_engine, open_judge_model
from ixevaluation.records import Run
from ixevaluation.rewriter.engine_arms import ENGINE_ARMS
from ixevaluation.rewriter.judge import Judge, LabelJudge, SufficiencyJudge, VerdictCache
from ixevaluation.session import Options, restrict, run_arm
from ixinfra.config.loader import get_config
from ixinfra.config.settings import RagMode, Settings

ARMS = ("off", "production")


@pytest.fixture
def settings() -> Settings:
    """The development environment; its knowledge base is built once per machine."""
    return get_config("development", Path(__file__).parents[2] / "config")


def few(name: str, count: int) -> ItemSet:
    item_set = load_set(name)
    return restrict(item_set, [item for item in item_set.items if item.is_labelled][:count])


async def run_arms(
    folder: Path, item_set: ItemSet, settings: Settings, *, mode: RagMode, judge: Judge, runs: int = 2
) -> list[Run]:
    done = []
    async with open_engine(item_set, settings, rag_mode=mode) as engine:
        for arm in ARMS:
            done.append(  # noqa: PERF401 - one after the other on purpose
                await run_arm(
                    item_set, arm, folder / arm, engine=engine, judge=judge, options=Options(runs=runs)
                )
            )
    return done


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["naive", "mix"])
async def test_a_repeated_run_gives_the_same_scores(
    tmp_path: Path, settings: Settings, mode: RagMode
) -> None:
    item_set = few("elliptic", 6)
    first = await run_arms(tmp_path / "1", item_set, settings, mode=mode, judge=LabelJudge())
    again = await run_arms(tmp_path / "2", item_set, settings, mode=mode, judge=LabelJudge())
    for before, after in zip(first, again, strict=True):
        assert before.is_complete
        assert before.scores("ndcg@10") == after.scores("ndcg@10")
    result = compare(*first)
    assert result.noise.repeated is not None
    assert result.noise.repeated.moved == 0
    assert result.fired is not None
    paths = {record.path for record in first[1].records if record.changed}
    assert paths == {"intent" if mode == "naive" else "keywords"}


@pytest.mark.slow
async def test_a_judge_over_the_wire_and_one_failing_item(tmp_path: Path, settings: Settings) -> None:
    item_set = few("reference", 3)
    replies = [answer("REASON: partly\nSCORE: 5"), status(400), *[answer("REASON: fine\nSCORE: 8")] * 20]
    async with openai_server(*replies) as server:
        model = open_judge_model("openai:judge-1", server.openai_url)
        judge = SufficiencyJudge(model, VerdictCache(tmp_path / "verdicts.sqlite"))
        off, _ = await run_arms(tmp_path / "out", item_set, settings, mode="naive", judge=judge)
        assert not off.is_complete
        assert len(off.missing) == 1
        assert item_set.items[1].id in off.missing[0]
        off, production = await run_arms(tmp_path / "out", item_set, settings, mode="naive", judge=judge)
        assert off.is_complete
        asked = len(server.requests)
        await run_arms(tmp_path / "again", item_set, settings, mode="naive", judge=judge)
        assert len(server.requests) == asked  # every verdict was remembered
    assert off.manifest.models["judge"] == "openai:judge-1"
    assert compare(off, production).effect.control > 0


@pytest.mark.slow
async def test_the_arms_of_the_hybrid_engine_run_on_the_tenant_of_the_sample(
    tmp_path: Path, settings: Settings
) -> None:
    patient = settings.engine.model_copy(update={"deadline_s": 60.0, "patience_s": 60.0})
    item_set, judge = few("elliptic", 3), LabelJudge()
    on_time = settings.model_copy(update={"engine": patient})
    async with open_engine(item_set, on_time, tenant="hybrid") as engine:
        assert (engine.name, engine.rag_mode) == ("hybrid", "naive")
        for arm in ("off", "production", *ENGINE_ARMS):
            run = await run_arm(
                item_set, arm, tmp_path / arm, engine=engine, judge=judge, options=Options(runs=2)
            )
            assert run.is_complete
            first, second = (
                [record.scores for record in run.records if record.run == number] for number in (1, 2)
            )
            assert first == second
