"""What the hybrid engine finds, and how fast.

python -m benchmarks.engine quality --data FOLDER --work FOLDER     # public development halves
python -m benchmarks.engine latency --work FOLDER --passages 10000  # synthetic passages, real gate

`--data` holds `dev/` and `passages/` (see `benchmarks.engine_data`). Passages are stored once in `--work`;
a broken run is taken up again. `latency` embeds no query: it times the gate, the index and the path between.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engine_data import Pool, Question, canard, mtrag
from benchmarks.engine_latency import latency
from ixchat.nodes.deps import Deps
from ixchat.nodes.intent_policy import choose_by_intent
from ixchat.nodes.knowledge_retriever import Plan, keep_because, retrieve
from ixchat.utils.intent_gate import IntentGate
from ixchat.utils.local.resolver import LocalResolver
from ixchat.utils.resolution import Turn
from ixevaluation.ranking import ndcg_at, recall_at
from ixevaluation.stats import bootstrap_ci
from ixinfra.config.settings import EmbeddingConfig
from ixinfra.embeddings import build_embedder
from ixrag.query import HeuristicQueryDecomposer, QueryUnderstandingPipeline
from ixrag.search.encoders import Encoders
from ixrag.search.engine import HybridRetriever, Limits
from ixrag.search.fan_out import Deadline
from ixrag.search.index import Channel, Vector
from ixrag.search.ingest import ingest
from ixrag.search.qdrant_edge import EmbeddedIndex
from ixrag.search.rerank import FusedOrder, ScoreMix

PATIENT = Limits(deadline=Deadline(30.0, 30.0), rerank_s=5.0)
DIM = 384
PORTION = 500

Policy = Callable[[Turn, Deps], Plan]


@dataclass(frozen=True, slots=True)
class Remembering(Encoders):
    """Encodes each query once, however many arms search it."""

    known: dict[tuple[str, str], Any] = field(default_factory=dict)

    async def query(self, channel: Channel, text: str, lang: str) -> Vector:
        """The vector of a query; see `Encoders.query`."""
        if (channel, text) not in self.known:
            self.known[channel, text] = await super(Remembering, self).query(channel, text, lang)
        vector: Vector = self.known[channel, text]
        return vector


async def quality(data: Path, work: Path) -> None:
    """recall@8 and nDCG@10 by class: each index, the fused list, with gate and resolver, with the last order."""
    pools = [mtrag(data, "clapnq", 120), mtrag(data, "cloud", 60), canard(data, 150, 250)]
    model = build_embedder(EmbeddingConfig())
    encoders = Remembering(model, model, "en")  # type: ignore[arg-type]  # the built embedder has learned terms
    index = EmbeddedIndex(work / "passages", DIM)
    gate, scores = IntentGate(), defaultdict[str, list[tuple[Question, float, float]]](list)
    for pool in pools:
        done = await ingest(index, encoders, pool.name, pool.passages)
        print(
            f"{pool.name}: {len(pool.passages)} passages ({done.stored} new), {len(pool.questions)} questions"
        )
        await _search_all(pool, index, encoders, gate, scores)
    await index.close()
    _print_quality(scores)


async def _search_all(
    pool: Pool,
    index: EmbeddedIndex,
    encoders: Encoders,
    gate: IntentGate,
    scores: dict[str, list[tuple[Question, float, float]]],
) -> None:
    splitting = QueryUnderstandingPipeline(decomposer=HeuristicQueryDecomposer())
    whole = HybridRetriever(
        index,
        encoders,
        pool.name,
        languages=await index.languages(pool.name),
        pipelines={"decompose": splitting, "coref_decompose": splitting},
        limits=PATIENT,
        reranker=FusedOrder(),
    )
    deps = Deps(
        whole, reference_resolver=LocalResolver().reference, text_resolver=LocalResolver().search_query
    )

    def alone(**changes: Any) -> Policy:
        return lambda _turn, _deps: replace(
            keep_because("gate_declined"), retriever=replace(whole, **changes)
        )

    def gated(turn: Turn, deps: Deps) -> Plan:
        return choose_by_intent(turn, deps, gate)

    mixed = replace(deps, retriever=replace(whole, reranker=ScoreMix()))
    arms: dict[str, tuple[Policy, Deps]] = {
        "dense": (alone(channels=("dense",)), deps),
        "sparse": (alone(channels=("sparse",)), deps),
        "bm25": (alone(channels=("bm25",)), deps),
        "rrf": (alone(), deps),
        "rrf + mix": (alone(reranker=ScoreMix()), deps),
        "rrf + gate": (gated, deps),
        "rrf + gate + mix": (gated, mixed),
    }
    for question in pool.questions:
        for name, (policy, used) in arms.items():
            found = await retrieve(question.turn, used, policy(question.turn, used))
            ids = [str(document.id) for document in found.documents]
            scores[name].append(
                (question, recall_at(ids, question.relevant, 8), ndcg_at(ids, question.relevant, 10))
            )


def _print_quality(scores: Mapping[str, Sequence[tuple[Question, float, float]]]) -> None:
    kinds = ["all", *sorted({question.kind for rows in scores.values() for question, _, _ in rows})]
    print(f"\nrecall@8 / nDCG@10\n{'':18}" + "".join(f"{kind:>15}" for kind in kinds))
    for name, rows in scores.items():
        cells = [[row for row in rows if kind in ("all", row[0].kind)] for kind in kinds]
        print(f"{name:18}" + "".join(f"{_mean(c, 1):>8.3f} /{_mean(c, 2):.3f}" for c in cells))
    print(
        f"{'questions':18}"
        + "".join(f"{sum(k in ('all', q.kind) for q, _, _ in scores['rrf']):>15}" for k in kinds)
    )
    best = max(("dense", "sparse", "bm25"), key=lambda name: _mean(scores[name], 2))
    for name in ("rrf", "rrf + mix", "rrf + gate", "rrf + gate + mix"):
        for against in (best, "rrf") if name != "rrf" else (best,):
            deltas = [a[2] - b[2] for a, b in zip(scores[name], scores[against], strict=True)]
            clusters = [question.conversation for question, _, _ in scores[name]]
            interval = bootstrap_ci(deltas, clusters=clusters)
            print(f"nDCG@10, {name} against {against}: {np.mean(deltas):+.3f} {interval}")


def _mean(rows: Sequence[tuple[Question, float, float]], column: int) -> float:
    return float(np.mean([row[column] for row in rows]))


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine")
    parser.add_argument("part", choices=["quality", "latency"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--passages", type=int, default=10_000)
    parser.add_argument("--searches", type=int, default=200)
    arguments = parser.parse_args()
    if arguments.part == "quality":
        if arguments.data is None:
            parser.error("quality needs --data")
        asyncio.run(quality(arguments.data, arguments.work))
    else:
        asyncio.run(latency(arguments.work, arguments.passages, arguments.searches))


if __name__ == "__main__":
    main()
