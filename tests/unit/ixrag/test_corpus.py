"""Reading a corpus: what is accepted, and that errors say where and what."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ixinfra.errors import DatasetError
from ixrag.lightrag.corpus import Corpus, Entity, Passage, Relation, read_corpus
from ixrag.lightrag.custom_graph import custom_graph, merge_relations

P1, P2 = Passage(id="p1", text="One", title="Title", source="a.pdf"), Passage(id="p2", text="Two")
A = Entity(name="A", type="product", description="a", passages=("p1", "p2"))
B = Entity(name="B", type="product", description="b")


def relation(**changes: Any) -> Relation:
    return Relation(**{"source": "A", "target": "B", "description": "d", **changes})


def write(folder: Path, passages: str, graph: Any = None) -> Path:
    (folder / "passages.jsonl").write_text(passages, encoding="utf-8")
    if graph is not None:
        (folder / "graph.json").write_text(graph if isinstance(graph, str) else json.dumps(graph))
    return folder


def test_passages_alone_are_a_corpus(tmp_path: Path) -> None:
    corpus = read_corpus(
        write(tmp_path, '\ufeff{"id": "p1", "text": "One"}\r\n\n{"id": "p2", "text": "Two"}\n')
    )
    assert [passage.id for passage in corpus.passages] == ["p1", "p2"]
    assert corpus.entities == corpus.relations == ()


def test_keywords_may_be_a_list_or_a_line(tmp_path: Path) -> None:
    graph = {
        "entities": [{"name": n, "type": "t", "description": "d"} for n in "ABC"],
        "relations": [
            {"source": "A", "target": "B", "description": "d", "keywords": "x, y"},
            {"source": "A", "target": "C", "description": "d", "keywords": ["x", "y"]},
        ],
    }
    corpus = read_corpus(write(tmp_path, '{"id": "p1", "text": "One"}', graph))
    assert [link.keywords for link in corpus.relations] == [("x", "y"), ("x", "y")]


@pytest.mark.parametrize(
    ("passages", "graph", "message"),
    [
        ("nonsense", None, r"passages\.jsonl:1: not JSON"),
        ('{"id": "p1", "text": "One"}\n{"id": "p2"}', None, r"passages\.jsonl:2: text: Field required"),
        ('{"id": "p1", "text": "One", "txet": 1}', None, r"passages\.jsonl:1: txet"),
        ('{"id": "p1", "text": ""}', None, r"passages\.jsonl:1: text"),
        ("[]", None, r"passages\.jsonl:1: row"),
        ('{"id": "p1", "text": "One"}', "{", r"graph\.json: not JSON"),
        ('{"id": "p1", "text": "One"}', {"entities": [{"name": "A"}]}, r"graph\.json: entities\.0\.type"),
        ('{"id": "p1", "text": "One"}', {"nodes": []}, r"graph\.json: nodes"),
    ],
)
def test_an_error_names_file_line_and_field(tmp_path: Path, passages: str, graph: Any, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        read_corpus(write(tmp_path, passages, graph))


def test_a_missing_or_wrongly_encoded_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"passages\.jsonl: no such file"):
        read_corpus(tmp_path)
    (tmp_path / "passages.jsonl").write_bytes('{"id": "é"}'.encode("latin-1"))
    with pytest.raises(DatasetError, match="byte 8 is not UTF-8"):
        read_corpus(tmp_path)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        pytest.param({"passages": (P1, P1)}, "two passages are called 'p1'", id="passage twice"),
        pytest.param({"entities": (B, B)}, "two entities are called 'B'", id="entity twice"),
        pytest.param({"passages": (P1,), "entities": (A,)}, "entity 'A' names the passage 'p2'", id="no passage"),
        pytest.param({"entities": (A,), "relations": (relation(),)}, "names the entity 'B'", id="no entity"),
        pytest.param({"entities": (A, B), "relations": (relation(passage="p9"),)}, "passage 'p9'", id="no origin"),
        pytest.param({"entities": (A,), "relations": (relation(target="A"),)}, "to itself", id="self-loop"),
    ],
)  # fmt: skip
def test_what_does_not_hold_together_is_refused(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        Corpus(**{"passages": (P1, P2), **parts})


def test_the_fingerprint_follows_content_and_nothing_else() -> None:
    corpus = Corpus((P1, P2), (A, B), (relation(),))
    assert corpus.fingerprint == Corpus((P1, P2), (A, B), (relation(),)).fingerprint
    assert replace(corpus, vectors=Path("v.npz")).fingerprint == corpus.fingerprint
    changed = [
        replace(corpus, passages=(P2, P1)),
        replace(corpus, passages=(P1.model_copy(update={"title": "Other"}), P2)),
        replace(corpus, entities=(A.model_copy(update={"aliases": ("AA",)}), B)),
        replace(corpus, relations=(relation(weight=2.0),)),
        replace(corpus, relations=()),
    ]
    assert len({corpus.fingerprint, *(other.fingerprint for other in changed)}) == 6


def test_relations_of_one_pair_become_one() -> None:
    first = relation(keywords=("x",), passage="p1", weight=1.0)
    second = relation(source="B", target="A", description="e", keywords=("x", "y"), passage="p2", weight=3.0)
    [(merged, passages)] = merge_relations([first, second, first])
    assert (merged.source, merged.target) == ("A", "B")
    assert (merged.description, merged.keywords, merged.weight) == ("d e", ("x", "y"), 3.0)
    assert passages == ["p1", "p2"]


def test_the_title_stands_above_the_text_and_aliases_in_the_description() -> None:
    corpus = Corpus((P1, P2), (A.model_copy(update={"aliases": ("Ay",)}), B))
    graph = custom_graph(corpus, [])
    assert [chunk["content"] for chunk in graph["chunks"]] == ["Title\nOne", "Two"]
    assert [entity["description"] for entity in graph["entities"]] == ["a (Ay)", "b"]
    assert [entity.get("source_id") for entity in graph["entities"]] == ["p1", None]
