from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from fakes import FakeRetriever, HashEmbedder
from langchain_core.documents import Document

from ixinfra.errors import RetrievalError
from ixrag.documents import current_report, search_report
from ixrag.query import InMemoryGlossary, QueryContext, QueryUnderstandingPipeline
from ixrag.query.forms import Channel
from ixrag.query.given_vectors import GivenVectors, give_vector
from ixrag.query.retriever import UnderstandingRetriever, without_forms

CTX = QueryContext("acme")
QUERY = "export payroll"
FORM = "export payroll wages"


def around(
    own: FakeRetriever, forms: FakeRetriever | None = None, *, known: str = "payroll", timeout_s: float = 1.0
) -> UnderstandingRetriever:
    def search_in(channels: frozenset[Channel]) -> FakeRetriever | None:
        assert channels == {"dense"}
        return forms

    glossary = InMemoryGlossary({known: ["wages"]})
    pipeline = QueryUnderstandingPipeline(glossary=glossary, timeout_s=timeout_s)
    return UnderstandingRetriever(own, search_in, pipeline, {"dense": ["glossary"]}, CTX)


def texts(documents: Any) -> list[str]:
    return [document.page_content for document in documents]


async def test_the_query_is_searched_as_it_is_and_forms_beside_it() -> None:
    own, forms = FakeRetriever(["a", "b"]), FakeRetriever(["b", "c"])
    found = await around(own, forms).ainvoke(QUERY)

    assert (own.queries, forms.queries) == ([QUERY], [FORM])
    # By hand, k = 10: a 1/11, b 1/12 + 0.5/11, c 0.5/12; two places, as the longest search found.
    assert texts(found) == ["b", "a"]


async def test_the_visitors_own_words_lead() -> None:
    found = await around(FakeRetriever(["a", "b"]), FakeRetriever(["c", "d"])).ainvoke(QUERY)

    assert texts(found) == ["a", "b"]


async def test_without_forms_the_documents_are_those_of_the_own_search() -> None:
    own = FakeRetriever(["a", "b"])
    retriever = around(own, known="something else")

    assert await retriever.ainvoke(QUERY) == await FakeRetriever(["a", "b"]).ainvoke(QUERY)
    assert own.calls == [(QUERY, {})]


async def test_a_channel_that_the_engine_lacks_is_left_out() -> None:
    assert texts(await around(FakeRetriever(["a"]), None).ainvoke(QUERY)) == ["a"]


@pytest.mark.parametrize(
    "kwargs", [{"ll_keywords": ["Pay"], "hl_keywords": ["wages"]}, {"hl_keywords": ["x"]}]
)
async def test_a_search_that_brings_keywords_is_passed_on(kwargs: dict[str, list[str]]) -> None:
    own, forms = FakeRetriever(["a"]), FakeRetriever(["c"])
    await around(own, forms).ainvoke(QUERY, **kwargs)

    assert own.calls == [(QUERY, kwargs)]
    assert forms.calls == []


async def test_other_arguments_go_to_every_search() -> None:
    own, forms = FakeRetriever(["a"]), FakeRetriever(["c"])
    await around(own, forms).ainvoke(QUERY, k=3)

    assert own.calls == [(QUERY, {"k": 3})]
    assert forms.calls == [(FORM, {"k": 3})]


async def test_a_failed_form_costs_nothing() -> None:
    with search_report() as report:
        found = await around(FakeRetriever(["a"]), FakeRetriever(RuntimeError("down"))).ainvoke(QUERY)

    assert texts(found) == ["a"]
    (form,) = report.facts["understanding"]["forms"]
    assert (form["failed"], form["documents"]) == ("RuntimeError", None)


async def test_a_failed_own_search_is_made_good_by_a_form() -> None:
    with search_report() as report:
        found = await around(FakeRetriever(OSError()), FakeRetriever(["c"])).ainvoke(QUERY)

    assert texts(found) == ["c"]
    assert report.facts["own_search"] == "OSError"


@pytest.mark.parametrize("script", [RuntimeError("down"), []])
async def test_when_nothing_answered_the_own_search_says_why(script: Any) -> None:
    own = FakeRetriever(RetrievalError("no answer", reason="timeout"))

    with pytest.raises(RetrievalError, match="no answer"):
        await around(own, FakeRetriever(script)).ainvoke(QUERY)


class Reporting(FakeRetriever):
    """An engine that reports what it embeds."""

    async def ainvoke(self, input: str, **kwargs: Any) -> list[Document]:
        current_report().vector_text = input
        return await super().ainvoke(input, **kwargs)


async def test_the_report_says_what_was_searched() -> None:
    with search_report() as report:
        await around(Reporting(["a"]), Reporting(["b", "c"])).ainvoke(QUERY)

    assert report.vector_text == QUERY
    understanding = report.facts["understanding"]
    assert understanding["forms"] == [
        {"component": "glossary", "text": FORM, "channels": ["dense"], "documents": 2, "failed": None}
    ]
    assert understanding["elapsed_ms"] > 0


async def test_cancelling_frees_every_search() -> None:
    own, forms = FakeRetriever(["a"], delay_s=60), FakeRetriever(["b"], delay_s=60)
    task = asyncio.create_task(around(own, forms).ainvoke(QUERY))  # type: ignore[arg-type]
    while not forms.calls:  # noqa: ASYNC110  # the search has no event to wait for
        await asyncio.sleep(0.001)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert (own.cancelled, forms.cancelled) == (1, 1)
    assert len(asyncio.all_tasks()) == 1


def test_the_retriever_of_the_query_alone_is_at_hand() -> None:
    own = FakeRetriever()

    assert without_forms(around(own)) is own
    assert without_forms(own) is own


async def test_a_given_vector_stands_for_its_text() -> None:
    embedder = HashEmbedder(dim=4)
    given = GivenVectors(embedder)
    plain = await embedder.query(["one", "two"])
    with give_vector("a made-up answer ", [0.0, 0.0, 0.0, 1.0]):
        rows = await given.query(["one", 'Question about "V": a made-up answer', "two"])
        assert np.array_equal(rows[[0, 2]], plain)
        assert rows[1].tolist() == [0, 0, 0, 1]
    assert np.array_equal(await given.query(["a made-up answer"]), await embedder.query(["a made-up answer"]))
    assert (given.dim, given.model_id) == (embedder.dim, embedder.model_id)


@pytest.mark.parametrize("vector", [None, [1.0, 0.0]])
async def test_no_vector_or_one_of_another_size_changes_nothing(vector: list[float] | None) -> None:
    embedder = HashEmbedder(dim=4)
    with give_vector("text", vector):
        assert np.array_equal(await GivenVectors(embedder).query(["text"]), await embedder.query(["text"]))
