import json
from pathlib import Path
from typing import Any

import pytest

from ixevaluation.dataset import read_items, write_jsonl
from ixevaluation.publishers import split_of
from ixevaluation.scrub import find_personal
from ixevaluation.seed import item_texts, refuse_personal, seed_items
from ixinfra.errors import DatasetError

ASK = {"role": "assistant", "content": "Quel est votre secteur pour les plannings ?"}
DEV = next(f"c{n}" for n in range(9) if split_of(f"c{n}") == "dev")
SEALED = next(f"c{n}" for n in range(9) if split_of(f"c{n}") == "holdout")


def turn(query: str, **changes: Any) -> dict[str, Any]:
    return {"query": query, "history": [ASK], "lang": "fr", "site": "orvane", "conversation": DEV} | changes


def write(path: Path, *records: Any) -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return path


def test_each_kind_takes_its_turns(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", turn("Santé"), turn("Quelles enseignes l'ont déjà installée ?"))
    assert [i.query for i in seed_items(path, "elliptic").items] == ["Santé"]
    assert [i.mode for i in seed_items(path, "reference").items] == ["reference"]
    assert len(seed_items(path, "v1").items) == 2


def test_why_turns_are_left_out_is_counted(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.jsonl",
        turn("Santé"),
        turn("santé "),
        turn("Hôtellerie", site="orvane"),
        turn("Banque"),
        turn("Commerce", conversation=SEALED),
        turn("Rix", history=[]),
        turn("Rix", lang="", history=[{"role": "assistant", "content": "Rix?"}]),
    )
    seeded = seed_items(path, "elliptic", cap_per_site=2)
    assert [item.query for item in seeded.items] == ["Santé", "Hôtellerie"]
    assert seeded.skipped == {
        "duplicate": 1,
        "site is full": 1,
        "other half": 1,
        "no history text": 1,
        "language unknown": 1,
    }


def test_known_items_are_not_seeded_again(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", turn("Santé"), turn("Banque"))
    known = seed_items(path, "elliptic").items[:1]
    again = seed_items(path, "elliptic", existing=known)
    assert [item.query for item in again.items] == ["Banque"]


def test_exported_spans_are_turns_too(tmp_path: Path) -> None:
    span = {
        "id": "o1",
        "traceId": DEV,
        "name": "agent-knowledge-retriever",
        "input": turn("Santé", conversation=None),
    }
    (item,) = seed_items(write(tmp_path / "s.jsonl", span), "elliptic").items
    assert item.query == "Santé"
    assert item.conversation != DEV  # a trace id would lead back to the visitor


def test_personal_data_is_replaced_before_anything_is_written(tmp_path: Path) -> None:
    history = [
        {"role": "user", "content": "Je m'appelle Paul Martin, paul.martin@corp.example.org, 06 12 34 56 78"},
        {"role": "assistant", "content": "Merci Paul Martin. Quel est votre secteur ?"},
    ]
    (item,) = seed_items(write(tmp_path / "s.jsonl", turn("Santé", history=history)), "elliptic").items
    text = " ".join(item_texts(item))
    assert "Martin" not in text
    assert "corp.example" not in text
    assert find_personal(text, lang="fr") == []
    write_jsonl(tmp_path / "out.jsonl", [item])
    assert read_items(tmp_path / "out.jsonl") == (item,)


def test_a_set_with_a_canary_is_refused_without_quoting_it(item: Any) -> None:
    with pytest.raises(DatasetError, match=r"item 'a' holds personal data \(email\)") as caught:
        refuse_personal([item(query="canary@corp-mail.example.org")])
    assert "canary" not in str(caught.value)


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"s\.jsonl:2: field 'query'"):
        seed_items(write(tmp_path / "s.jsonl", turn("Santé"), {"history": []}), "v1")
