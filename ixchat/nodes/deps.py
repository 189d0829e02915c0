"""What a tenant's turns need, who lends it, and what a turn may be planned as."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel

from ixchat.nodes.ahead import AheadBudget
from ixchat.nodes.record import Path
from ixchat.utils.intent_gate import IntentGate
from ixchat.utils.resolution import Fallback, Resolution, Resolver, Turn, Weigher, keep_raw
from ixinfra.errors import UnknownTenantError
from ixinfra.tracing import NO_TRACER, Tracer
from ixrag.documents import Retriever

Redirect = Callable[[Turn], Awaitable[str | None]]
"""A host's branch that may end the turn while retrieval runs: the reply to give, or None to go on."""

Emit = Callable[[dict[str, Any]], None]
"""Receives the turn's events as they happen; LangGraph's stream writer is one."""


@dataclass(frozen=True, slots=True)
class Resolvers:
    """One resolver for each path."""

    text: Resolver
    keywords: Resolver
    reference: Resolver


@dataclass(frozen=True, slots=True)
class Deps:
    """Everything one tenant's turns need: the live objects, built once.

    Attributes:
        retriever: Searches the tenant's knowledge base; its `rag_mode` says which channels exist.
        text_resolver: Short replies of tenants without a graph.
        keyword_resolver: Short replies of tenants with a graph.
        reference_resolver: Longer follow-ups of tenants with a graph.
        enabled: The switch `query_rewriter.enabled`. Off: the visitor's words and nothing else.
        tenant_id: Key of caches and spans.
        company_name: The company whose site this is.
        language: Main language of its visitors, ISO 639 code.
        tracer: Where spans go.
        local: The resolvers that need no model, for requests that want no other; None where there are none.
        foresee: Guesses a follow-up's resolution in microseconds, so that it can be searched while the
            check runs; None when the check itself is that fast.
        ahead: How much may be searched on such guesses.
        weigh: Finds the words a message lacks, for engines that search written words; None elsewhere.
        gate: Says what a message needs, on tenants of the hybrid engine; None elsewhere.
        fused: Search the visitor's own words beside every resolved text, and fuse both rankings.
        redirect: A branch that may end the turn while retrieval runs; None for none.
        answer_model: Writes answers in the chat graph; None quotes the best passages instead.
        short_reply_deadline_s: Longest wait for the two short-reply resolvers, in seconds.
        reference_deadline_s: Longest wait for the reference check, in seconds.
        redirect_deadline_s: Longest wait for `redirect` once the search has ended, in seconds.
        grace_s: Longest wait for cancelled work when the node ends, in seconds.
    """

    retriever: Retriever
    text_resolver: Resolver = keep_raw
    keyword_resolver: Resolver = keep_raw
    reference_resolver: Resolver = keep_raw
    enabled: bool = True
    tenant_id: str = ""
    company_name: str = ""
    language: str = "en"
    tracer: Tracer = NO_TRACER
    local: Resolvers | None = None
    foresee: Resolver | None = None
    ahead: AheadBudget = field(default_factory=AheadBudget)
    weigh: Weigher | None = None
    gate: IntentGate | None = None
    fused: bool = False
    redirect: Redirect | None = None
    answer_model: BaseChatModel | None = None
    short_reply_deadline_s: float = 1.0
    reference_deadline_s: float = 2.0
    redirect_deadline_s: float = 1.0
    grace_s: float = 0.15


class Tenants(Protocol):
    """Lends a tenant's `Deps` for the length of a turn, so that it is not closed under it."""

    def lend(self, tenant_id: str) -> AbstractAsyncContextManager[Deps]:
        """The tenant's `Deps`.

        Raises:
            UnknownTenantError: No such tenant is configured.
        """


@dataclass(frozen=True, slots=True)
class OneTenant:
    """The `Tenants` of a graph that serves a single tenant."""

    deps: Deps

    @asynccontextmanager
    async def lend(self, tenant_id: str) -> AsyncIterator[Deps]:
        """The one `Deps`, for the empty id or its own.

        Raises:
            UnknownTenantError: Another tenant was asked for.
        """
        if tenant_id and self.deps.tenant_id and tenant_id != self.deps.tenant_id:
            raise UnknownTenantError(
                f"unknown tenant {tenant_id!r}; this graph serves {self.deps.tenant_id!r} alone"
            )
        yield self.deps


@dataclass(frozen=True, slots=True)
class Plan:
    """How a turn becomes retrieval input.

    Attributes:
        resolver: Makes the resolution.
        path: Which of the resolvers it is.
        span_name: Span of the resolver; None when there is nothing to see.
        search_meanwhile: Whether the visitor's own words are searched while the resolver decides.
        deadline_s: Longest wait for the resolver, in seconds.
        retriever: Searches instead of the tenant's own; None for that one.
        keep_own_words: Whether the visitor's own words are searched, too, when the turn resolves, and both
            rankings fused.
        foresee: Guesses the resolution, to be searched ahead of the verdict; None for no guess.
        weigh: Finds words to weigh beside whatever is searched; None for none.
    """

    resolver: Resolver = keep_raw
    path: Path = "raw"
    span_name: str | None = None
    search_meanwhile: bool = False
    deadline_s: float = 2.0
    retriever: Retriever | None = None
    keep_own_words: bool = False
    foresee: Resolver | None = None
    weigh: Weigher | None = None


def keep_because(reason: Fallback) -> Plan:
    """The plan that searches the visitor's own words, for a stated reason."""

    async def keep(turn: Turn) -> Resolution:
        return Resolution(turn.query, fallback=reason)

    return Plan(keep)
