"""Reads one environment's TOML file into `Settings`, once, at start."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli
from pydantic import BaseModel, SecretStr, ValidationError

from ixinfra.config.problems import describe, did_you_mean
from ixinfra.config.settings import ENVIRONMENTS, Settings, Source
from ixinfra.errors import ConfigError, UnknownTierError

PREFIX = "IX_"
OVERRIDABLE = ("lightrag", "vector_database")  # nothing else can be changed from outside the file
PACKAGED = Path(__file__).parent / "environments"  # in an installed wheel
CHECKOUT = Path(__file__).parents[2] / "config"  # in a source checkout
CONVERTERS: Mapping[Any, Callable[[str], Any]] = {
    int: int,
    float: float,
    bool: {"true": True, "false": False}.__getitem__,
}
MASK = "**********"

_log = logging.getLogger(__name__)


def get_config(
    env: str = "development", directory: Path | None = None, *, environ: Mapping[str, str] = os.environ
) -> Settings:
    """The settings of one environment.

    Args:
        env: `development`, `test`, `staging` or `production`.
        directory: Folder of the four files. Default: `./config` when it holds `<env>.toml`, else
            the files that come with the package.
        environ: Where overrides are looked up: `IX_LIGHTRAG__<KEY>` and `IX_VECTOR_DATABASE__<KEY>`.

    Raises:
        ConfigError: The file is missing or unreadable, or a key or value cannot be used.
        UnknownTierError: Nothing is wrong but tiers of tenants.
    """
    path = config_path(env, directory)
    data = read_toml(path)
    if "env" in data:
        raise ConfigError(f"{path}: env: not a key; the file's name says the environment")
    variables = _apply_overrides(data, environ)
    try:
        settings = Settings.model_validate({**data, "env": env})
    except ValidationError as error:
        raise _config_error(error, path, variables) from None
    settings._source = Source(path=path, variables=variables)
    return settings


def config_path(env: str, directory: Path | None = None) -> Path:
    """The file that `get_config` reads.

    Raises:
        ConfigError: `env` is unknown, or there is no such file.
    """
    if env not in ENVIRONMENTS:
        hint = did_you_mean(env, ENVIRONMENTS)
        raise ConfigError(f"unknown environment {env!r}; expected one of {list(ENVIRONMENTS)}{hint}")
    folders = [directory] if directory else [Path("config"), PACKAGED, CHECKOUT]
    for folder in folders:
        if (path := Path(folder) / f"{env}.toml").is_file():
            return path
    raise ConfigError(
        f"environment {env!r} has no file: {Path(folders[0]).absolute() / f'{env}.toml'} not found"
    )


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a UTF-8 TOML file; a byte order mark and CRLF line ends are fine.

    Raises:
        ConfigError: With file, line and column where the text is at fault.
    """
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path}:{line}: not UTF-8 (byte 0x{raw[error.start]:02X}); save the file as UTF-8"
        ) from None
    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        hint = _python_spelling(text, error.lineno)
        raise ConfigError(f"{path}:{error.lineno}:{error.colno}: not TOML: {error.msg}{hint}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None


def effective(settings: Settings) -> dict[str, dict[str, Any]]:
    """Every value in force and where it came from, secrets masked.

    Returns:
        `{"lightrag.top_k": {"value": 40, "source": "default"}, …}`, in the order of the schema. The
        source is the file, the environment variable, or `default`. Values are JSON types.
    """
    source = settings._source
    return {
        key: {
            "value": _shown(value),
            "source": source.variables.get(key) or (str(source.path) if given else "default"),
        }
        for key, value, given in _leaves(settings)
        if key != "env"
    }


def _leaves(section: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any, bool]]:
    for name in type(section).model_fields:
        value = getattr(section, name)
        tables = value.items() if isinstance(value, dict) else [("", value)]
        for key, item in tables:
            path = ".".join(part for part in (prefix, name, key) if part)
            if isinstance(item, BaseModel):
                yield from _leaves(item, path)
            else:
                yield path, item, name in section.model_fields_set


def _shown(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return MASK
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


def _apply_overrides(data: dict[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """Put the overrides into `data`; `{"lightrag.top_k": "IX_LIGHTRAG__TOP_K"}` comes back."""
    variables = {}
    for variable in sorted(name for name in environ if name.startswith(PREFIX) and "__" in name):
        section, _, key = variable.removeprefix(PREFIX).lower().partition("__")
        if section in OVERRIDABLE:
            table = data.setdefault(section, {})
            if isinstance(table, dict):
                table[key] = _typed(environ[variable], section, key)
            variables[f"{section}.{key}"] = variable
        elif section in Settings.model_fields:
            _log.warning("%s is ignored: only %s can be overridden", variable, " and ".join(OVERRIDABLE))
    return variables


def _typed(text: str, section: str, key: str) -> Any:
    """The text as the type the key has; unchanged where it is not of that type, so that validation says so."""
    model = Settings.model_fields[section].annotation
    field = model.model_fields.get(key) if isinstance(model, type) and issubclass(model, BaseModel) else None
    convert = CONVERTERS.get(field.annotation) if field else None
    try:
        return convert(text) if convert else text
    except (ValueError, KeyError):
        return text


def _config_error(error: ValidationError, path: Path, variables: Mapping[str, str]) -> ConfigError:
    problems = error.errors()
    lines = [describe(problem, path, variables) for problem in problems]
    tiers_only = all(isinstance(p.get("ctx", {}).get("error"), UnknownTierError) for p in problems)
    return (UnknownTierError if tiers_only else ConfigError)("\n".join(lines))


def _python_spelling(text: str, line_number: int) -> str:
    line = text.splitlines()[line_number - 1] if line_number <= len(text.splitlines()) else ""
    value = line.partition("=")[2].strip()
    return "; TOML writes true and false" if value in {"True", "False", "yes", "no", "on", "off"} else ""
