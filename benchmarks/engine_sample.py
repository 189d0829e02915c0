"""What the engine finds on the bundled sample: across languages, and in the conversations of the bundled sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.engine_data import sample_resolver
from benchmarks.engine_languages import TREATMENTS, Treated, embedded_once
from benchmarks.engine_scores import Score, print_difference, print_table, scored
from ixchat.nodes.deps import Deps
from ixchat.nodes.intent_policy import choose_by_intent
from ixchat.nodes.knowledge_retriever import keep_because, retrieve
from ixchat.utils.intent_gate import IntentGate
from ixchat.utils.local.learned import WordWeigher
from ixevaluation.dataset import Item, load_set
from ixrag.query import HeuristicQueryDecomposer, InMemoryGlossary, QueryUnderstandingPipeline
from ixrag.rarity import Rarity
from ixrag.sample import sample_corpus
from ixrag.search.encoders import Encoders, Text
from ixrag.search.engine import HybridRetriever, Limits
from ixrag.search.fan_out import Deadline
from ixrag.search.ingest import ingest
from ixrag.search.qdrant_edge import EmbeddedIndex
from ixrag.search.rerank import FusedOrder, ScoreMix

PATIENT = Limits(deadline=Deadline(30.0, 30.0), rerank_s=5.0)
SETS = ("elliptic", "reference", "v1")
SHIPPED = "neutral"


async def sample(work: Path) -> None:
    """Print both measurements; the sample's passages are stored in `work` once for each treatment."""
    once = embedded_once()
    index = EmbeddedIndex(work / "sample", once.model.dim)
    passages = [Text(p.id, p.content, p.lang, p.source, p.title) for p in sample_corpus().passages]
    engines = {}
    for name in TREATMENTS:
        treated = Treated(once, name)
        encoders = Encoders(treated, treated, "fr")
        await ingest(index, encoders, name, passages)
        engines[name] = HybridRetriever(
            index,
            encoders,
            name,
            languages=await index.languages(name),
            limits=PATIENT,
            reranker=FusedOrder(),
        )
    items = [item for name in SETS for item in load_set(name).items if item.is_labelled and item.need]
    await _languages(engines, items)
    await _conversations(engines[SHIPPED])
    await index.close()


async def _languages(engines: dict[str, HybridRetriever], items: Sequence[Item]) -> None:
    """The needs of the items, which are complete questions, each as a search of its own."""
    whole = engines[SHIPPED]
    full_say = replace(whole, languages={})  # words then weigh as much as the other indexes
    arms = {f"dense, {name}": replace(engine, channels=("dense",)) for name, engine in engines.items()} | {
        "learned terms": replace(whole, channels=("sparse",)),
        "words": replace(whole, channels=("bm25",)),
        **{f"fused, {name}": engine for name, engine in engines.items()},
        "fused, words with full say": full_say,
        "fused, without words": replace(whole, channels=("dense", "sparse")),
        "fused + last order": replace(whole, reranker=ScoreMix()),
    }
    known = {passage.id: passage.lang for passage in sample_corpus().passages}
    scores: dict[str, list[Score]] = {name: [] for name in arms}
    for item in items:
        same = any(known.get(key) == item.lang for key in item.relevant)
        for name, engine in arms.items():
            found = await engine.ainvoke(item.need or "")
            kinds = (item.lang, "same language" if same else "across")
            scores[name].append(scored(found, item.relevant, kinds, item.cluster))
    print_table("sample, complete questions", scores)
    for treated, control in (
        ("dense, neutral", "dense, raw"),
        ("dense, means", "dense, neutral"),
        ("fused, neutral", "fused, raw"),
        ("fused, means", "fused, neutral"),
        ("fused, neutral", "fused, words with full say"),
        ("fused, neutral", "dense, neutral"),
        ("fused + last order", "fused, neutral"),
    ):
        print_difference(scores, treated, control)


async def _conversations(engine: HybridRetriever) -> None:
    """The turns of the sets as visitors wrote them: the own words alone, and what the policy makes of them."""
    entities = sample_corpus().entities
    splitting = QueryUnderstandingPipeline(decomposer=HeuristicQueryDecomposer())
    glossary = InMemoryGlossary({entity.name: list(entity.aliases) for entity in entities})
    whole = replace(
        engine,
        reranker=ScoreMix(),
        pipelines={
            "decompose": splitting,
            "coref_decompose": splitting,
            "expand": QueryUnderstandingPipeline(glossary=glossary),
        },
    )
    resolver, gate = sample_resolver(), IntentGate()
    weigh = WordWeigher(Rarity.of(passage.content for passage in sample_corpus().passages), whole)
    deps = Deps(whole, text_resolver=resolver.search_query, reference_resolver=resolver.reference)
    own = replace(keep_because("gate_declined"), retriever=whole)
    scores: dict[str, list[Score]] = defaultdict(list)
    for name in SETS:
        for item in load_set(name).items:
            if not item.is_labelled:
                continue
            turn = item.turn()
            ships = replace(choose_by_intent(turn, deps, gate), weigh=weigh if turn.messages else None)
            for arm, plan in (("own words", own), ("engine", ships)):
                found = await retrieve(turn, deps, plan)
                kinds = (name, item.mode)
                scores[arm].append(scored(found.documents, item.relevant, kinds, item.cluster))
    print_table("sample, conversations", scores)
    print_difference(scores, "engine", "own words")
