"""What every implementation owes its callers, and what the pipeline makes of one that does not pay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fakes import ScriptedModel
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ixrag.query import (
    GlossaryExpander,
    HeuristicQueryDecomposer,
    HyDE,
    HyDEGenerator,
    HyDEResult,
    InMemoryGlossary,
    LLMQueryDecomposer,
    LLMQueryRewriter,
    MemoryCache,
    NoopGlossaryExpander,
    NoopHyDE,
    NoopQueryDecomposer,
    NoopQueryRewriter,
    QueryContext,
    QueryDecomposer,
    QueryRewriter,
    QueryUnderstandingPipeline,
    TenantGlossary,
    UnderstoodQuery,
)

CTX = QueryContext("acme", "fr")
QUERIES = st.one_of(
    st.text(st.characters()),
    st.sampled_from(
        [
            "What is a shift pool and who may edit it? Thanks!",
            "Combien coûte la paie et comment l'exporter ?",
            "export payroll",
        ]
    ),
)
# What a model may answer: lists, talk, the query again, nothing, anything.
ANSWERS = ["1. pay slip\n2. pay slip\n3. export payroll\n4. wage file\n5. hours", "NONE", "", "\ud800\n{"]


class RudeRewriter:
    """Implements the protocol by shape alone, and breaks every promise of it."""

    async def rewrite(self, ctx: QueryContext, query_text: str, *, n: int = 3) -> list[str]:
        return [query_text, query_text.upper(), "", "  same ", "SAME", None, 7, *map(str, range(50))]  # type: ignore[list-item]


class RudeDecomposer:
    async def decompose(self, ctx: QueryContext, query_text: str) -> list[str]:
        return [query_text, *(f"part {number}" for number in range(50)), "part 1"]


class RudeGlossary:
    async def expand(self, ctx: QueryContext, query_text: str) -> dict[str, list[str]]:
        odd: dict[Any, Any] = {
            "  RAG ": ["rag", "x", "X", "", None],
            "empty": [],
            "text": "abc",
            7: ["x"],
            "": ["x"],
        }
        return odd | {f"term {number}": [f"s{s}" for s in range(99)] for number in range(99)}


class RudeHyDE:
    async def generate(self, ctx: QueryContext, query_text: str) -> HyDEResult:
        return HyDEResult(["", "a", "A", *map(str, range(50))], [3.0, 4.0], "rude-1")


class Checked:
    """A pipeline around one component: what the next stage gets from it."""

    def __init__(self, **parts: Any) -> None:
        self.pipeline = QueryUnderstandingPipeline(**parts)

    async def rewrite(self, ctx: QueryContext, query_text: str, *, n: int = 3) -> list[str]:
        return (await self.pipeline.understand(ctx, query_text)).rewrites

    async def decompose(self, ctx: QueryContext, query_text: str) -> list[str]:
        return (await self.pipeline.understand(ctx, query_text)).sub_queries

    async def expand(self, ctx: QueryContext, query_text: str) -> dict[str, list[str]]:
        return (await self.pipeline.understand(ctx, query_text)).expansion_terms

    async def generate(self, ctx: QueryContext, query_text: str) -> HyDEResult:
        found = await self.pipeline.understand(ctx, query_text)
        return HyDEResult(found.hyde_documents, found.hyde_vector)


def llm(answer: str) -> ScriptedModel:
    return ScriptedModel(script=[answer])


REWRITERS: dict[str, Callable[[], QueryRewriter]] = {
    "noop": NoopQueryRewriter,
    **{f"llm-{i}": lambda a=a: LLMQueryRewriter(llm(a)) for i, a in enumerate(ANSWERS)},  # type: ignore[misc]
    "llm-cached": lambda: LLMQueryRewriter(llm(ANSWERS[0]), cache=MemoryCache()),
    "rude, through the pipeline": lambda: Checked(rewriter=RudeRewriter()),
}
DECOMPOSERS: dict[str, Callable[[], QueryDecomposer]] = {
    "noop": NoopQueryDecomposer,
    "heuristic": HeuristicQueryDecomposer,
    **{f"llm-{i}": lambda a=a: LLMQueryDecomposer(llm(a)) for i, a in enumerate(ANSWERS)},  # type: ignore[misc]
    "rude, through the pipeline": lambda: Checked(decomposer=RudeDecomposer()),
}
GLOSSARIES: dict[str, Callable[[], GlossaryExpander]] = {
    "noop": NoopGlossaryExpander,
    "memory": lambda: InMemoryGlossary({"Export": ["download"], "payroll": ["wages"]}, plurals_of=["en"]),
    "tenant": lambda: TenantGlossary({"acme": InMemoryGlossary({"Export": ["download"]})}),
    "rude, through the pipeline": lambda: Checked(glossary=RudeGlossary()),
}
HYDES: dict[str, Callable[[], HyDE]] = {
    "noop": NoopHyDE,
    **{f"llm-{i}": lambda a=a: HyDEGenerator(llm(a), n=2) for i, a in enumerate(ANSWERS)},  # type: ignore[misc]
    "rude, through the pipeline": lambda: Checked(hyde=RudeHyDE()),
}

few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def plain(text: str) -> str:
    return " ".join(text.split()).casefold()


@pytest.mark.parametrize("make", REWRITERS.values(), ids=REWRITERS)
@few
@given(query=QUERIES)
async def test_rewriters(make: Callable[[], QueryRewriter], query: str) -> None:
    found = await make().rewrite(CTX, query, n=3)

    assert isinstance(found, list)
    assert len(found) <= 3
    assert all(isinstance(text, str) and text.strip() for text in found)
    assert plain(query) not in map(plain, found)
    assert len({plain(text) for text in found}) == len(found)


@pytest.mark.parametrize("make", DECOMPOSERS.values(), ids=DECOMPOSERS)
@few
@given(query=QUERIES)
async def test_decomposers(make: Callable[[], QueryDecomposer], query: str) -> None:
    found = await make().decompose(CTX, query)

    assert isinstance(found, list)
    assert len(found) <= 8
    assert all(isinstance(text, str) and text.strip() for text in found)
    assert plain(query) not in map(plain, found)


@pytest.mark.parametrize("make", GLOSSARIES.values(), ids=GLOSSARIES)
@few
@given(query=QUERIES)
async def test_glossaries(make: Callable[[], GlossaryExpander], query: str) -> None:
    found = await make().expand(CTX, query)

    assert isinstance(found, dict)
    for term, synonyms in found.items():
        assert term == term.strip().lower() != ""
        assert synonyms
        assert plain(term) not in map(plain, synonyms)
        assert len({plain(text) for text in synonyms}) == len(synonyms)


@pytest.mark.parametrize("make", HYDES.values(), ids=HYDES)
@few
@given(query=QUERIES)
async def test_hydes(make: Callable[[], HyDE], query: str) -> None:
    found = await make().generate(CTX, query)

    assert isinstance(found, HyDEResult)
    assert all(isinstance(text, str) and text.strip() for text in found.documents)
    if found.vector is not None:
        assert sum(value * value for value in found.vector) == pytest.approx(1)


@pytest.mark.parametrize("cls", [NoopQueryRewriter, LLMQueryRewriter])
def test_a_rewriter_can_be_subclassed(cls: type) -> None:
    assert issubclass(cls, QueryRewriter)
    assert isinstance(RudeRewriter(), QueryRewriter)


@pytest.mark.parametrize("protocol", [QueryRewriter, QueryDecomposer, GlossaryExpander, HyDE])
def test_a_subclass_without_the_method_cannot_be_made(protocol: type) -> None:
    class Unfinished(protocol):  # type: ignore[misc]  # the base is a value here
        pass

    with pytest.raises(TypeError, match="abstract"):
        Unfinished()


async def test_a_rude_crowd_is_bounded() -> None:
    pipeline = QueryUnderstandingPipeline(
        rewriter=RudeRewriter(),
        decomposer=RudeDecomposer(),
        glossary=RudeGlossary(),
        hyde=RudeHyDE(),
        rewrite_n=2,
    )
    understood = await pipeline.understand(CTX, "what is RAG")

    assert understood.rewrites == ["same", "0"]
    assert understood.sub_queries == [f"part {number}" for number in range(8)]
    assert understood.expansion_terms["rag"] == ["x"]
    assert len(understood.expansion_terms) == 32
    assert len(understood.expansion_terms["term 1"]) == 16
    assert understood.hyde_documents == ["a", *map(str, range(7))]
    assert understood.hyde_vector == pytest.approx([0.6, 0.8])
    assert "partial_failures" not in understood.metadata


@few
@given(query=st.text(st.characters()))
async def test_any_query_is_understood_and_kept_as_it_is(query: str) -> None:
    pipeline = QueryUnderstandingPipeline(
        rewriter=LLMQueryRewriter(llm(ANSWERS[0])),
        decomposer=HeuristicQueryDecomposer(min_chars=1),
        glossary=InMemoryGlossary({"a": ["b"]}),
        hyde=HyDEGenerator(llm("A passage.")),
    )
    understood = await pipeline.understand(CTX, query)

    assert understood.original_text == query
    assert understood.keyword_queries[0] == query
    assert "partial_failures" not in understood.metadata
    assert UnderstoodQuery.model_validate_json(understood.model_dump_json()).rewrites == understood.rewrites
