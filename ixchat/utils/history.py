"""Read a host's messages, and quote the last two exchanges to a model.

`normalise_messages` and `turn_from` take whatever a host has. `format_history` gives the text a
resolver shows its model; a name is *established* when it stands in that text (`excerpts`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ChatMessage, HumanMessage

from ixchat.utils.resolution import Message, Role, Turn
from ixchat.utils.terms import EMAIL, INVISIBLE, URL, encodable
from ixinfra.llm import without_thinking

HISTORY_TURNS = 2  # exchanges quoted to a model
MAX_MESSAGE_CHARS = 1_500  # of one message: its beginning and its end
MAX_HISTORY_CHARS = 4_000  # of the whole quotation
_WINDOW = 4 * MAX_MESSAGE_CHARS  # raw characters read from each end of a message
_GAP = " [...] "

_ROLES: dict[str, Role] = {
    **dict.fromkeys(("user", "human", "visitor", "customer", "client", "humanmessage", "humanmessagechunk"), "user"),
    **dict.fromkeys(("assistant", "ai", "bot", "agent", "model", "aimessage", "aimessagechunk"), "assistant"),
}  # fmt: skip
_TEXT_BLOCKS = ("text", "input_text", "output_text")
_LABELS: dict[Role, str] = {"user": "Visitor", "assistant": "Agent"}

# Everything here is dropped, but `blank`, which becomes one space, and `item`, a list item or table cell,
# which keeps a bullet: names in two cells are not one name. Each alternative is bounded or
# stops at its first foreign character, so that the scan stays linear.
_MARKUP = re.compile(
    r"""(?P<blank>[^\S ]\s*|[ ]\s+)                  # any blanks but a single space
    |(?P<item>(?m:^[-+*•][ ])|\|(?:[ ]?:?-{2,}:?[ ]?\|?)*)
    |(?m:^\#{1,6}[ ]|^>[ ]?)                      # heading, quotation
    |```[a-z]{0,12}|`|~~
    |\*{2,3}|_{2,3}|(?<!\w)[*_]|[*_](?!\w)        # emphasis, not the star inside a name
    |!?\[(?=[^\[\]\n]{1,300}\]\()|\]\([^()\s]{0,2000}\)   # [label](address)
    |</?[a-z][^<>]{0,300}>
    |[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad\x00]+   # not the joiners inside a word
    """,
    re.VERBOSE | re.IGNORECASE,
)
_ADDRESSES = re.compile(f"{_MARKUP.pattern}|{URL.pattern}|{EMAIL.pattern}", re.VERBOSE | re.IGNORECASE)
# What an alternative of `_MARKUP` can begin with: a search for one set of characters is far faster.
_MARKUP_BEGINS = re.compile(
    r"[^\S ]|[ ](?=\s)|[-+*•|#>`~_!\[\]<\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00ad\x00]"
)
_SHOWN = {"blank": " ", "item": "• "}
_UNTIDY = re.compile("^[ •]+|[ •]+$|(?<=• )[• ]+|(?<= ) +")


def normalise_messages(raw: object) -> tuple[Message, ...]:
    """User and assistant messages with text, oldest first, from any shape a host may have.

    LangChain messages and chunks, dicts (`role` or `type`; serialised `lc` and `data` forms),
    `(role, content)` pairs and plain strings (a visitor's) are read; content blocks are joined and
    everything but text is dropped. System and tool messages, unknown roles, blank texts and junk
    are skipped. Never raises, never changes what it was given.
    """
    if isinstance(raw, Mapping) and isinstance(raw.get("messages"), Sequence):
        raw = raw["messages"]
    items = [raw] if _is_message(raw) else raw
    if not isinstance(items, Sequence) or isinstance(items, str | bytes | bytearray):
        return ()
    messages: list[Message] = []
    streamed: object = None
    for item in items:
        message = _read(item)
        stream = (item.id,) if isinstance(item, AIMessageChunk) else None
        if message and stream and stream == streamed:
            message = Message("assistant", messages.pop().content + message.content)
        if message:
            messages.append(message)
        streamed = stream if message or not stream else streamed
    return tuple(message for message in messages if INVISIBLE.sub("", message.content).strip())


def turn_from(query: str, messages: object = (), company_name: str = "", tenant_id: str = "") -> Turn:
    """Make a `Turn` of what a host has, in whatever shape (see `normalise_messages`).

    The current message is not history: when the host left it at the end of the list, once or
    more, it is dropped. `query` stays as written, but for surrogates no encoder accepts.
    """
    past = list(normalise_messages(messages))
    current = _comparable(query)
    while past and past[-1].role == "user" and _comparable(past[-1].content) == current:
        past.pop()
    return Turn(encodable(query), tuple(past), company_name, tenant_id)


def current_turn(messages: object, company_name: str = "", tenant_id: str = "") -> Turn:
    """The turn a host's message list ends with: its last user message, and what came before it.

    The message may be without text (an image): the turn's query is then empty, not an older
    message. What follows the last user message is ignored.
    """
    items = list(messages) if isinstance(messages, Sequence) and not isinstance(messages, str) else []
    for position in range(len(items) - 1, -1, -1):
        role, content = _role_and_content(items[position])
        if role == "user":
            return turn_from(_text(content), items[:position], company_name, tenant_id)
    return Turn("", normalise_messages(items), company_name, tenant_id)


def recent_turns(messages: Sequence[Message], turns: int = HISTORY_TURNS) -> tuple[Message, ...]:
    """The last `turns` exchanges. One exchange is what the visitor wrote and all that answers it."""
    start = len(messages)
    while start > 0 and turns > 0:
        start -= 1
        opens_exchange = messages[start].role == "user" and (
            start == 0 or messages[start - 1].role == "assistant"
        )
        turns -= opens_exchange
    return tuple(messages[start:])


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A run of one message as a model sees it: markup, addresses and line breaks taken out.

    Attributes:
        index: Which of the turn's messages it comes from.
        text: Cleaned text, on one line.
        offsets: For each character of `text`, its place in the message.
    """

    index: int
    role: Role
    text: str
    offsets: Sequence[int]


def excerpts(messages: Sequence[Message]) -> tuple[Excerpt, ...]:
    """What `format_history` shows, piece by piece, oldest first.

    A long message gives its beginning and its end. Beyond `MAX_HISTORY_CHARS` the oldest are left out.
    """
    return tuple(latest_excerpts(messages))[::-1]


def latest_excerpts(messages: Sequence[Message]) -> Iterator[Excerpt]:
    """`excerpts`, newest first; a message is cleaned when its turn comes."""
    first = len(messages) - len(recent_turns(messages))
    room = MAX_HISTORY_CHARS
    for index in range(len(messages) - 1, first - 1, -1):
        pieces = _excerpts_of(index, messages[index])
        room -= sum(len(piece.text) + len(_GAP) for piece in pieces) + len("Visitor: \n")
        if room < 0:
            return
        yield from reversed(pieces)


def format_history(messages: Sequence[Message]) -> str:
    """The last two exchanges, one line a message (`Visitor: …`, `Agent: …`), for quotation in a prompt.

    At most `MAX_HISTORY_CHARS` characters; "" when there is nothing to show.
    """
    lines: list[str] = []
    previous = -1
    for piece in excerpts(messages):
        if piece.index == previous:
            lines[-1] += _GAP + piece.text
        else:
            lines.append(f"{_LABELS[piece.role]}: {piece.text}")
        previous = piece.index
    return "\n".join(lines)


def plain_text(text: str, max_chars: int = MAX_MESSAGE_CHARS) -> str:
    """`text` on one line without markup, web and mail addresses; cut at `max_chars`."""
    return _clean(text, 0, min(len(text), 4 * max_chars))[0][:max_chars].strip()


def _is_message(raw: object) -> bool:
    if isinstance(raw, Mapping):
        return True
    return isinstance(raw, BaseMessage | Message)


def _read(item: object) -> Message | None:
    role, content = _role_and_content(item)
    text = encodable(_text(content))
    if role is None or not text:
        return None
    return Message(role, without_thinking(text) if role == "assistant" else text)


def _role_and_content(item: object) -> tuple[Role | None, object]:
    match item:
        case Message():
            return item.role, item.content
        case HumanMessage():
            return "user", item.content
        case AIMessage():
            return "assistant", item.content
        case ChatMessage():
            return _role(item.role), item.content
        case BaseMessage():
            return None, None
        case str():
            return "user", item
        case Mapping():
            return _from_mapping(item)
        case [role, content]:
            return _role(role), content
    # SDK objects of model providers carry plain `role` and `content` attributes.
    fields = getattr(item, "__dict__", None)
    return _from_mapping(fields) if isinstance(fields, Mapping) else (None, None)


def _from_mapping(item: Mapping[Any, Any]) -> tuple[Role | None, object]:
    if "lc" in item and isinstance(item.get("kwargs"), Mapping):
        path = item.get("id")
        kind = path[-1] if isinstance(path, Sequence) and path else None
        return _role(kind), item["kwargs"].get("content")
    role = _role(item.get("role", item.get("type")))
    body = item["data"] if isinstance(item.get("data"), Mapping) else item
    return role, next((body[key] for key in ("content", "text", "parts") if body.get(key)), None)


def _role(name: object) -> Role | None:
    return _ROLES.get(name.strip().lower()) if isinstance(name, str) else None


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, Sequence) or isinstance(content, bytes | bytearray):
        return ""
    return "\n".join(filter(None, map(_block_text, content)))


def _block_text(block: object) -> str:
    if isinstance(block, str):
        return block
    if not isinstance(block, Mapping) or block.get("type", "text") not in _TEXT_BLOCKS:
        return ""
    text = block.get("text")
    return text if isinstance(text, str) else ""


def _comparable(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", INVISIBLE.sub("", encodable(text))).split())


def _clean(content: str, start: int, end: int) -> tuple[str, list[int]]:
    """Cleaned text of `content[start:end]`, with the place of each of its characters."""
    shown: list[str] = []
    offsets: list[int] = []
    for match in _find_markup(content, start, end):
        instead = _SHOWN.get(match.lastgroup or "", "")
        shown += (content[start : match.start()], instead)
        offsets += range(start, match.start())
        offsets += [match.start()] * len(instead)
        start = match.end()
    shown.append(content[start:end])
    offsets += range(start, end)
    return _tidy("".join(shown), offsets)


def _find_markup(content: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """Markup from left to right, none overlapping."""
    if "@" in content or "://" in content or "www." in content.lower():
        yield from _ADDRESSES.finditer(content, start, end)
        return
    for begin in _MARKUP_BEGINS.finditer(content, start, end):
        if begin.start() >= start and (match := _MARKUP.match(content, begin.start(), end)):
            yield match
            start = match.end()


def _tidy(text: str, offsets: list[int]) -> tuple[str, list[int]]:
    """Without blanks and bullets that follow each other or stand at either end."""
    if "•" not in text and "  " not in text and text == text.strip(" "):
        return text, offsets
    kept: list[str] = []
    places: list[int] = []
    start = 0
    for match in _UNTIDY.finditer(text):
        kept.append(text[start : match.start()])
        places += offsets[start : match.start()]
        start = match.end()
    kept.append(text[start:])
    return "".join(kept), places + offsets[start:]


def _excerpts_of(index: int, message: Message) -> list[Excerpt]:
    content = message.content
    whole = len(content) <= 2 * _WINDOW
    text, offsets = _clean(content, 0, len(content) if whole else _WINDOW)
    if whole and len(text) <= MAX_MESSAGE_CHARS:
        return [Excerpt(index, message.role, text, offsets)] if text else []
    head = _word_edge(text, MAX_MESSAGE_CHARS * 2 // 3, step=-1)
    pieces = [Excerpt(index, message.role, text[:head], offsets[:head])]
    if not whole:
        text, offsets = _clean(content, len(content) - _WINDOW, len(content))
    tail = _word_edge(text, max(0, len(text) - MAX_MESSAGE_CHARS // 3), step=1)
    pieces.append(Excerpt(index, message.role, text[tail:], offsets[tail:]))
    return [piece for piece in pieces if piece.text]


def _word_edge(text: str, position: int, *, step: int) -> int:
    """The nearest blank from `position` in one direction; `position` itself in text without blanks."""
    edge = text.rfind(" ", 0, position) if step < 0 else text.find(" ", position)
    if edge < 0 or abs(edge - position) > 200:
        return min(position, len(text))
    return edge if step < 0 else edge + 1
