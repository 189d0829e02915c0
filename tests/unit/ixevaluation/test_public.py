import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ixevaluation.dataset import load_set
from ixevaluation.public import import_benchmark, surface_mode
from ixevaluation.publishers import split_of
from ixinfra.errors import DatasetError


def lines(path: Path, *records: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")


def test_converted_layout_keeps_conversation_domain_and_labels(tmp_path: Path) -> None:
    record = {
        "id": "canard:x:2", "source": "CANARD-dev", "domain": "wikipedia", "lang": "en", "conversation": "canard:x",
        "turn": 2, "history": [{"role": "system", "content": "Rix — Early life"}, {"role": "user", "content": "Who is Rix?"}],
        "query": "Where was he born?", "human_rewrite": "Where was Rix born?", "relevant": ["canard:x:2"],
        "gate": "resolve", "antecedent": "Rix", "antecedent_extended": "Rix", "antecedents_all": ["Rix"],
    }  # fmt: skip
    lines(tmp_path / "src/dev/retrieval-canard.jsonl", record)
    lines(
        tmp_path / "src/passages/canard.jsonl",
        {"id": "canard:x:2", "domain": "wikipedia", "title": "Rix — Early life", "text": "In Lorne."},
    )
    done = import_benchmark("canard", tmp_path / "src", to=tmp_path / "sets")
    assert (done.items, done.passages) == (1, 1)
    found = load_set("canard", imported_dir=tmp_path / "sets")
    (item,) = found.items
    assert (item.cluster, item.domain, item.mode) == ("canard:x", "wikipedia", "pronoun")
    assert item.expected is not None
    assert (item.expected.decision, item.expected.name) == ("resolve", "Rix")
    assert item.rewrite == "Where was Rix born?"
    assert [p.text for p in found.passages()] == ["Rix — Early life\nIn Lorne."]


def canard_rows(dialogue: str) -> list[dict[str, Any]]:
    history = [
        "Rix",
        "Early life",
        "Who is Rix?",
        "A painter of large skies.",
        "Is he alive?",
        "I don't know.",
        "And?",
    ]
    return [
        {"History": history[: 2 + 2 * n], "QuAC_dialog_id": dialogue, "Question": history[2 + 2 * n], "Question_no": n + 1,
         "Rewrite": f"rewrite {n}"}
        for n in range(3)
    ]  # fmt: skip


def test_canard_as_published_finds_each_answer_in_later_turns_only(tmp_path: Path) -> None:
    dialogue = next(name for name in ("A", "B", "C", "D") if split_of(f"canard:{name}") == "dev")
    lines(tmp_path / "src" / "x")
    (tmp_path / "src/dev.json").write_text(json.dumps(canard_rows(dialogue)), encoding="utf-8")
    import_benchmark("canard", tmp_path / "src", to=tmp_path / "sets")
    found = load_set("canard", imported_dir=tmp_path / "sets")
    assert [item.query for item in found.items] == [
        "Who is Rix?"
    ]  # "I don't know." answers nothing; the last has none
    assert found.items[0].relevant == (f"canard:{dialogue}:1",)
    assert found.items[0].turn().messages == ()
    assert [p.text for p in found.passages()] == ["Rix — Early life\nA painter of large skies."]


def mtrag_checkout(root: Path, query_id: str) -> None:
    for domain in ("clapnq", "cloud", "fiqa", "govt"):
        folder = root / "mtrag-human/retrieval_tasks" / domain
        lines(
            folder / f"{domain}_rewrite.jsonl", {"_id": query_id, "text": "|user|: What is the price of Rix?"}
        )
        (folder / "qrels").mkdir()
        row = f"{query_id}\tp-{domain}\t1\n" if domain == "cloud" else ""
        (folder / "qrels/dev.tsv").write_text(f"query-id\tcorpus-id\tscore\n{row}", encoding="utf-8")
        (root / "corpora/passage_level").mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(root / f"corpora/passage_level/{domain}.jsonl.zip", "w") as archive:
            archive.writestr(
                f"{domain}.jsonl", json.dumps({"_id": f"p-{domain}", "text": f"Rix in {domain}."}) + "\n"
            )
    turns = [("user", "Tell me about Rix"), ("agent", "Rix is a tool."), ("user", "Price?")]
    lines(
        root / "mtrag-human/generation_tasks/reference.jsonl",
        {"task_id": query_id, "input": [{"speaker": s, "text": t} for s, t in turns]},
    )


def test_mtrag_as_published(tmp_path: Path) -> None:
    conversation = next(name for name in "abcdef" if split_of(f"mtrag:{name}") == "dev")
    mtrag_checkout(tmp_path / "src", f"{conversation}<::>2")
    done = import_benchmark("mtrag", tmp_path / "src", to=tmp_path / "sets")
    assert (done.items, done.passages) == (1, 4)
    (item,) = load_set("mtrag", imported_dir=tmp_path / "sets").items
    assert (item.domain, item.relevant, item.query) == ("cloud", ("p-cloud",), "Price?")
    assert item.rewrite == "What is the price of Rix?"
    assert item.expected is None  # the published rewrite is not a person's
    with pytest.raises(DatasetError, match="no item of the holdout half"):
        import_benchmark("mtrag", tmp_path / "src", split="holdout", to=tmp_path / "sets")


def test_a_copy_without_its_large_files_is_named(tmp_path: Path) -> None:
    conversation = next(name for name in "abcdef" if split_of(f"mtrag:{name}") == "dev")
    mtrag_checkout(tmp_path, f"{conversation}<::>2")
    (tmp_path / "corpora/passage_level/fiqa.jsonl.zip").write_bytes(b"version https://git-lfs")
    with pytest.raises(DatasetError, match=r"fiqa\.jsonl\.zip.*lack its largest files"):
        import_benchmark("mtrag", tmp_path, to=tmp_path / "sets")


@pytest.mark.parametrize("name", ["mtrag", "mtrag-un", "canard"])
def test_an_empty_folder_names_what_is_missing(tmp_path: Path, name: Any) -> None:
    with pytest.raises(DatasetError, match=r"no folder|no 'dev.json'"):
        import_benchmark(name, tmp_path, to=tmp_path / "sets")


def test_unknown_benchmark_and_folder(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="unknown benchmark 'qrecc'"):
        import_benchmark("qrecc", tmp_path)  # type: ignore[arg-type]  # what a user may type
    with pytest.raises(DatasetError, match="`--from` is where"):
        import_benchmark("canard", tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("query", "history", "mode"),
    [
        ("Where was he born?", ["x"], "pronoun"),
        ("monthly billing", ["x"], "elliptical"),
        ("How long does delivery take?", ["x"], "self_sufficient"),
        ("Is it new?", [], "self_sufficient"),
    ],
)
def test_mode_of_an_unlabelled_turn(query: str, history: list[str], mode: str) -> None:
    assert surface_mode(query, history) == mode
