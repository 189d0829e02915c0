"""The four environments, the errors a wrong file gives, and what the environment may change."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import tomli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from ixinfra.config.loader import MASK, effective, get_config
from ixinfra.config.settings import ENVIRONMENTS, Settings, tier_to_rag_mode
from ixinfra.errors import ConfigError, UnknownTierError

ROOT = Path(__file__).parents[3]
CASES = {
    case["id"]: case
    for case in map(json.loads, (ROOT / "tests/cases/config.jsonl").read_text(encoding="utf-8").splitlines())
}
Write = Callable[[bytes | str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Puts bytes or text into `development.toml` of a folder, which comes back."""

    def write(content: bytes | str) -> Path:
        raw = content.encode() if isinstance(content, str) else content
        (tmp_path / "development.toml").write_bytes(raw)
        return tmp_path

    return write


def load(folder: Path, **environ: str) -> Settings:
    return get_config("development", folder, environ=environ)


def error_of(folder: Path, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, **environ)
    return str(caught.value)


def outcome(folder: Path) -> str:
    """Where the settings came from, or the error. Any other exception fails the test."""
    try:
        return str(load(folder)._source.path)
    except ConfigError as error:
        return str(error)


# The files of the repository


def leaves(table: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key


def test_the_four_files_have_the_same_keys_in_the_same_order() -> None:
    files = [tomli.loads((ROOT / f"config/{env}.toml").read_text()) for env in ENVIRONMENTS]
    hybrid = files[0]["tenants"].pop("hybrid")  # of a developer's machine alone
    keys = [list(leaves(file)) for file in files]
    assert list(hybrid) == list(files[0]["tenants"]["lite"])
    assert keys[0] == keys[1] == keys[2] == keys[3]


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_a_file_names_every_key_of_the_schema(env: str) -> None:
    written = set(effective(get_config(env, ROOT / "config", environ={})))
    from_file = set(leaves(tomli.loads((ROOT / f"config/{env}.toml").read_text())))
    assert written == from_file


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_each_key_has_its_meaning_on_the_line_before(env: str) -> None:
    lines = (ROOT / f"config/{env}.toml").read_text().splitlines()
    section: Any = Settings
    for above, line in pairwise(lines):
        if line.startswith("["):
            section = section_of(line.strip("[]").split("."))
        elif "=" in line and not line.startswith("#"):
            description = section.model_fields[line.partition(" =")[0]].description
            assert above == f"# {description}", line


def section_of(path: list[str]) -> type[BaseModel]:
    section: Any = Settings
    for part in path:
        annotation = section.model_fields[part].annotation if part in section.model_fields else section
        section = annotation if isinstance(annotation, type) else annotation.__args__[-1]
    assert issubclass(section, BaseModel)
    return section


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_every_environment_resolves_queries_for_both_tiers(env: str) -> None:
    config = get_config(env, ROOT / "config", environ={})
    assert config.query_rewriter.enabled is True
    assert {tenant.rag_mode for tenant in config.tenants.values()} == {"naive", "mix"}
    assert config.env == env


@pytest.mark.parametrize("env", ["development", "test"])
def test_a_developer_needs_no_model(env: str) -> None:
    models = get_config(env, ROOT / "config", environ={}).models
    assert [models.query_rewriter.model, models.query_reference.model] == ["local:rules", "local:learned"]
    assert [models.lightrag_keyword.model, models.answer.model] == ["local:rules", "local:quote"]


@pytest.mark.parametrize("env", ["staging", "production"])
def test_the_reference_deployment_uses_the_models_it_was_measured_with(env: str) -> None:
    models = get_config(env, ROOT / "config", environ={}).models
    rewriter, reference = models.query_rewriter, models.query_reference
    assert (rewriter.model, rewriter.timeout_s) == ("mistralai:ministral-3b-latest", 1.0)
    assert (reference.model, reference.timeout_s) == ("openai:gpt-5.4-mini", 2.0)
    assert reference.reasoning_effort == "none"
    assert {route.max_retries for route in (rewriter, reference)} == {0}


# Reading


def test_missing_file_is_an_error_with_environment_and_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        get_config(CASES["f01"]["input"]["env"], tmp_path, environ={})
    assert "'staging'" in str(caught.value)
    assert str(tmp_path / "staging.toml") in str(caught.value)


def test_byte_order_mark_is_accepted(write: Write) -> None:
    folder = write(b"\xef\xbb\xbf[query_rewriter]\nenabled = true\n")
    assert load(folder).query_rewriter.enabled is CASES["f02"]["expected"]["enabled"]


def test_crlf_is_accepted(write: Write) -> None:
    folder = write(b"[query_rewriter]\r\nenabled = false\r\n")
    assert load(folder).query_rewriter.enabled is CASES["f03"]["expected"]["enabled"]


def test_an_empty_file_gives_the_defaults(write: Write) -> None:
    assert load(write(CASES["f08"]["input"]["toml"])).query_rewriter.enabled is True


def test_quoted_boolean_is_refused(write: Write) -> None:
    message = error_of(write(CASES["f04"]["input"]["toml"]))
    assert "query_rewriter.enabled: boolean expected" in message
    assert "got string 'true'" in message


@pytest.mark.parametrize("value", ['"NO"', '"off"', "0", "1", "1.0", "[]", "1979-05-27"])
def test_nothing_but_a_boolean_is_a_switch(write: Write, value: str) -> None:
    assert "boolean expected" in error_of(write(f"[query_rewriter]\nenabled = {value}"))


def test_unknown_key_is_refused_with_the_nearest_one(write: Write) -> None:
    message = error_of(write(CASES["f06"]["input"]["toml"]))
    assert "development.toml: query_rewriter.enable: unknown key; did you mean 'enabled'?" in message


def test_unknown_section_is_refused_with_the_nearest_one(write: Write) -> None:
    assert "did you mean 'query_rewriter'?" in error_of(write("[query_rewritter]\nenabled = false"))


def test_a_key_far_from_all_gets_the_list_of_known_ones(write: Write) -> None:
    assert "known here: enabled" in error_of(write("[query_rewriter]\nzzz = 1"))


def test_python_spelling_is_refused_with_file_line_and_column(write: Write) -> None:
    message = error_of(write(CASES["f10"]["input"]["toml"]))
    assert "development.toml:2:11: " in message
    assert "true and false" in message


def test_unknown_environment_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        get_config(CASES["f11"]["input"]["env"], environ={})
    assert all(repr(env) in str(caught.value) for env in ENVIRONMENTS)
    assert "did you mean 'production'" in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        pytest.param(b'# a\nname = "caf\xe9"\n', "development.toml:2: not UTF-8 (byte 0xE9)", id="latin-1"),
        pytest.param("x = 1".encode("utf-16"), "development.toml:1: not UTF-8 (byte 0xFF)", id="utf-16"),
    ],
)
def test_another_encoding_is_refused_with_the_line(write: Write, raw: bytes, place: str) -> None:
    assert place in error_of(write(raw))


def test_all_problems_of_a_file_are_reported_at_once(write: Write) -> None:
    message = error_of(write('[lightrag]\ntop_k = "4"\nchunk_top_k = 0\n[tracing]\nexporter = ["zipkin"]'))
    assert [line.split(": ")[1] for line in message.splitlines()] == [
        "lightrag.top_k",
        "lightrag.chunk_top_k",
        "tracing.exporter.0",
    ]


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        pytest.param("models = 3", "models: table expected, got integer 3", id="scalar for a section"),
        pytest.param("tenants = [1]", "tenants: table expected, got array", id="array for tenants"),
        pytest.param('env = "test"', "env: not a key", id="environment inside the file"),
        pytest.param(
            '[models.answer]\nmodel = "gpt"', "expected 'provider:name'", id="route without provider"
        ),
        pytest.param('[models.answer]\nmodel = "local:rules"', "'local:quote'", id="rules cannot answer"),
        pytest.param("[models.answer]\ntimeout_s = inf", "finite", id="no deadline"),
        pytest.param("[models.answer]\nmax_token = 3", "did you mean 'max_tokens'", id="misspelt limit"),
        pytest.param('[tracing]\nexporter = "otlp"', "needs otlp_endpoint", id="otlp without address"),
        pytest.param('[tracing]\nexporter = ["none", "console"]', "stands alone", id="none and another"),
        pytest.param('[vector_database]\nstorage = "qdrant"', "needs url", id="server without address"),
        pytest.param(
            '[lightrag]\ncompany_binding = "{company}"', "{query} is missing", id="binding loses query"
        ),
        pytest.param(
            '[lightrag]\ncompany_binding = "{query.x}"', "only {company} and {query}", id="attribute"
        ),
        pytest.param('[lightrag]\ncompany_binding = "{query"', "expected '}'", id="open brace"),
        pytest.param("x = " + "[" * 500, "not TOML", id="deep nesting"),
        pytest.param("x = " + "9" * 5000, "not TOML", id="huge integer"),
    ],
)
def test_unusable_values_are_named(write: Write, toml: str, expected: str) -> None:
    message = error_of(write(toml))
    assert "development.toml" in message
    assert expected in message


@given(
    st.one_of(
        st.binary(max_size=300), st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace"))
    )
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_give_settings_or_a_config_error(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "development.toml").write_bytes(raw)
    assert "development.toml" in outcome(tmp_path)


toml_values = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.dates()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(section=st.sampled_from(sorted(Settings.model_fields)), value=toml_values, key=st.text(max_size=10))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_at_any_key_gives_settings_or_a_config_error(
    tmp_path: Path, section: str, key: str, value: Any
) -> None:
    known = [*getattr(Settings.model_fields[section].annotation, "model_fields", {}), key]
    for name in (known[0], known[-1]):
        (tmp_path / "development.toml").write_text(f"[{section}]\n{as_toml(name)} = {as_toml(value)}\n")
        assert "development.toml" in outcome(tmp_path)


def as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_toml(key)} = {as_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value) if isinstance(value, bool | str) else str(value)


# Tiers


@pytest.mark.parametrize("tier", [CASES["f13"]["input"]["tier"], CASES["f15"]["input"]["tier"], "", "  ", 3])
def test_unknown_tier_is_refused_by_name(tier: Any) -> None:
    with pytest.raises(UnknownTierError) as caught:
        tier_to_rag_mode(tier)
    assert f"unknown tier {tier!r}" in str(caught.value)
    assert "['advanced', 'lite']" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "shown"),
    [('tier = "platinum"', "'platinum'"), ('tier = ""', "''"), ("tier = 3", "3"), ("", "None")],
)
def test_a_tenant_without_a_known_tier_stops_the_start(write: Write, line: str, shown: str) -> None:
    folder = write(f'[tenants.acme]\n{line}\nknowledge_base = "acme"')
    with pytest.raises(UnknownTierError) as caught:
        load(folder)
    assert f"tenants.acme.tier: unknown tier {shown}" in str(caught.value)


@pytest.mark.parametrize(
    ("tier", "mode"),
    [
        (CASES["f16"]["input"]["tier"], CASES["f16"]["expected"]["rag_mode"]),
        ("lite", "naive"),
        (" Lite\t", "naive"),
    ],
)
def test_a_tier_is_a_retrieval_mode(write: Write, tier: str, mode: str) -> None:
    assert tier_to_rag_mode(tier) == mode
    folder = write(f'[tenants.acme]\ntier = {json.dumps(tier)}\nknowledge_base = "acme"')
    assert load(folder).tenants["acme"].rag_mode == mode


@pytest.mark.parametrize("key", ["passage_forms", "graph_forms"])
def test_forms_of_a_tenant_on_the_hybrid_engine_stop_the_start(write: Write, key: str) -> None:
    table = '[tenants.acme]\ntier = "lite"\nknowledge_base = "acme"\nretriever = "hybrid"'
    error = error_of(write(f'{table}\n{key} = ["glossary"]'))
    assert f"tenants.acme: {key} is for retriever" in error
    assert "use []" in error


@pytest.mark.parametrize("name", ["../x", "a/b", "", "a b", "é", "a" * 65])
def test_a_tenant_name_is_safe_in_paths_and_keys(write: Write, name: str) -> None:
    assert "tenants." in error_of(write(f'[tenants.{json.dumps(name)}]\ntier = "lite"\nknowledge_base = "x"'))


# The environment


def test_variables_override_the_two_sections(write: Write) -> None:
    folder = write("[lightrag]\ntop_k = 5")
    config = load(
        folder,
        IX_LIGHTRAG__TOP_K="7",
        IX_LIGHTRAG__COSINE_THRESHOLD="0.5",
        IX_LIGHTRAG__ENABLE_RERANK="true",
        IX_LIGHTRAG__COMPANY_BINDING="",
        IX_LIGHTRAG__WORKING_DIR="/data",
        IX_VECTOR_DATABASE__STORAGE="qdrant",
        IX_VECTOR_DATABASE__URL="http://localhost:6333",
        IX_VECTOR_DATABASE__API_KEY="sesame",
    )
    lightrag, store = config.lightrag, config.vector_database
    assert (lightrag.top_k, lightrag.cosine_threshold, lightrag.enable_rerank) == (7, 0.5, True)
    assert (lightrag.company_binding, lightrag.working_dir) == (None, Path("/data"))
    assert (store.storage, store.url) == ("qdrant", "http://localhost:6333")
    assert store.api_key is not None
    assert store.api_key.get_secret_value() == "sesame"


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("IX_LIGHTRAG__TOP_K", "many", "IX_LIGHTRAG__TOP_K: integer expected, got string 'many'"),
        ("IX_LIGHTRAG__TOP_K", "-1", "IX_LIGHTRAG__TOP_K: must be greater than or equal to 1"),
        ("IX_LIGHTRAG__ENABLE_RERANK", "yes", "IX_LIGHTRAG__ENABLE_RERANK: boolean expected"),
        ("IX_LIGHTRAG__TOPK", "4", "IX_LIGHTRAG__TOPK: unknown key; did you mean 'top_k'?"),
    ],
)
def test_an_unusable_variable_is_named(write: Write, variable: str, value: str, expected: str) -> None:
    assert expected in error_of(write(""), **{variable: value})


@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_outside_the_file_moves_the_switch(
    write: Write, caplog: pytest.LogCaptureFixture, enabled: bool
) -> None:
    folder = write(f"[query_rewriter]\nenabled = {str(enabled).lower()}")
    names = ["QUERY_REWRITER_ENABLED", "QUERY_REWRITER__ENABLED", "query_rewriter.enabled", "ENABLED"]
    names += ["IX_QUERY_REWRITER__ENABLED", "IX_QUERY_REWRITER_ENABLED", "IX_ENABLED"]
    opposite = str(not enabled)
    for value in (opposite, opposite.lower(), str(int(not enabled))):
        assert load(folder, **dict.fromkeys(names, value)).query_rewriter.enabled is enabled
    assert "IX_QUERY_REWRITER__ENABLED is ignored" in caplog.text


def test_other_sections_cannot_be_overridden(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        config = load(
            write(""),
            IX_TRACING__TIMEOUT_S="9",
            IX_MODELS__ANSWER__MODEL="openai:x",
            IX_TENANTS__A__TIER="lite",
        )
    assert config.model_dump() == Settings().model_dump()
    assert len(caplog.records) == 3


def test_a_variable_reaches_a_section_that_the_file_gets_wrong(write: Write) -> None:
    assert "lightrag: table expected" in error_of(write("lightrag = 3"), IX_LIGHTRAG__TOP_K="7")


# Secrets


def test_secrets_stay_out_of_reprs_dumps_and_errors(write: Write) -> None:
    config = load(write('[vector_database]\napi_key = "sesame"'))
    shown = f"{config!r} {config} {config.model_dump()} {config.model_dump_json()} {effective(config)}"
    assert "sesame" not in shown
    assert MASK in shown


@pytest.mark.parametrize(
    "toml",
    [
        '[vector_database]\nurl = "http://user:sesame@host:6333"',
        '[vector_database]\napi_key = ["sesame"]',
        '[vector_database]\nstorage = "qdrant"\napi_key = "sesame"',
        '[models.answer]\nbase_url = "http://user:sesame@host/v1"',
        '[tracing]\notlp_endpoint = "http://user:sesame@host"',
        '[vector_database]\napi_kez = "sesame"',
    ],
)
def test_an_error_does_not_show_a_secret(write: Write, toml: str) -> None:
    assert "sesame" not in error_of(write(toml))


def test_every_value_says_where_it_came_from(write: Write) -> None:
    folder = write('[lightrag]\ntop_k = 5\n[tenants.acme]\ntier = "lite"\nknowledge_base = "acme"')
    values = effective(load(folder, IX_LIGHTRAG__CHUNK_TOP_K="9", IX_VECTOR_DATABASE__API_KEY="sesame"))
    path = str(folder / "development.toml")
    assert values["lightrag.top_k"] == {"value": 5, "source": path}
    assert values["lightrag.chunk_top_k"] == {"value": 9, "source": "IX_LIGHTRAG__CHUNK_TOP_K"}
    assert values["lightrag.max_total_tokens"] == {"value": 30000, "source": "default"}
    assert values["vector_database.api_key"] == {"value": MASK, "source": "IX_VECTOR_DATABASE__API_KEY"}
    assert values["tenants.acme.tier"] == {"value": "lite", "source": path}
    assert values["tracing.exporter"] == {"value": ["none"], "source": "default"}
    json.dumps(values)


# Where files are found


def run_elsewhere(folder: Path, code: str) -> str:
    """The output of a fresh process whose working directory is `folder`."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_working_directory_wins_over_the_packaged_files(tmp_path: Path) -> None:
    code = "from ixinfra.config.loader import get_config; print(sorted(get_config('test').tenants))"
    assert run_elsewhere(tmp_path, code) == "['advanced', 'lite']"
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "production.toml").write_text("")  # another environment's file decides nothing
    assert run_elsewhere(tmp_path, code) == "['advanced', 'lite']"
    (tmp_path / "config" / "test.toml").write_text('[tenants.own]\ntier = "lite"\nknowledge_base = "own"')
    assert run_elsewhere(tmp_path, code) == "['own']"
