import json
from pathlib import Path
from typing import Any

import pytest

from ixchat.utils.resolution import Message
from ixevaluation import dataset
from ixinfra.errors import DatasetError

ITEM = {
    "id": "a1",
    "site": "Orvane",
    "lang": "fr",
    "mode": "elliptical",
    "history": [
        {"role": "system", "content": "page d'accueil"},
        {"role": "assistant", "content": "Vous êtes dans quel secteur ?"},
    ],
    "query": "Santé",
    "company_name": "Orvane",
    "relevant": ["p1"],
}


def write(path: Path, *records: Any) -> Path:
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in records), encoding="utf-8")
    return path


def test_an_item_becomes_the_turn_a_host_would_build(tmp_path: Path) -> None:
    (item,) = dataset.read_items(write(tmp_path / "s.jsonl", ITEM))
    turn = item.turn()
    assert turn.query == "Santé"
    assert turn.messages == (Message("assistant", "Vous êtes dans quel secteur ?"),)
    assert turn.company_name == "Orvane"
    assert item.cluster == "a1"
    assert item.is_labelled


@pytest.mark.parametrize(
    ("line", "says"),
    [
        pytest.param("{not json", ":2: not JSON", id="not JSON"),
        pytest.param("[1]", ":2: expected an object, got list", id="not an object"),
        pytest.param({**ITEM, "id": "b", "mode": "sarcastic"}, ":2: field 'mode'", id="unknown mode"),
        pytest.param({**ITEM, "id": "b", "moed": "reference"}, ":2: field 'moed'", id="misspelt field"),
        pytest.param(
            {k: v for k, v in ITEM.items() if k != "query"}, ":2: field 'query'", id="missing field"
        ),
        pytest.param(
            {**ITEM, "id": "b", "query": "  "},
            ":2: field 'record': Value error, `query` is blank",
            id="blank",
        ),
        pytest.param(
            {**ITEM, "id": "b", "history": [{"role": "bot", "content": ""}]},
            ":2: field 'history.0.role'",
            id="nested",
        ),
        pytest.param(ITEM, "id 'a1' occurs twice", id="same id twice"),
    ],
)
def test_a_bad_line_is_named_with_file_line_and_field(tmp_path: Path, line: Any, says: str) -> None:
    path = write(tmp_path / "bad.jsonl", ITEM, line)
    with pytest.raises(DatasetError) as caught:
        dataset.read_items(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


def test_an_error_does_not_quote_what_a_visitor_wrote(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.jsonl", {**ITEM, "relevant": "my secret question"})
    with pytest.raises(DatasetError) as caught:
        dataset.read_items(path)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe"])
def test_an_empty_or_unreadable_set_is_one_clear_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=r"empty|not UTF-8"):
        dataset.read_items(path)


def test_unknown_set_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"unknown dataset 'eliptic'.*'elliptic'.*'reference-holdout'"):
        dataset.load_set("eliptic", imported_dir=tmp_path)


def test_an_imported_folder_is_found_by_name_with_its_passages(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    write(tmp_path / "mine" / "items.jsonl", ITEM)
    write(tmp_path / "mine" / "passages.jsonl", {"id": "p1", "text": "La santé", "source": "x"})
    found = dataset.load_set("mine", imported_dir=tmp_path)
    assert [p.id for p in found.passages()] == ["p1"]
    assert dataset.imported_names(tmp_path) == ["mine"]


def test_hash_follows_content_not_layout(tmp_path: Path) -> None:
    compact = dataset.load_set(str(write(tmp_path / "a.jsonl", json.dumps(ITEM, separators=(",", ":")))))
    spaced = dataset.load_set(str(write(tmp_path / "b.jsonl", "", json.dumps(dict(reversed(ITEM.items()))))))
    changed = dataset.load_set(str(write(tmp_path / "c.jsonl", {**ITEM, "query": "santé"})))
    assert compact.sha256 == spaced.sha256 != changed.sha256


def test_what_is_written_reads_back_equal(tmp_path: Path) -> None:
    items = dataset.read_items(write(tmp_path / "a.jsonl", ITEM, {**ITEM, "id": "a2", "split": "holdout"}))
    dataset.write_jsonl(tmp_path / "out" / "b.jsonl", items)
    assert dataset.read_items(tmp_path / "out" / "b.jsonl") == items


def test_one_holdout_item_seals_the_set() -> None:
    items = [
        dataset.Item.model_validate({**ITEM, "id": str(i), "split": s})
        for i, s in enumerate(["dev", "holdout"])
    ]
    assert dataset.ItemSet("s", tuple(items)).is_sealed
    assert not dataset.ItemSet("s", (items[0],)).is_sealed


def test_selecting_by_mode_and_language_names_what_is_unknown() -> None:
    items = [dataset.Item.model_validate({**ITEM, "id": lang, "lang": lang}) for lang in ("fr", "en")]
    assert [item.id for item in dataset.select(items, langs=["en"])] == ["en"]
    assert dataset.select(items, modes=["greeting"]) == ()
    with pytest.raises(DatasetError, match="unknown mode 'greetings'"):
        dataset.select(items, modes=["greetings"])
    with pytest.raises(DatasetError, match=r"no item in language 'pt'; the set has \['en', 'fr'\]"):
        dataset.select(items, langs=["pt"])


@pytest.mark.parametrize("mode", ["no_retrieval", "greeting"])
def test_a_turn_without_a_need_is_never_scored(mode: str) -> None:
    assert not dataset.Item.model_validate({**ITEM, "mode": mode}).is_labelled
