"""The public benchmarks as their publishers lay them out.

MTRAG and MTRAG-UN: a checkout of `IBM/mt-rag-benchmark`, with the large files that some copies lack.
CANARD: its release folder; the passages are the dialogues' own answers.
"""

from __future__ import annotations

import csv
import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ixevaluation.dataset import Passage, Split, read_records
from ixinfra.errors import DatasetError

DOMAINS = ("clapnq", "cloud", "fiqa", "govt")
MIN_ANSWER_WORDS = 4
NO_ANSWER = ("i don't know", "i do not know", "cannotanswer")

Record = Mapping[str, Any]
Turns = tuple[list[Record], list[Passage]]
"""Turns in the shape of the converted files, and what can be found."""


def read_publisher(name: str, source: Path, split: Split) -> Turns:
    """Records (in the shape of the converted files) and passages of one benchmark.

    Raises:
        DatasetError: A file of the layout is missing or damaged; the message names it.
    """
    records, passages = _READERS[name](source)
    return [record for record in records if split_of(record["conversation"]) == split], passages


def split_of(conversation: str) -> Split:
    """The half a conversation belongs to: by the parity of a hash, so that no conversation is in both."""
    digest = hashlib.sha256(f"split:{conversation}".encode()).hexdigest()
    return "dev" if int(digest, 16) % 2 == 0 else "holdout"


def _mtrag(source: Path) -> Turns:
    root = _folder(source, "mtrag-human", "human")
    tasks = _tasks(root / "generation_tasks" / "reference.jsonl")
    records: list[Record] = []
    for domain in DOMAINS:
        folder = root / "retrieval_tasks" / domain
        rewrites = _beir(folder / f"{domain}_rewrite.jsonl")
        for query_id, relevant in _qrels(folder / "qrels" / "dev.tsv").items():
            rewrite = rewrites.get(query_id)
            records.append(
                _mtrag_record("mtrag", "MTRAG", domain, query_id, relevant, tasks)
                | {"model_rewrite": rewrite}
            )
    return records, _mtrag_passages(source)


def _mtrag_un(source: Path) -> Turns:
    root = _folder(source, "mtragun-human")
    tasks = _tasks(root / "generation_tasks" / "reference.jsonl")
    records: list[Record] = [
        _mtrag_record("mtragun", "MTRAG-UN", domain, query_id, relevant, tasks)
        for domain in DOMAINS
        for query_id, relevant in _qrels(root / "retrieval_tasks" / "qrels" / f"{domain}.tsv").items()
    ]
    return records, _mtrag_passages(source)


def _mtrag_record(
    prefix: str, site: str, domain: str, query_id: str, relevant: list[str], tasks: Mapping[str, Record]
) -> dict[str, Any]:
    if query_id not in tasks:
        raise DatasetError(f"{site}: the task {query_id!r} has relevant passages but no conversation")
    *history, last = tasks[query_id]["input"]
    return {
        "id": f"{prefix}:{query_id}",
        "source": site,
        "domain": domain,
        "lang": "en",
        "conversation": f"{prefix}:{query_id.split('<::>')[0]}",
        "history": [
            {"role": "user" if message["speaker"] == "user" else "assistant", "content": message["text"]}
            for message in history
        ],
        "query": last["text"],
        "relevant": relevant,
    }


def _mtrag_passages(source: Path) -> list[Passage]:
    """The passage corpora, zipped or unpacked."""
    folder = _folder(source, "corpora") / "passage_level"
    return [
        Passage(id=str(record.get("_id") or record["id"]), text=record["text"], domain=domain)
        for domain in DOMAINS
        for record in _corpus(folder, domain)
    ]


def _corpus(folder: Path, domain: str) -> Iterator[Record]:
    unpacked, packed = folder / f"{domain}.jsonl", folder / f"{domain}.jsonl.zip"
    if unpacked.is_file():
        yield from (record for _, record in read_records(unpacked))
        return
    try:
        with zipfile.ZipFile(packed) as archive, archive.open(archive.namelist()[0]) as file:
            for line in file:
                yield json.loads(line)
    except (OSError, zipfile.BadZipFile, IndexError, json.JSONDecodeError) as error:
        raise DatasetError(
            f"cannot read {str(packed)!r} ({type(error).__name__}); "
            "some copies of the repository lack its largest files"
        ) from None


def _canard(source: Path) -> Turns:
    path = next((p for p in (source / "dev.json", source / "data/release/dev.json") if p.is_file()), None)
    if path is None:
        raise DatasetError(f"{source}: no 'dev.json' nor 'data/release/dev.json'")
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        dialogues: dict[str, list[Record]] = {}
        for row in sorted(rows, key=lambda row: int(row["Question_no"])):
            dialogues.setdefault(row["QuAC_dialog_id"], []).append(row)
        return _canard_dialogues(dialogues)
    except (ValueError, KeyError, TypeError) as error:
        raise DatasetError(f"{path}: not CANARD's release format ({type(error).__name__}: {error})") from None


def _canard_dialogues(dialogues: Mapping[str, list[Record]]) -> Turns:
    """An answer is visible in later turns only, so a dialogue's last question has none and is left out."""
    passages: list[Passage] = []
    records: list[Record] = []
    same_text: dict[tuple[str, str], list[str]] = {}
    for dialogue, rows in dialogues.items():
        longest = max((row["History"] for row in rows), key=len)
        title = f"{longest[0]} — {longest[1]}"
        for row in rows:
            position = len(row["History"]) + 1
            answer = longest[position].strip() if position < len(longest) else ""
            if len(answer.split()) < MIN_ANSWER_WORDS or answer.casefold().rstrip(".") in NO_ANSWER:
                continue
            key = f"canard:{dialogue}:{row['Question_no']}"
            passages.append(Passage(id=key, text=f"{title}\n{answer}", domain="wikipedia"))
            equal = same_text.setdefault((title, answer), [])
            equal.append(key)
            records.append(_canard_record(key, dialogue, row, title, equal))
    return records, passages


def _canard_record(key: str, dialogue: str, row: Record, title: str, relevant: list[str]) -> Record:
    turns = [
        {"role": "assistant" if index % 2 else "user", "content": text}
        for index, text in enumerate(row["History"][2:])
    ]
    return {
        "id": key,
        "source": "CANARD-dev",
        "domain": "wikipedia",
        "lang": "en",
        "conversation": f"canard:{dialogue}",
        "history": [{"role": "system", "content": title}, *turns],
        "query": row["Question"],
        "relevant": relevant,
        "human_rewrite": row["Rewrite"],
    }


def _tasks(path: Path) -> dict[str, Record]:
    return {str(record["task_id"]): record for _, record in read_records(path)}


def _beir(path: Path) -> dict[str, str]:
    return {record["_id"]: record["text"].removeprefix("|user|:").strip() for _, record in read_records(path)}


def _qrels(path: Path) -> dict[str, list[str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            relevant: dict[str, list[str]] = {}
            for row in csv.DictReader(file, delimiter="\t"):
                if int(row["score"]) > 0:
                    relevant.setdefault(row["query-id"], []).append(row["corpus-id"])
            return relevant
    except (OSError, KeyError, ValueError) as error:
        raise DatasetError(f"cannot read {str(path)!r} ({type(error).__name__}: {error})") from None


def _folder(source: Path, *names: str) -> Path:
    found = next((source / name for name in names if (source / name).is_dir()), None)
    if found is None:
        raise DatasetError(f"{source}: no folder {' or '.join(repr(name) for name in names)}")
    return found


_READERS: Mapping[str, Callable[[Path], Turns]] = {
    "mtrag": _mtrag,
    "mtrag-un": _mtrag_un,
    "canard": _canard,
}
