"""How good is the graph that ingest makes without a model? Measured on the sample against its curated one.

python -m benchmarks.ingest_graph [--list]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable

from ixrag.ingest.document import Block
from ixrag.ingest.graph import find_graph
from ixrag.ingest.split import Cut
from ixrag.lightrag.corpus import Entity
from ixrag.sample import sample_corpus
from ixrag.words import folded


def main() -> None:
    """Print precision and recall of entity names and of related pairs."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--list", action="store_true", help="print what is missing and what is too much")
    arguments.add_argument("--without-lang", action="store_true", help="as if no file said its language")
    show, blind = (options := arguments.parse_args()).list, options.without_lang
    corpus = sample_corpus()
    passages = [p.model_copy(update={"lang": ""}) if blind else p for p in corpus.passages]
    cuts = [Cut(p, Block(headings=(p.title,), text=p.text)) for p in passages]
    started = time.perf_counter()
    entities, relations = find_graph(cuts)
    elapsed_ms = (time.perf_counter() - started) * 1000
    wanted = {name: labels(entity) for entity in corpus.entities for name in [entity.name]}
    matched = {entity.name: match(entity, corpus.entities) for entity in entities}
    found = {name for name in matched.values() if name}
    print(f"{len(corpus.passages)} passages, {elapsed_ms:.0f} ms")
    print(f"entities: {len(entities)} found, {len(wanted)} curated")
    report("  all", list(matched.values()), wanted.keys())
    for kind in sorted({entity.type for entity in corpus.entities}):
        of_kind = {entity.name for entity in corpus.entities if entity.type == kind}
        print(f"  recall of {kind:9} {len(found & of_kind):3} of {len(of_kind)}")
    pairs = {frozenset((r.source, r.target)) for r in corpus.relations}
    related = {frozenset((matched[r.source], matched[r.target])) for r in relations}
    hits = len(pairs & related)
    known = {pair for pair in related if None not in pair and len(pair) == 2}
    print(
        f"relations: {len(relations)} found, {len(known)} of them between curated entities, {len(pairs)} curated"
    )
    print(
        f"  recall {hits / len(pairs):.2f}, precision among curated entities {hits / max(len(known), 1):.2f}"
    )
    if show:
        print("missing:", sorted(wanted.keys() - found))
        print("too much:", sorted(f"{e.name} ({e.type})" for e in entities if not matched[e.name]))


def labels(entity: Entity) -> set[str]:
    """Everything an entity is called, folded."""
    return {folded(label) for label in (entity.name, *entity.aliases)}


def match(entity: Entity, curated: Iterable[Entity]) -> str | None:
    """The curated entity that is called the same."""
    own = labels(entity)
    return next((other.name for other in curated if own & labels(other)), None)


def report(label: str, matched: list[str | None], wanted: Iterable[str]) -> None:
    """Precision, recall and their harmonic mean."""
    right = sum(name is not None for name in matched)
    precision = right / max(len(matched), 1)
    wanted = set(wanted)
    recall = len({name for name in matched if name} & wanted) / len(wanted)
    f1 = 2 * precision * recall / max(precision + recall, 1e-9)
    print(f"{label}: precision {precision:.2f}, recall {recall:.2f}, F1 {f1:.2f}")


if __name__ == "__main__":
    main()
