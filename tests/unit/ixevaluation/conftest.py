"""Items, runs and an engine in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from langchain_core.documents import Document

from ixevaluation.dataset import HistoryMessage, Item
from ixevaluation.records import ItemRef, Manifest, Record, Run
from ixevaluation.rewriter.arms import ArmDeps
from ixinfra.config.settings import RagMode

ASKED = HistoryMessage(role="assistant", content="Which sector are you in?")


class TableRetriever:
    """Finds what a table says for a query; anything else finds `default`."""

    def __init__(
        self,
        table: Mapping[str, Sequence[str] | Exception],
        default: Sequence[str] = (),
        mode: RagMode = "mix",
    ) -> None:
        self.table, self.default, self.mode = table, default, mode
        self.calls: list[tuple[str, dict[str, Any]]] = []

    @property
    def rag_mode(self) -> RagMode:
        return self.mode

    async def ainvoke(self, input: str, **kwargs: Any) -> list[Document]:
        self.calls.append((input, kwargs))
        found = self.table.get(input, self.default)
        if isinstance(found, Exception):
            raise found
        return [Document(f"text of {name}", metadata={"kind": "chunk", "passage_id": name}) for name in found]


def make_item(item_id: str = "a", **changes: Any) -> Item:
    facts: dict[str, Any] = {
        "id": item_id,
        "site": "orvane",
        "lang": "en",
        "mode": "elliptical",
        "history": (ASKED,),
        "query": f"reply {item_id}",
        "company_name": "Orvane",
        "relevant": ("good",),
    }
    return Item(**(facts | changes))


def make_run(arm: str, scores: Mapping[str, Sequence[float]], *, records: Any = None, **changes: Any) -> Run:
    """A run with these scores; `records` may override fields of single records by `(item, run)`."""
    items = [make_item(item_id) for item_id in scores]
    refs = tuple(
        ItemRef(id=i.id, lang=i.lang, mode=i.mode, cluster=i.cluster, query=i.query, judged=True)
        for i in items
    )
    facts: dict[str, Any] = {
        "arm": arm,
        "dataset": "s",
        "dataset_sha256": "0" * 64,
        "sealed": False,
        "items": refs,
        "runs": max(len(values) for values in scores.values()),
        "judge": "labels",
        "metrics": ("ndcg@10", "hit@5"),
        "engine": "lexical",
        "rag_mode": "mix",
        "env": "test",
    }
    manifest = Manifest(**(facts | changes))
    overrides = records or {}
    made = [
        Record(
            **{
                "id": item_id,
                "run": number,
                "message": f"reply {item_id}",
                "query": f"reply {item_id}",
                "scores": {"ndcg@10": value, "hit@5": float(value > 0)},
                "input_sha": f"{arm}-{item_id}",
                "passages_sha": f"{arm}-{item_id}-{value}",
                **overrides.get((item_id, number), {}),
            }
        )
        for item_id, values in scores.items()
        for number, value in enumerate(values, start=1)
    ]
    return Run(manifest, tuple(made))


@pytest.fixture
def item() -> Callable[..., Item]:
    return make_item


@pytest.fixture
def run() -> Callable[..., Run]:
    return make_run


@pytest.fixture
def retriever() -> Callable[..., TableRetriever]:
    return TableRetriever


@pytest.fixture
def arm_deps() -> Callable[..., ArmDeps]:
    return ArmDeps
