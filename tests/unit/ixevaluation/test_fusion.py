from __future__ import annotations

from fakes import FakeRetriever

from ixevaluation.rewriter.fusion import KeepingRetriever


async def test_both_searches_are_fused_as_long_as_the_longer() -> None:
    """b: 1/62 + 1/61; a: 1/61; c: 1/62; d: 1/63."""
    inner = FakeRetriever(["a", "b"], ["b", "c", "d"], rag_mode="naive")
    fused = await KeepingRetriever(inner, "own words").ainvoke("a rewrite")
    assert [document.page_content for document in fused] == ["b", "a", "c"]
    assert inner.queries == ["own words", "a rewrite"]


async def test_words_that_were_not_rewritten_are_searched_once() -> None:
    inner = FakeRetriever(["a", "b"])
    found = await KeepingRetriever(inner, "own words").ainvoke("own words")
    assert [document.page_content for document in found] == ["a", "b"]
    assert inner.queries == ["own words"]


async def test_nothing_found_twice_is_nothing() -> None:
    assert await KeepingRetriever(FakeRetriever([]), "own words").ainvoke("a rewrite") == []
