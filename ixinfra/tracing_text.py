"""What leaves the process: spans made small, plain and free of what the operator keeps to himself."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from ixinfra.tracing_tree import SpanRecord

Mask = Callable[[str], str]
"""Rewrites one text before it leaves; called for every text of a span, keys and status included."""

MAX_CHARS = 4000  # per text
MAX_ITEMS = 20  # per list; nobody reads the fortieth passage, and serialising it costs the event loop
MAX_KEYS = 60  # per mapping; Langfuse drops attributes of a span beyond 128
MAX_DEPTH = 6
MAX_VALUES = 400  # per field of a span, over all levels

MAX_INT = 2**63 - 1  # what OTLP can carry

MASKING_FAILED = "[masking failed]"

CODE_KEYS = re.compile(
    "decision|local_decision|reason|rejected|fallback|fallback_reason|outcome|path|problems|search|fate|cause|cancel_cause"
    "|error|rag_mode|keyword_source|model|provider|prompt|tenant_id"
)
"""Keys whose short texts are our own words, never the visitor's: kept with the visitor-text switch off."""

_CODE = re.compile(r"[A-Za-z0-9_ .:/+-]{0,64}")


@dataclass(frozen=True, slots=True)
class Redaction:
    """Makes the copy of a span that is exported.

    Attributes:
        visitor_text: Off: every text is replaced by its length, except short codes under `CODE_KEYS`.
        mask: Applied to what is left. One that raises hides the text.
    """

    visitor_text: bool = True
    mask: Mask | None = None

    def span(self, span: SpanRecord) -> SpanRecord:
        """A copy with JSON values alone, cut to size; `children` stay behind."""
        return replace(
            span,
            input=self._field(span.input),
            output=self._field(span.output),
            metadata=self._field(span.metadata),
            model_parameters=self._field(span.model_parameters),
            usage={
                name: count
                for name, count in span.usage.items()
                if isinstance(count, int) and 0 <= count <= MAX_INT
            },
            model=None if span.model is None else self.text(span.model),
            error=self.text(span.error),
            children=[],
        )

    def text(self, text: str) -> str:
        """One text as it is exported: cut to size and masked."""
        text = _cut(text)
        if self.mask is None or not text:
            return text
        try:
            return _cut(str(self.mask(text)))
        except Exception:
            return MASKING_FAILED

    def _field(self, value: Any) -> Any:
        small = plain(value)
        return small if self.visitor_text and self.mask is None else self._hide(small, "")

    def _hide(self, value: Any, key: str) -> Any:
        if isinstance(value, str):
            if not self.visitor_text and not (CODE_KEYS.fullmatch(key) and _CODE.fullmatch(value)):
                return f"[{len(value)} characters]"
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(name): self._hide(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [self._hide(item, key) for item in value]
        return value


def plain(value: Any) -> Any:
    """JSON values for anything: long texts and lists are cut, unknown objects become their class name.

    Never raises and never calls `repr` or `str` of a foreign object: they may fail, or tell a secret.
    """
    return _plain(value, MAX_DEPTH, [MAX_VALUES])


def _plain(value: Any, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    try:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Enum):
            return _plain(value.value, depth, left)
        if isinstance(value, str):
            return _cut(value)
        if isinstance(value, int):
            return int(value) if abs(value) <= MAX_INT else "[large number]"
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else None
        if depth <= 0 or left[0] <= 0:
            return "[…]"
        if isinstance(value, Mapping):
            return _plain_mapping(value, depth, left)
        if isinstance(value, Sequence | Set) and not isinstance(value, bytes | bytearray | memoryview):
            return _plain_list(value, depth, left)
    except Exception:
        pass
    return f"<{type(value).__name__}>"


def _plain_mapping(value: Mapping[Any, Any], depth: int, left: list[int]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, item in value.items():
        if len(kept) >= MAX_KEYS or left[0] <= 0:
            kept["…"] = f"[{len(value) - len(kept)} more]"
            break
        kept[_cut(key) if isinstance(key, str) else str(_plain(key, 0, left))] = _plain(item, depth - 1, left)
    return kept


def _plain_list(value: Sequence[Any] | Set[Any], depth: int, left: list[int]) -> list[Any]:
    kept: list[Any] = []
    for item in value:
        if len(kept) >= MAX_ITEMS or left[0] <= 0:
            kept.append(f"[{len(value) - len(kept)} more]")
            break
        kept.append(_plain(item, depth - 1, left))
    return kept


def _cut(text: str) -> str:
    kept = text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}[{len(text) - MAX_CHARS} more characters]"
    # A lone surrogate cannot be encoded, and would lose the whole batch it is exported with.
    return kept if kept.isascii() else kept.encode("utf-8", "replace").decode("utf-8")


def as_json(value: Any) -> str:
    """Compact JSON of `plain` values, accents kept."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
