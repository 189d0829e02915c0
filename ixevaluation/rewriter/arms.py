"""What an evaluation compares: each arm is a function from a turn to a `Plan` of the shipping node.

`ARMS["production"]` is the shipping policy itself, not a copy. Every arm runs through the shipping
`retrieve`, so deadlines, fallbacks and the early search are those of the product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from langchain_core.language_models import BaseChatModel

from ixchat.nodes.knowledge_retriever import Deps, Plan, choose, keep_because
from ixchat.utils.query_keywords import should_resolve
from ixchat.utils.query_rewriter import rewrite_query
from ixchat.utils.resolution import KeywordQuery, Resolution, Resolver, Turn
from ixevaluation.rewriter import expansion, prose
from ixevaluation.rewriter.carry_over import carry_over
from ixevaluation.rewriter.engine_arms import ENGINE_ARMS
from ixevaluation.rewriter.evidence import EVIDENCE_ARMS
from ixevaluation.rewriter.fusion import KeepingRetriever
from ixevaluation.rewriter.understanding_arms import UNDERSTANDING_ARMS
from ixinfra.embeddings import Embedder
from ixinfra.errors import ConfigError
from ixrag.names import NameIndex
from ixrag.query.glossary import GlossaryExpander

PROSE_DEADLINE_S = 10.0  # an evaluation waits longer than a visitor: it measures words, not deadlines


@dataclass(frozen=True, slots=True)
class ArmDeps(Deps):
    """What arms need beyond the shipping dependencies.

    Attributes:
        model: Chat model of the prose arms; None where the configuration names no model.
        ungated_text: The text resolver without its gate; None uses the gated one. The route
            `local:rules` has no ungated form: it declines what the gate declines.
        ungated_keywords: The keyword resolver without its gate, likewise.
        names: The names of the knowledge base; none for the lexical index.
        rarity: How rare the rarest word of a text is in the knowledge base, in nats; 0 for unknown words.
        embedder: Embeds made-up answers; None leaves them texts.
        glossary: Finds synonyms; None for none.
    """

    model: BaseChatModel | None = None
    ungated_text: Resolver | None = None
    ungated_keywords: Resolver | None = None
    names: NameIndex = field(default_factory=NameIndex)
    rarity: Callable[[str], float] = lambda _text: 0.0
    embedder: Embedder | None = None
    glossary: GlossaryExpander | None = None


Arm = Callable[[Turn, ArmDeps], Plan]

_OFF = keep_because("disabled")
_FIRST = keep_because("first_turn")
_DECLINED = keep_because("gate_declined")


def off(turn: Turn, deps: ArmDeps) -> Plan:
    """The control: the visitor's message, no model, no keywords."""
    return _OFF


def intent(turn: Turn, deps: ArmDeps) -> Plan:
    """Resolve every follow-up into a search text."""
    return _every_follow_up(turn, deps.ungated_text or deps.text_resolver)


def gated(turn: Turn, deps: ArmDeps) -> Plan:
    """Resolve short replies into a search text, whatever channels the tenant has."""
    return _if_gate(turn, Plan(deps.text_resolver, "intent", "tool-query-intent", False, PROSE_DEADLINE_S))


def keywords(turn: Turn, deps: ArmDeps) -> Plan:
    """Resolve every follow-up into graph keywords."""
    if not turn.messages:
        return _FIRST
    return _keyword_plan(deps.ungated_keywords or deps.keyword_resolver)


def keywords_gated(turn: Turn, deps: ArmDeps) -> Plan:
    """Resolve short replies into graph keywords."""
    return _if_gate(turn, _keyword_plan(deps.keyword_resolver))


def fused(turn: Turn, deps: ArmDeps) -> Plan:
    """Keywords for the graph, and appended to the visitor's words for the chunks."""

    async def resolve(turn: Turn) -> Resolution:
        found = await (deps.ungated_keywords or deps.keyword_resolver)(turn)
        if not isinstance(found, KeywordQuery) or not found.ll_keywords:
            return found
        return KeywordQuery(
            found.vector_text,
            "resolve",
            None,
            found.trace,
            ll_keywords=found.ll_keywords,
            hl_keywords=found.hl_keywords,
        )

    return _every_follow_up(turn, resolve)


def both(turn: Turn, deps: ArmDeps) -> Plan:
    """Keywords for the graph, and a second model call that rewrites the text for the chunks."""
    model = _model(deps, "both")

    async def resolve(turn: Turn) -> Resolution:
        found = await (deps.ungated_keywords or deps.keyword_resolver)(turn)
        text = await prose.rewrite(turn, model, prose.CANDIDATE)
        if not isinstance(found, KeywordQuery) or not found.ll_keywords:
            return text
        return KeywordQuery(
            text.query,
            "resolve",
            None,
            found.trace,
            ll_keywords=found.ll_keywords,
            hl_keywords=found.hl_keywords,
        )

    return _every_follow_up(turn, resolve)


def legacy(turn: Turn, deps: ArmDeps) -> Plan:
    """The retired prose rewriter, first turns included, with the defects it had."""
    model = _model(deps, "legacy")

    async def resolve(turn: Turn) -> Resolution:
        return await rewrite_query(turn, model)

    return Plan(resolve, "intent", "tool-query-rewriter", False, PROSE_DEADLINE_S)


def weighted_fusion(turn: Turn, deps: ArmDeps) -> Plan:
    """Search the visitor's words and a rewrite, and fuse both rankings."""
    model = _model(deps, "weighted-fusion")

    async def resolve(turn: Turn) -> Resolution:
        return await prose.rewrite(turn, model, prose.CANDIDATE)

    plan = _every_follow_up(turn, resolve)
    return replace(plan, retriever=KeepingRetriever(deps.retriever, turn.query))


def concat_previous(turn: Turn, deps: ArmDeps) -> Plan:
    """The previous visitor message in front of this one."""
    return _text_arm(turn, expansion.with_previous_message)


def concat_users(turn: Turn, deps: ArmDeps) -> Plan:
    """This message and all earlier visitor messages, newest first."""
    return _text_arm(turn, expansion.with_all_user_messages)


def hqe(turn: Turn, deps: ArmDeps) -> Plan:
    """Append the rare words of earlier messages; no model."""
    return _text_arm(turn, lambda turn: expansion.with_rare_words(turn, deps.rarity))


def prose_arm(name: str, instruction: prose.Instruction) -> Arm:
    """An arm that searches what a chat model writes instead of the visitor's message."""

    def plan(turn: Turn, deps: ArmDeps) -> Plan:
        model = _model(deps, name)

        async def resolve(turn: Turn) -> Resolution:
            return await prose.rewrite(turn, model, instruction)

        return _every_follow_up(turn, resolve)

    plan.__doc__ = instruction.purpose
    return plan


ARMS: Mapping[str, Arm] = {
    "off": off,
    "production": choose,
    "legacy": legacy,
    "candidate": prose_arm("candidate", prose.CANDIDATE),
    "minimal": prose_arm("minimal", prose.MINIMAL),
    "keywords": keywords,
    "keywords-gated": keywords_gated,
    "fused": fused,
    "both": both,
    "hyde": prose_arm("hyde", prose.HYDE),
    "intent": intent,
    "gated": gated,
    "concat-previous": concat_previous,
    "concat-users": concat_users,
    "condense": prose_arm("condense", prose.CONDENSE),
    "full-question": prose_arm("full-question", prose.FULL_QUESTION),
    "weighted-fusion": weighted_fusion,
    "hqe": hqe,
    "carry-over": carry_over,
    **EVIDENCE_ARMS,
    **UNDERSTANDING_ARMS,
    **ENGINE_ARMS,
}
ALIASES: Mapping[str, str] = {"current": "legacy"}


def find_arm(name: str) -> tuple[str, Arm]:
    """Canonical name and function of an arm.

    Raises:
        ConfigError: No such arm; lists the known ones.
    """
    canonical = ALIASES.get(name, name)
    if canonical not in ARMS:
        raise ConfigError(f"unknown arm {name!r}; expected one of {[*ARMS, *ALIASES]}")
    return canonical, ARMS[canonical]


def _if_gate(turn: Turn, plan: Plan) -> Plan:
    if not turn.messages:
        return _FIRST
    return plan if should_resolve(turn.query) else _DECLINED


def _keyword_plan(resolver: Resolver) -> Plan:
    return Plan(resolver, "keywords", "tool-query-keywords", False, PROSE_DEADLINE_S)


def _every_follow_up(turn: Turn, resolver: Resolver) -> Plan:
    return Plan(resolver, "intent", "tool-query-intent", False, PROSE_DEADLINE_S) if turn.messages else _FIRST


def _text_arm(turn: Turn, expand: Callable[[Turn], str]) -> Plan:
    """A plan that searches a text computed from the turn; no model, so no span and no deadline."""
    if not turn.messages:
        return _FIRST

    async def resolve(turn: Turn) -> Resolution:
        text = expand(turn)
        return Resolution(text, "resolve" if text != turn.query else "keep")

    return Plan(resolve)


def _model(deps: ArmDeps, arm: str) -> BaseChatModel:
    if deps.model is None:
        raise ConfigError(
            f"arm {arm!r} needs a chat model: set [models.query_rewriter] model in the environment's TOML"
        )
    return deps.model
