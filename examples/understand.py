"""One query, everything its indexes may be asked, and a component of one's own. Run: `python examples/understand.py`.

Needs no key and no network. With a chat model, add `rewriter=LLMQueryRewriter(model)` and
`hyde=HyDEGenerator(model, embedder)`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from ixrag.query import (
    HeuristicQueryDecomposer,
    QueryContext,
    QueryRewriter,
    QueryUnderstandingPipeline,
    load_tenant_glossaries,
)
from ixrag.query.forms import EVERYWHERE, forms

GLOSSARIES = Path(__file__).parent / "glossaries"
QUERIES = [
    "How does the punch clock work and what does it cost?",
    "Comment saisir les congés d'un intérimaire et qui les valide ?",
    "Wie sieht der Dienstplan aus?",
]


class SpeltOut(QueryRewriter):
    """A rewriter of one's own: any class with this method will do. This one has bad manners."""

    async def rewrite(self, ctx: QueryContext, query_text: str, *, n: int = 3) -> list[str]:
        return [query_text, query_text.replace("cost", "cost per month"), "", query_text.upper()]


async def main() -> None:
    """Understand a few queries, and print what each index would be asked beside the query itself."""
    pipeline = QueryUnderstandingPipeline(
        rewriter=SpeltOut(),
        decomposer=HeuristicQueryDecomposer(),
        glossary=load_tenant_glossaries(GLOSSARIES),
    )
    for query in QUERIES:
        understood = await pipeline.understand(QueryContext(tenant_id="acme"), query)
        print(f"\n{query}")
        for form in forms(understood, EVERYWHERE):
            print(f"  {form.component:10} -> {', '.join(sorted(form.channels)):21}  {form.text}")
        print(f"  {understood.metadata['elapsed_ms']:.1f} ms")


if __name__ == "__main__":
    asyncio.run(main())
