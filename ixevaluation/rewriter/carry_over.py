"""A bare yes takes the passages along that the assistant's offer came from."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

from ixchat.nodes.knowledge_retriever import Plan, choose
from ixchat.utils.local.replies import read_reply
from ixchat.utils.resolution import Turn
from ixinfra.config.settings import RagMode
from ixrag.documents import Retriever, current_report, search_report
from ixrag.search.fusion import Ranking, fuse_documents

if TYPE_CHECKING:
    from ixevaluation.rewriter.arms import ArmDeps

WEIGHT = 0.5  # of the passages taken along, beside those found for the reply


@dataclass(frozen=True, slots=True)
class CarryingRetriever:
    """Searches what it is given, and fuses what the exchange before had found.

    Attributes:
        inner: Searches one text.
        before: What was searched then. A host knows the passages themselves; a data set does not hold them.
        weight: Of what was found then.
    """

    inner: Retriever
    before: str
    weight: float = WEIGHT

    @property
    def rag_mode(self) -> RagMode:
        """The inner retriever's."""
        return self.inner.rag_mode

    async def ainvoke(self, input: str, **kwargs: Any) -> Sequence[Document]:
        """Documents of both, fused by weighted reciprocal rank. The report names the text searched before."""
        found, carried = await asyncio.gather(self.inner.ainvoke(input, **kwargs), self._carried())
        current_report().facts["carried"] = [self.before]
        return fuse_documents([Ranking(found), Ranking(carried, self.weight)])

    async def _carried(self) -> Sequence[Document]:
        with search_report():  # its own: the turn's says what was sent for the reply
            return await self.inner.ainvoke(self.before)


def carry_over(turn: Turn, deps: ArmDeps) -> Plan:
    """Production; on a bare yes, fused with the passages found for the exchange before."""
    plan = choose(turn, deps)
    asked = next((said.content for said in reversed(turn.messages) if said.role == "user"), None)
    if asked is None or read_reply(turn, deps.names).act != "accepts":
        return plan
    return replace(plan, retriever=CarryingRetriever(deps.retriever, asked))
