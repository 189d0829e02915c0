"""What the hybrid engine finds in public sets, by class of question."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.engine_data import Pool, canard, mtrag
from benchmarks.engine_scores import Score, print_difference, print_table, scored
from ixchat.nodes.deps import Deps
from ixchat.nodes.intent_policy import choose_by_intent
from ixchat.nodes.knowledge_retriever import Plan, keep_because, retrieve
from ixchat.utils.intent_gate import IntentGate
from ixchat.utils.local.learned import WordWeigher
from ixchat.utils.local.resolver import LocalResolver
from ixchat.utils.resolution import Turn
from ixinfra.config.settings import EmbeddingConfig
from ixinfra.embeddings import build_embedder
from ixrag.query import HeuristicQueryDecomposer, QueryUnderstandingPipeline
from ixrag.rarity import Rarity
from ixrag.search.encoders import Encoders
from ixrag.search.engine import HybridRetriever, Limits
from ixrag.search.fan_out import Deadline
from ixrag.search.index import Channel, Vector
from ixrag.search.ingest import ingest
from ixrag.search.qdrant_edge import EmbeddedIndex
from ixrag.search.rerank import Candidate, CrossEncoder, FusedOrder, ScoreMix

PATIENT = Limits(deadline=Deadline(30.0, 30.0), rerank_s=60.0)
DIM = 384
SINGLE: tuple[Channel, ...] = ("dense", "sparse", "bm25")

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


class Timed(CrossEncoder):
    """A cross-encoder that adds up what it takes."""

    spent_s = 0.0

    async def scores(self, query: str, candidates: Sequence[Candidate]) -> list[float]:
        """See `CrossEncoder.scores`."""
        started = time.perf_counter()
        found = await super().scores(query, candidates)
        self.spent_s += time.perf_counter() - started
        return found


async def quality(data: Path, work: Path, cross_encoder: Path | None = None) -> None:
    """recall@8 and nDCG@10 by class: each index, the fused list, with gate and resolver, with the last order.

    Args:
        data: Folder of the public sets.
        work: Folder where the passages are stored.
        cross_encoder: Folder of one (`ixrag.search.rerank.CrossEncoder`), for one more row.
    """
    reranker = Timed(cross_encoder) if cross_encoder else None
    pools = [mtrag(data, "clapnq", 120), mtrag(data, "cloud", 60), canard(data, 150, 250)]
    model = build_embedder(EmbeddingConfig())
    encoders = Remembering(model, model, "en")  # type: ignore[arg-type]  # the built embedder has learned terms
    index = EmbeddedIndex(work / "passages", DIM)
    gate, scores = IntentGate(), defaultdict[str, list[Score]](list)
    for pool in pools:
        done = await ingest(index, encoders, pool.name, pool.passages)
        print(
            f"{pool.name}: {len(pool.passages)} passages ({done.stored} new), {len(pool.questions)} questions"
        )
        await _search_all(pool, index, encoders, gate, scores, reranker)
    await index.close()
    print_table("public development halves", scores)
    best = max(SINGLE, key=lambda name: sum(score.ndcg for score in scores[name]))
    for treated, control in (
        ("rrf", best),
        ("rrf + mix", "rrf"),
        ("rrf + gate", "rrf"),
        ("rrf + gate + mix", best),
        ("rrf + gate + mix", "rrf + mix"),
        ("rrf + gate + mix + words", "rrf + gate + mix"),
        ("rrf + gate + mix + words", best),
    ):
        print_difference(scores, treated, control)
    if reranker:
        searches = len(scores["rrf"])
        print(f"cross-encoder: {reranker.spent_s / searches:.2f} s a search, on one thread")
        print_difference(scores, "rrf + gate + cross-encoder", "rrf + gate")
        print_difference(scores, "rrf + gate + cross-encoder", "rrf + gate + mix")


async def _search_all(
    pool: Pool,
    index: EmbeddedIndex,
    encoders: Encoders,
    gate: IntentGate,
    scores: dict[str, list[Score]],
    cross_encoder: Timed | None,
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

    weigh = WordWeigher(Rarity.of(passage.text for passage in pool.passages), whole)

    def weighed(turn: Turn, deps: Deps) -> Plan:
        return replace(gated(turn, deps), weigh=weigh if turn.messages else None)

    mixed = replace(deps, retriever=replace(whole, reranker=ScoreMix()))
    arms: dict[str, tuple[Policy, Deps]] = {
        "dense": (alone(channels=("dense",)), deps),
        "sparse": (alone(channels=("sparse",)), deps),
        "bm25": (alone(channels=("bm25",)), deps),
        "rrf": (alone(), deps),
        "rrf + mix": (alone(reranker=ScoreMix()), deps),
        "rrf + gate": (gated, deps),
        "rrf + gate + mix": (gated, mixed),
        "rrf + gate + mix + words": (weighed, mixed),
    }
    if cross_encoder:
        arms["rrf + gate + cross-encoder"] = (
            gated,
            replace(deps, retriever=replace(whole, reranker=cross_encoder)),
        )
    for question in pool.questions:
        for name, (policy, used) in arms.items():
            found = await retrieve(question.turn, used, policy(question.turn, used))
            scores[name].append(
                scored(found.documents, question.relevant, (question.kind,), question.conversation)
            )
