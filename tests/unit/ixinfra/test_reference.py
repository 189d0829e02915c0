"""The committed configuration reference is what the schema says."""

from __future__ import annotations

from pathlib import Path

from ixinfra.config.loader import effective
from ixinfra.config.reference import reference
from ixinfra.config.settings import Settings, TenantConfig

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_committed_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), (
        "run: python -m ixinfra.config.reference > docs/configuration.md"
    )


def test_every_key_has_a_row() -> None:
    tenant = TenantConfig(tier="lite", knowledge_base="x")
    page = reference()
    for key in effective(Settings(tenants={"NAME": tenant})):
        section, _, name = key.rpartition(".")
        rows = page.partition(f"## `[{section}]`")[2].partition("\n## ")[0]
        assert f"| `{name}` |" in rows, key
