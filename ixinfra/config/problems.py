"""Words for what is wrong with a configuration value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, SecretStr
from pydantic_core import ErrorDetails

from ixinfra.config.settings import Settings

MAX_SHOWN_CHARS = 60
EXPECTED = {
    "bool_type": "boolean expected (true or false)",
    "int_type": "integer expected",
    "float_type": "number expected",
    "string_type": "string expected",
    "path_type": "string expected",
    "tuple_type": "array expected",
    "model_type": "table expected",
    "dict_type": "table expected",
}
TOML_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "float"),
    (str, "string"),
    (list, "array"),
    (dict, "table"),
    (datetime, "date-time"),
    (date, "date"),
    (time, "time"),
)


def describe(problem: ErrorDetails, path: Path, variables: Mapping[str, str]) -> str:
    """One line: the file and key (or the environment variable), what is wrong, what would be right."""
    key = ".".join(str(part) for part in problem["loc"]) or "the file"
    place = variables.get(key) or f"{path}: {key}"
    return f"{place}: {_what(problem)}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean '…'?`, or "" when nothing is near."""
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _what(problem: ErrorDetails) -> str:
    kind, value, location = problem["type"], problem["input"], problem["loc"]
    if kind == "extra_forbidden":
        known = _keys_at(location[:-1])
        return "unknown key" + (did_you_mean(str(location[-1]), known) or f"; known here: {', '.join(known)}")
    if kind == "missing":
        return "this key is required"
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    if kind == "literal_error":
        hint = did_you_mean(str(value), problem["ctx"]["expected"].split("'")[1::2])
        return f"expected {problem['ctx']['expected']}, got {_shown(value)}{hint}"
    expected = EXPECTED.get(kind) or problem["msg"].replace("Input should be", "must be")
    return expected if _is_secret(location) else f"{expected}, got {_shown(value)}"


def _shown(value: Any) -> str:
    kind = next((name for type_, name in TOML_TYPES if isinstance(value, type_)), "nothing")
    if isinstance(value, (list, dict)) or value is None:
        return kind
    text = repr(value)
    return f"{kind} {text}" if len(text) <= MAX_SHOWN_CHARS else f"{kind} {text[:MAX_SHOWN_CHARS]}…"


def _keys_at(location: tuple[int | str, ...]) -> list[str]:
    section = _annotation_at(location)
    is_section = isinstance(section, type) and issubclass(section, BaseModel)
    return [name for name in section.model_fields if name != "env"] if is_section else []


def _is_secret(location: tuple[int | str, ...]) -> bool:
    annotation = _annotation_at(location)
    return SecretStr in (annotation, *get_args(annotation))


def _annotation_at(location: tuple[int | str, ...]) -> Any:
    """The declared type at a place in the file; `Any` where the schema declares none."""
    annotation: Any = Settings
    for part in location:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            field = annotation.model_fields.get(str(part))
            annotation = field.annotation if field else Any
        else:  # dict[name, section]
            annotation = (get_args(annotation) or (Any,))[-1]
    return annotation
