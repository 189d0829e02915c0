"""`ix demo`: a scripted conversation on the sample knowledge base, decision by decision."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from rich.console import Console

from ixchat.commands import show
from ixchat.graph import open_tenants
from ixchat.nodes.knowledge_retriever import Deps, Tenants, retrieve
from ixchat.nodes.record import Retrieval
from ixchat.utils.history import turn_from
from ixchat.utils.query_intent import resolve_search_query
from ixchat.utils.query_keywords import build_keyword_query, resolve_reference
from ixinfra.config.settings import Settings
from ixinfra.errors import UnknownTenantError
from ixinfra.tracing_tree import RecordingTracer, SpanRecord


@dataclass(frozen=True, slots=True)
class PlayedTurn:
    """One scripted turn and what came of it."""

    scene: dict[str, Any]
    turn: dict[str, Any]
    retrieval: Retrieval
    spans: Sequence[SpanRecord]

    def as_json(self) -> dict[str, Any]:
        """The same as data."""
        return {
            "scene": self.scene["id"],
            "tenant": self.scene["tenant"],
            "language": self.scene["lang"],
            "message": self.turn["user"],
            "expected": self.turn.get("expect"),
            "record": self.retrieval.record,
            "documents": show.documents_as_json(self.retrieval.documents),
            "spans": show.spans_as_json(self.spans),
        }


class DeadModel(BaseChatModel):
    """A chat model whose server is down."""

    @property
    def _llm_type(self) -> str:
        return "dead"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise ConnectionRefusedError

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise ConnectionRefusedError


def scenes() -> list[dict[str, Any]]:
    """The script: scenes of `{id, tenant, lang, title, turns}`, bundled with the package."""
    script = files("ixchat") / "sample" / "conversation.json"
    loaded: list[dict[str, Any]] = json.loads(script.read_text(encoding="utf-8"))["scenarios"]
    return loaded


def scenes_for(tenant: str, settings: Settings) -> list[dict[str, Any]]:
    """The scenes that a tenant plays; all that name their tenant for "".

    A tenant on the hybrid engine plays every scene, without its notes and expectations, which are about
    LightRAG.

    Raises:
        UnknownTenantError: No scene is played by `tenant`.
    """
    configured = settings.tenants.get(tenant)
    if configured is not None and configured.retriever == "hybrid":
        return [_played_by(tenant, scene) for scene in scenes()]
    script = [scene for scene in scenes() if tenant in ("", scene["tenant"])]
    if not script:
        known = sorted({scene["tenant"] for scene in scenes()})
        raise UnknownTenantError(f"no scene for tenant {tenant!r}; the script has {known}")
    return script


def _played_by(tenant: str, scene: dict[str, Any]) -> dict[str, Any]:
    said = ("user", "assistant", "model")
    turns = [{key: turn[key] for key in said if key in turn} for turn in scene["turns"]]
    return {**scene, "tenant": tenant, "turns": turns}


async def play(
    script: Sequence[dict[str, Any]], tenants: Tenants, tracer: RecordingTracer
) -> AsyncIterator[PlayedTurn]:
    """Retrieve for every turn of the script, in order; the assistant's lines are the script's own."""
    for scene in script:
        history: list[dict[str, str]] = []
        for scripted in scene["turns"]:
            async with tenants.lend(scene["tenant"]) as lent:
                deps = _with_dead_model(lent) if scripted.get("model") == "dead" else lent
                turn = turn_from(
                    scripted["user"], history, company_name=deps.company_name, tenant_id=deps.tenant_id
                )
                with tracer.turn(session_id=scene["id"], tenant_id=scene["tenant"]):
                    retrieval = await retrieve(turn, deps)
            spans = [span for recorded in tracer.take() for span in recorded.spans]
            yield PlayedTurn(scene, scripted, retrieval, spans)
            history += [
                {"role": "user", "content": scripted["user"]},
                {"role": "assistant", "content": scripted["assistant"]},
            ]


async def run(settings: Settings, console: Console, *, tenant: str, as_json: bool) -> None:
    """Play and print.

    Raises:
        UnknownTenantError: No scene is played by `tenant`.
    """
    script = scenes_for(tenant, settings)
    tracer = RecordingTracer()
    played: list[PlayedTurn] = []
    announce = None if as_json else partial(console.print, style="dim")
    async with open_tenants(settings, tracer=tracer, announce=announce) as tenants:
        async for item in play(script, tenants, tracer):
            played.append(item)
            if not as_json:
                _print_turn(console, item, is_first=item.turn is item.scene["turns"][0])
    if as_json:
        console.print_json(data=[item.as_json() for item in played])


def _print_turn(console: Console, item: PlayedTurn, *, is_first: bool) -> None:
    if is_first:
        console.rule(
            f"{item.scene['title']} [dim]({item.scene['tenant']}, {item.scene['lang']})[/]", align="left"
        )
    console.print(
        show.turn_panel(
            f"› {item.turn['user']}",
            item.retrieval.record,
            item.retrieval.documents,
            item.spans,
            note=item.turn.get("note", ""),
        )
    )
    console.print(item.turn["assistant"], style="dim", markup=False, highlight=False)


def _with_dead_model(deps: Deps) -> Deps:
    model = DeadModel()
    return replace(
        deps,
        text_resolver=partial(resolve_search_query, model=model),
        keyword_resolver=partial(build_keyword_query, model=model),
        reference_resolver=partial(resolve_reference, model=model),
    )
