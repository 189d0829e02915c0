"""Build a set from recorded turns: dedupe, cap per site, tag, scrub."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from ixchat.utils.history import turn_from
from ixchat.utils.resolution import Turn
from ixevaluation.dataset import HistoryMessage, Item, Split, content_hash, read_records
from ixevaluation.public import surface_mode
from ixevaluation.publishers import split_of
from ixevaluation.rewriter.hygiene import guess_language
from ixevaluation.scrub import find_personal, scrub_conversation
from ixinfra.errors import DatasetError

SeedName = Literal["v1", "elliptic", "reference"]
SEEDS: tuple[SeedName, ...] = get_args(SeedName)
Skipped = Literal[
    "not of this kind", "no history text", "language unknown", "duplicate", "other half", "site is full"
]

MAX_REPLY_WORDS = 5  # an elliptical turn: a reply of at most five words to a question of the agent
CAP_PER_SITE = 14  # so that one busy site does not become the set


@dataclass(frozen=True, slots=True)
class Seeded:
    """What came out of an export; `skipped` says why turns were left out."""

    items: tuple[Item, ...]
    skipped: Mapping[str, int]


def seed_items(
    path: Path,
    name: SeedName,
    *,
    existing: Iterable[Item] = (),
    cap_per_site: int = CAP_PER_SITE,
    split: Split = "dev",
) -> Seeded:
    """Items for one kind of set from an export of recorded turns.

    Each line is a turn, or a span whose `input` is one: `query` with `history` or `messages`, and where
    known `site`, `lang`, `company_name`, `conversation`, `trace_id`. Labels and needs are for a person to add.

    Args:
        path: JSON Lines.
        name: `v1` takes every follow-up, `elliptic` short replies to a question, `reference` longer follow-ups.
        existing: Items that are not to be seeded again.
        cap_per_site: Most items of one site.
        split: Which half of the conversations.

    Raises:
        DatasetError: A bad line, or personal data that scrubbing left behind.
    """
    seen = {_key(item.query, item.history[-1].content if item.history else "") for item in existing}
    per_site: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    items = []
    for number, record in read_records(path):
        candidate = _candidate(record, f"{path}:{number}", name, split)
        if isinstance(candidate, str):
            skipped[candidate] += 1
            continue
        item, key = candidate
        reason: Skipped | None = (
            "duplicate" if key in seen else "site is full" if per_site[item.site] >= cap_per_site else None
        )
        if reason:
            skipped[reason] += 1
            continue
        seen.add(key)
        per_site[item.site] += 1
        items.append(item)
    refuse_personal(items)
    return Seeded(tuple(items), dict(skipped))


def refuse_personal(items: Sequence[Item]) -> None:
    """Refuse items that hold what scrubbing should have replaced.

    Raises:
        DatasetError: Names the item and the kind, never the value.
    """
    for item in items:
        for text in item_texts(item):
            if found := find_personal(text, lang=item.lang):
                raise DatasetError(
                    f"item {item.id!r} holds personal data ({found[0].kind}); nothing was written"
                )


def item_texts(item: Item) -> list[str]:
    """Every text of an item that came from a conversation."""
    return [*(message.content for message in item.history), item.query, item.need or "", item.answer or ""]


def _candidate(
    record: Mapping[str, Any], where: str, name: SeedName, split: Split
) -> tuple[Item, str] | Skipped:
    source = record["input"] if isinstance(record.get("input"), dict) else record
    query = source.get("query")
    if not isinstance(query, str) or not query.strip():
        raise DatasetError(f"{where}: field 'query': expected the visitor's message as text")
    turn = turn_from(
        query, source.get("history", source.get("messages", ())), str(source.get("company_name") or "")
    )
    if not turn.messages:
        return "no history text"
    if not _KIND[name](turn):
        return "not of this kind"
    lang = str(source.get("lang") or record.get("lang") or guess_language(_all_text(turn)) or "")
    if not lang:
        return "language unknown"
    conversation = str(
        source.get("conversation")
        or record.get("traceId")
        or record.get("trace_id")
        or _key(query, _all_text(turn))
    )
    if split_of(conversation) != split:
        return "other half"
    site = str(source.get("site") or record.get("site") or turn.company_name or "unknown")
    return _scrubbed(turn, name, lang=lang, conversation=conversation, site=site, split=split), _key(
        query, turn.messages[-1].content
    )


def _scrubbed(turn: Turn, name: SeedName, *, lang: str, conversation: str, site: str, split: Split) -> Item:
    messages = [*((message.role, message.content) for message in turn.messages), ("user", turn.query)]
    *earlier, query = scrub_conversation(messages, lang=lang, salt=site)
    history = tuple(
        HistoryMessage(role=message.role, content=text)
        for message, text in zip(turn.messages, earlier, strict=True)
    )
    mode = "reference" if name == "reference" else surface_mode(query, history)
    return Item(
        id=f"{name}-{content_hash([site, messages])[:12]}",
        site=site,
        lang=lang,
        mode=mode,
        history=history,
        query=query,
        company_name=turn.company_name,
        tags=("seeded",),
        split=split,
        conversation=content_hash(conversation)[:12],
    )


def _is_elliptic(turn: Turn) -> bool:
    last = turn.messages[-1]
    return last.role == "assistant" and "?" in last.content and len(turn.query.split()) <= MAX_REPLY_WORDS


_KIND: Mapping[SeedName, Callable[[Turn], bool]] = {
    "v1": lambda _turn: True,
    "elliptic": _is_elliptic,
    "reference": lambda turn: len(turn.query.split()) > MAX_REPLY_WORDS or "?" in turn.query,
}


def _key(query: str, context: str) -> str:
    return content_hash([" ".join(query.casefold().split()), " ".join(context.casefold().split())])


def _all_text(turn: Turn) -> str:
    return " ".join([*(message.content for message in turn.messages), turn.query])
