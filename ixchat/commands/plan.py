"""`ix understand --plan`: what the hybrid engine would ask of which index for a message, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ixchat.graph import open_tenants
from ixchat.nodes.knowledge_retriever import Deps, choose
from ixchat.utils.history import turn_from
from ixinfra.config.settings import Settings
from ixinfra.errors import ConfigError
from ixrag.search.engine import Explanation, HybridRetriever


async def run(
    settings: Settings,
    console: Console,
    *,
    query: str,
    history: Sequence[Mapping[str, Any]],
    tenant: str,
    as_json: bool,
) -> None:
    """Plan one message as the tenant's turns are planned, and print it. No index is searched.

    Args:
        settings: What `get_config` read.
        console: Where it is printed.
        query: The visitor's message.
        history: The conversation before it.
        tenant: Whose; "" for the first tenant on the hybrid engine.
        as_json: Print the plan as data.

    Raises:
        ConfigError: The tenant is not on the hybrid engine, or no tenant is.
    """
    chosen = tenant or _first_hybrid(settings)
    announce = None if as_json else partial(console.print, style="dim")
    async with open_tenants(settings, announce=announce) as tenants, tenants.lend(chosen) as deps:
        explained = await explain(deps, query, history)
    if as_json:
        console.print_json(data={"tenant": chosen, **explained})
    else:
        console.print(page(explained))


async def explain(deps: Deps, query: str, history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The decision of a turn and the plan of each of its searches, as JSON.

    Raises:
        ConfigError: The tenant is not on the hybrid engine.
    """
    turn = turn_from(query, history, company_name=deps.company_name, tenant_id=deps.tenant_id)
    plan = choose(turn, deps)
    retriever = plan.retriever or deps.retriever
    if not isinstance(retriever, HybridRetriever):
        raise ConfigError(
            f"tenant {deps.tenant_id!r} has retriever 'lightrag'; --plan explains 'hybrid', so name another --tenant"
        )
    resolution = await plan.resolver(turn)
    texts = [turn.query] if plan.keep_own_words or not resolution.changes(turn) else []
    if resolution.changes(turn):
        texts.append(resolution.query)
    return {
        "message": turn.query,
        "path": plan.path,
        "decision": resolution.decision,
        "reason": resolution.trace.get("reason"),
        "fallback": resolution.fallback,
        "languages": dict(retriever.languages),
        "searches": [_as_json(await retriever.explain(text)) for text in texts],
    }


def page(explained: Mapping[str, Any]) -> RenderableType:
    """Each search: its probes in order of use, then what was left out."""
    head = Text(f"{explained['path']}: ", style="bold")
    head.append(str(explained["decision"]))
    for reason in (explained["fallback"], explained["reason"]):
        head.append(f" ({reason})" if reason else "", style="dim")
    known = ", ".join(f"{count} {lang or '?'}" for lang, count in explained["languages"].items())
    parts: list[RenderableType] = [head, Text(f"passages by language: {known or 'none'}", style="dim")]
    for search in explained["searches"]:
        sure = "" if search["confidence"] is None else f", confidence {search['confidence']:.2f}"
        about = f"{search['lang'] or 'language unknown'}, {search['strategy']}{sure}"
        parts += [Text(f"\n“{search['query']}” ({about})"), _table(search)]
        if search["facts"]:
            facts = (f"{key}: {value}" for key, value in search["facts"].items())
            parts.append(Text(f"other forms: {', '.join(facts)}", style="dim"))
    return Group(*parts)


def _table(search: Mapping[str, Any]) -> Table:
    table = Table("asked", "form", "weight", "what, and why", box=None)
    made: dict[tuple[str, str], list[str]] = defaultdict(list)
    for number, probe in enumerate(search["probes"], start=1):
        made[probe["source"], probe["text"]].append(f"{number} {probe['channel']}")
    facts = {(probe["source"], probe["text"]): probe for probe in search["probes"]}
    for key, places in made.items():
        probe = facts[key]
        said = Text(probe["text"]).append(f"\n{probe['why']}", style="dim")
        table.add_row("\n".join(places), probe["source"], f"{probe['weight']:g}", said)
    for out in search["left_out"]:
        said = Text(out["text"], style="dim").append(f"\nleft out: {out['why']}", style="yellow")
        table.add_row(f"– {out['channel']}", out["source"], "", said)
    return table


def _as_json(found: Explanation) -> dict[str, Any]:
    return {
        "query": found.query,
        "lang": found.lang,
        "strategy": found.strategy,
        "confidence": found.confidence,
        **found.plan.as_json,
        "facts": dict(found.facts),
        "forms_ms": round(found.forms_ms, 2),
    }


def _first_hybrid(settings: Settings) -> str:
    for name, tenant in settings.tenants.items():
        if tenant.retriever == "hybrid":
            return name
    raise ConfigError(
        f'{settings.env}.toml has no tenant with retriever = "hybrid"; set it on one of {sorted(settings.tenants)}'
    )
