"""A retriever that searches more than the words it was given, and never less."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document

from ixinfra.config.settings import RagMode
from ixrag.documents import Retriever, current_report, search_report
from ixrag.lightrag.langgraph_retriever import LightRAGRetriever
from ixrag.query.context import QueryContext
from ixrag.query.forms import Channel, Form, Wanted, forms
from ixrag.query.given_vectors import give_vector
from ixrag.query.understanding import QueryUnderstandingPipeline
from ixrag.search.fusion import Ranking, fuse_documents

SearchIn = Callable[[frozenset[Channel]], Retriever | None]
"""The retriever that looks at exactly these channels; None where the engine has none of them."""


@dataclass(frozen=True, slots=True)
class UnderstandingRetriever:
    """Searches the query as it is and, beside it, every form that understanding gives; fuses the rankings.

    The query's own search starts at once and its ranking weighs most. A form that fails, or an
    understanding that finds nothing, leaves the own search's documents as they are. A search that
    brings graph keywords is passed on unchanged: whoever chose them has understood the query already.

    Attributes:
        inner: Searches the query itself.
        search_in: Finds the retriever of a form.
        pipeline: Understands the query.
        wanted: Which component's forms each channel is searched with.
        ctx: Tenant and language.
    """

    inner: Retriever
    search_in: SearchIn
    pipeline: QueryUnderstandingPipeline
    wanted: Wanted
    ctx: QueryContext

    @property
    def rag_mode(self) -> RagMode:
        """The inner retriever's."""
        return self.inner.rag_mode

    async def ainvoke(self, input: str, **kwargs: Any) -> Sequence[Document]:
        """Documents of all forms, as many of each kind as the longest single search found.

        Raises:
            RetrievalError: The query's own search failed and no form found anything.
        """
        if kwargs.get("ll_keywords") or kwargs.get("hl_keywords"):
            return await self.inner.ainvoke(input, **kwargs)
        async with asyncio.TaskGroup() as group:
            own = group.create_task(_attempt(self.inner, input, kwargs))
            others = await self._search_forms(input, kwargs)
        documents = own.result()
        found = [Ranking(ranking, form.weight) for form, ranking in others if isinstance(ranking, list)]
        if isinstance(documents, Exception):
            if not any(ranking.documents for ranking in found):
                raise documents
            current_report().facts["own_search"] = type(documents).__name__
            return fuse_documents(found)
        return fuse_documents([Ranking(documents), *found]) if found else documents

    async def _search_forms(
        self, query: str, kwargs: Mapping[str, Any]
    ) -> list[tuple[Form, list[Document] | Exception]]:
        understood = await self.pipeline.understand(self.ctx, query)
        wanted = [
            (form, retriever)
            for form in forms(understood, self.wanted)
            if (retriever := self.search_in(form.channels)) is not None
        ]
        async with asyncio.TaskGroup() as group:
            searches = [
                group.create_task(_search_form(form, retriever, kwargs)) for form, retriever in wanted
            ]
        results = [(form, search.result()) for (form, _), search in zip(wanted, searches, strict=True)]
        current_report().facts["understanding"] = {
            **{key: value for key, value in understood.metadata.items() if value is not None},
            "forms": [_form_facts(form, result) for form, result in results],
        }
        return results


def lightrag_channels(retriever: LightRAGRetriever) -> SearchIn:
    """Finds a LightRAG tenant's passages (`dense`), graph (`graph`), or both; it has no `lexical` channel."""
    passages = retriever.model_copy(update={"search_mode": "naive"})
    graph = None if retriever.rag_mode == "naive" else retriever.model_copy(update={"search_mode": "hybrid"})

    def search_in(channels: frozenset[Channel]) -> Retriever | None:
        if "dense" in channels and "graph" in channels:
            return retriever
        if "dense" in channels:
            return passages
        return graph if "graph" in channels else None

    return search_in


def without_forms(retriever: Retriever) -> Retriever:
    """The retriever that searches the query alone."""
    return retriever.inner if isinstance(retriever, UnderstandingRetriever) else retriever


async def _attempt(retriever: Retriever, query: str, kwargs: Mapping[str, Any]) -> list[Document] | Exception:
    try:
        return list(await retriever.ainvoke(query, **kwargs))
    except Exception as error:  # one search of several; what failed is in the report
        return error


async def _search_form(
    form: Form, retriever: Retriever, kwargs: Mapping[str, Any]
) -> list[Document] | Exception:
    # The report of the turn speaks of the query's own search.
    with search_report(), give_vector(form.text, form.vector):
        return await _attempt(retriever, form.text, kwargs)


def _form_facts(form: Form, result: list[Document] | Exception) -> dict[str, Any]:
    failed = isinstance(result, Exception)
    return {
        "component": form.component,
        "text": form.text,
        "channels": sorted(form.channels),
        "documents": None if isinstance(result, Exception) else len(result),
        "failed": type(result).__name__ if failed else None,
    }
