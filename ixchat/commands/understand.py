"""`ix understand`: what a query is made into, and what each index would be asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ixchat.chat_routing import chat_model
from ixchat.understanding import build_pipeline, open_cache
from ixinfra.config.settings import Settings, TenantConfig
from ixinfra.embeddings import Embedder, build_embedder
from ixinfra.errors import ConfigError, MissingExtraError
from ixrag.query.cache import RedisCache
from ixrag.query.context import QueryContext
from ixrag.query.forms import COMPONENTS, EVERYWHERE, Channel, forms
from ixrag.query.glossary import GlossaryExpander, InMemoryGlossary
from ixrag.query.glossary_files import load_glossary_of
from ixrag.query.understanding import UnderstoodQuery

CHANNELS: tuple[Channel, ...] = ("lexical", "dense", "graph")
NO_MODEL = "no rewrites and no made-up answer: models.query_understanding names no chat model"


async def run(
    settings: Settings,
    console: Console,
    *,
    query: str,
    tenant: str,
    hyde: bool,
    terms: Sequence[str],
    synonyms: Sequence[str],
    as_json: bool,
) -> None:
    """Understand one query with everything that is configured, and print it. No knowledge base is opened.

    Args:
        settings: What `get_config` read.
        console: Where it is printed.
        query: The query.
        tenant: Whose language and glossary; unknown ids are allowed.
        hyde: Whether made-up answers are wanted.
        terms: Glossary terms given by hand; they replace the tenant's glossary.
        synonyms: One comma-separated list for each term.
        as_json: Print the `UnderstoodQuery` and the forms instead of tables.

    Raises:
        ConfigError: As many terms as lists of synonyms are needed; or a glossary or route is wrong.
    """
    model = chat_model(settings.models, "query_understanding")
    glossary = _glossary(settings, tenant, terms, synonyms)
    components = [
        component
        for component in COMPONENTS
        if (component != "hyde" or hyde) and (component != "glossary" or glossary)
    ]
    cache = open_cache(settings.query_understanding)
    pipeline = build_pipeline(
        settings.query_understanding,
        components,
        model=model,
        embedder=_embedder(settings) if model and hyde else None,
        glossary=glossary,
        cache=cache,
    )
    configured = settings.tenants.get(tenant)
    understood = await pipeline.understand(QueryContext(tenant, _language(configured)), query)
    if isinstance(cache, RedisCache):
        await cache.close()
    if as_json:
        console.print_json(data={**understood.model_dump(mode="json"), "searches": searches(understood)})
    else:
        console.print(page(understood, "" if model else NO_MODEL))


def searches(understood: UnderstoodQuery) -> dict[Channel, list[dict[str, Any]]]:
    """What each index would be asked: the query itself first, then every form at home there."""
    found = forms(understood, EVERYWHERE)
    own: dict[str, Any] = {"text": understood.original_text, "from": "query"}
    return {
        channel: [own, *({"text": f.text, "from": f.component} for f in found if channel in f.channels)]
        for channel in CHANNELS
    }


def page(understood: UnderstoodQuery, note: str = "") -> RenderableType:
    """The searches of each index, and what failed."""
    parts: list[RenderableType] = []
    for channel, asked in searches(understood).items():
        table = Table(title=f"{channel} index", title_justify="left", show_header=False, box=None)
        table.add_column(style="dim", width=11)
        table.add_column(overflow="fold")
        for search in asked:
            table.add_row(search["from"], Text(search["text"]))
        parts.append(table)
    failed = understood.metadata.get("partial_failures")
    if failed:
        parts.append(Text(f"failed: {', '.join(failed)}", style="red"))
    parts.append(Text(f"{understood.metadata['elapsed_ms']:.1f} ms", style="dim"))
    if note:
        parts.append(Text(note, style="dim"))
    return Group(*parts)


def _glossary(
    settings: Settings, tenant: str, terms: Sequence[str], synonyms: Sequence[str]
) -> GlossaryExpander | None:
    if len(terms) != len(synonyms):
        raise ConfigError(
            f"{len(terms)} --glossary-term and {len(synonyms)} --glossary-synonyms: give one list for each term"
        )
    if terms:
        pairs = zip(terms, synonyms, strict=True)
        return InMemoryGlossary({term: [word.strip() for word in words.split(",")] for term, words in pairs})
    folder = settings.query_understanding.glossary_dir
    return load_glossary_of(tenant, folder) if folder else None


def _embedder(settings: Settings) -> Embedder | None:
    try:
        return build_embedder(settings.embedding)
    except MissingExtraError:
        return None


def _language(tenant: TenantConfig | None) -> str:
    return tenant.language if tenant else ""
