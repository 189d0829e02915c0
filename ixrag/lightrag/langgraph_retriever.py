"""LightRAG behind LangChain's retriever interface: one query string, two optional keyword lists, Documents."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, SkipValidation

from ixinfra.config.settings import RagMode
from ixinfra.errors import RetrievalError
from ixrag.documents import SearchReport, current_report
from ixrag.lightrag.keywords import extract_keywords
from ixrag.lightrag.knowledge_base import Answer, KnowledgeBase
from ixrag.lightrag.results import to_documents, used_keywords
from ixrag.names import NameIndex


class LightRAGRetriever(BaseRetriever):
    """Searches one knowledge base for one tenant.

    `ainvoke(query, ll_keywords=…, hl_keywords=…)` returns passages, then entities, then relations (see
    `results.to_documents`); an empty list means that nothing was found. What was really sent to each
    channel is in `ixrag.documents.current_report()`.

    The query is the visitor's own words or what a resolver made of them; a conversation is never
    forwarded, and `conversation_history` is dropped if a caller passes it. Graph keywords are supplied
    by the caller, or extracted from the query: without a model where the knowledge base has none, which
    never calls one, else by LightRAG on that model. One keyword list alone is dropped: LightRAG would
    take the missing one for an order to leave that channel out.

    `invoke` works in any thread but the one whose event loop is running, where `ainvoke` belongs.

    Raises:
        RetrievalError: LightRAG did not answer (`timeout`, `unavailable`, `closed`).
    """

    knowledge_base: SkipValidation[KnowledgeBase] = Field(exclude=True, repr=False)
    rag_mode: RagMode = Field("mix", description="Channels the tenant has; resolution depends on it.")
    search_mode: RagMode | None = Field(None, description="Channels to search instead; for evaluation.")
    tenant_id: str = ""
    company_name: str = ""
    k: int | None = Field(None, ge=0, description="Most documents to return; None returns all.")

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        ll_keywords: Sequence[str] | None = None,
        hl_keywords: Sequence[str] | None = None,
        conversation_history: Any = None,
        k: int | None = None,
    ) -> list[Document]:
        try:
            return await self._search(query, ll_keywords, hl_keywords, conversation_history, k)
        except asyncio.CancelledError as cancelled:
            # LangChain closes a run on `Exception` alone, so a cancelled one would stay open for ever.
            await asyncio.shield(run_manager.on_retriever_error(cancelled))
            raise

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        ll_keywords: Sequence[str] | None = None,
        hl_keywords: Sequence[str] | None = None,
        conversation_history: Any = None,
        k: int | None = None,
    ) -> list[Document]:
        if asyncio._get_running_loop() is not None:
            raise RetrievalError(
                "`invoke` would block the running event loop; use `await retriever.ainvoke(…)`",
                reason="unavailable",
            )
        search = self._search(query, ll_keywords, hl_keywords, conversation_history, k)
        loop = self.knowledge_base.loop
        if not loop.is_running() and not loop.is_closed():
            return loop.run_until_complete(search)
        return self.knowledge_base.submit(search).result()

    async def _search(
        self,
        query: str,
        ll_keywords: Sequence[str] | None,
        hl_keywords: Sequence[str] | None,
        conversation_history: Any,
        k: int | None,
    ) -> list[Document]:
        report = current_report()
        if conversation_history is not None:
            report.facts["dropped"] = ["conversation_history"]
        mode = self.search_mode or self.rag_mode
        plan = plan_search(
            query,
            ll_keywords,
            hl_keywords,
            mode=mode,
            company_name=self.company_name,
            template=self.knowledge_base.config.company_binding,
            names=None if self.knowledge_base.extracts_keywords else self.knowledge_base.name_index,
        )
        _report_plan(report, plan, mode)
        if not plan.text:
            report.facts["reason"] = "empty_query"
            return []
        try:
            answer = await self.knowledge_base.search(
                plan.text,
                mode=mode,
                ll_keywords=plan.ll_keywords,
                hl_keywords=plan.hl_keywords,
                query=plan.query,
                tenant_id=self.tenant_id,
            )
        except RetrievalError as error:
            report.facts["reason"] = error.reason
            raise
        documents = to_documents(answer.raw, self.knowledge_base.catalog, self.tenant_id)
        _report_answer(report, plan, answer, documents)
        limit = self.k if k is None else k
        return documents if limit is None else documents[:limit]


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """What will be sent.

    Attributes:
        query: The words that were asked for; blank characters and lone surrogates gone.
        text: What LightRAG is given: the query, bound to the company, for a keyword model to read. Its
            vector channel gets the query alone. "" when there is nothing to search.
        ll_keywords: Entity terms for LightRAG; empty together with `hl_keywords`.
        hl_keywords: Theme terms.
        keyword_source: `supplied`, `local`, `lightrag`, or "" in a mode without a graph.
        dropped: What the caller gave that was not used.
    """

    query: str
    text: str
    ll_keywords: tuple[str, ...] = ()
    hl_keywords: tuple[str, ...] = ()
    keyword_source: str = ""
    dropped: tuple[str, ...] = ()


def plan_search(
    query: str,
    ll_keywords: Sequence[str] | None,
    hl_keywords: Sequence[str] | None,
    *,
    mode: RagMode,
    company_name: str,
    template: str | None,
    names: NameIndex | None,
) -> SearchPlan:
    """Decide what a search sends. No I/O.

    Args:
        query: Any string.
        ll_keywords: Entity terms of the caller.
        hl_keywords: Theme terms of the caller; used with the others or not at all.
        mode: Channels searched; `naive` has no keywords.
        company_name: For the template; "" leaves the query as it is.
        template: Text with `{company}` and `{query}` that ties "you" to the company, or None.
        names: Names to extract keywords with; None leaves the extraction to LightRAG.
    """
    query = searchable(query)
    if not query:
        return SearchPlan("", "")
    bound = template.format(company=company_name, query=query) if template and company_name else query
    text = lift(bound.strip())
    ll, hl = _clean(ll_keywords), _clean(hl_keywords)
    if mode == "naive":
        return SearchPlan(query, text, dropped=("keywords",) if ll or hl else ())
    if ll and hl:
        return SearchPlan(query, text, ll, hl, "supplied")
    dropped = ("single_keyword_list",) if ll or hl else ()
    if names is None:
        return SearchPlan(query, text, keyword_source="lightrag", dropped=dropped)
    local_ll, local_hl = extract_keywords(query, names)
    return SearchPlan(query, text, tuple(local_ll), tuple(local_hl), "local", dropped)


def searchable(query: str) -> str:
    """The query without what no model can read; "" when no visible character is left."""
    text = query.encode("utf-8", "replace").decode("utf-8").replace("\0", " ").strip()
    return text if any(unicodedata.category(c)[0] not in "CZ" for c in text) else ""


def lift(text: str) -> str:
    """`text`, in quotation marks when LightRAG would refuse it as too short ("Ok", "5"): it wants three
    letters, or two of Chinese, Japanese or Korean."""
    from lightrag.query_validation import meets_min_rag_query_weight

    return text if not text or meets_min_rag_query_weight(text) else f"“{text.strip()}”"


def _clean(keywords: Sequence[str] | None) -> tuple[str, ...]:
    """Keywords with text in them. A lone string is one keyword, not a list of letters."""
    terms = [keywords] if isinstance(keywords, str) else keywords or ()
    return tuple(term for term in map(searchable, terms) if term)


def _report_plan(report: SearchReport, plan: SearchPlan, mode: RagMode) -> None:
    report.vector_text = plan.query
    report.keyword_source = plan.keyword_source
    report.ll_keywords, report.hl_keywords = _read_by(mode, plan.ll_keywords, plan.hl_keywords)
    report.facts["mode"] = mode
    if plan.text != plan.query:
        report.facts["sent"] = plan.text
    if plan.dropped:
        report.facts["dropped"] = [*report.facts.get("dropped", ()), *plan.dropped]


def _report_answer(
    report: SearchReport, plan: SearchPlan, answer: Answer, documents: Sequence[Document]
) -> None:
    if plan.keyword_source == "lightrag":
        report.ll_keywords, report.hl_keywords = _read_by(report.facts["mode"], *used_keywords(answer.raw))
    if answer.keyword_failure:
        report.keyword_source = "local"
        report.facts["keyword_failure"] = answer.keyword_failure
    for kind, key in (("chunk", "chunks"), ("entity", "entities"), ("relation", "relations")):
        report.facts[key] = sum(document.metadata["kind"] == kind for document in documents)
    if not documents:
        report.facts["reason"] = "nothing_found"


def _read_by(mode: RagMode, ll: Sequence[str], hl: Sequence[str]) -> tuple[list[str], list[str]]:
    """The lists a mode reads: `local` entities alone, `global` themes alone, `naive` neither."""
    return (
        [] if mode in ("naive", "global") else list(ll),
        [] if mode in ("naive", "local") else list(hl),
    )
