"""Datasets, experiments and scores over the real SDK, against a double that decodes the real wire format."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from otlp_server import OtlpServer, basic_auth

from ixevaluation.dataset import HistoryMessage, Item, ItemSet
from ixevaluation.records import ItemRef, Manifest, Record, Run
from ixevaluation.upload import PUSHED, run_name, upload_items, upload_run
from ixinfra import langfuse_runs
from ixinfra.errors import ConfigError, IncompleteRunError, UploadError

NOW = "2026-11-30T00:00:00Z"


@dataclass
class Double:
    """What Langfuse holds after what it was sent. `lose` drops an item's trace id, `reject` refuses scores."""

    url: str = ""
    datasets: dict[str, dict[str, Any]] = field(default_factory=dict)
    items: dict[str, dict[str, Any]] = field(default_factory=dict)
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    batches: list[int] = field(default_factory=list)
    users: set[tuple[str, str]] = field(default_factory=set)
    otlp: OtlpServer = field(default_factory=OtlpServer)
    reject: bool = False
    hidden: str = ""
    broken: int = 0

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        where = urlsplit(path)
        parts = [unquote(part) for part in where.path.removeprefix("/api/public/").split("/")]
        if self.broken:
            return self.broken, {"message": "down"}
        match method, parts:
            case "POST", ["v2", "datasets"]:
                sent = json.loads(body)
                self.datasets.setdefault(sent["name"], {"id": f"d-{sent['name']}", **sent})
                return 200, self._dataset(sent["name"])
            case "GET", ["v2", "datasets", name]:
                return (
                    (200, self._dataset(name)) if name in self.datasets else (404, {"message": "not found"})
                )
            case "POST", ["dataset-items"]:
                sent = json.loads(body)
                self.items[sent["id"]] = sent
                return 200, self._item(sent)
            case "GET", ["dataset-items"]:
                query = parse_qs(where.query)
                found = [i for i in self.items.values() if i["datasetName"] == query["datasetName"][0]]
                found = [item for item in found if item["id"] != self.hidden]
                page, limit = int(query["page"][0]), int(query["limit"][0])
                meta = {
                    "page": page,
                    "limit": limit,
                    "totalItems": len(found),
                    "totalPages": -(-len(found) // limit),
                }
                return 200, {
                    "data": [self._item(i) for i in found[(page - 1) * limit : page * limit]],
                    "meta": meta,
                }
            case "GET", ["projects"]:
                project = {"id": "p", "name": "p", "organization": {"id": "o", "name": "o"}, "metadata": {}}
                return 200, {"data": [project]}
            case "POST", ["scores"]:
                sent = json.loads(body)
                self.batches.append(len(sent))
                if self.reject:
                    return 207, {
                        "accepted": len(sent) - 1,
                        "rejected": 1,
                        "errors": [{"message": "bad", "status": 400}],
                    }
                self.scores |= {score["id"]: score for score in sent}
                return 202, {"message": "Accepted"}
        return 404, {"message": f"no such endpoint: {method} {where.path}"}

    def _dataset(self, name: str) -> dict[str, Any]:
        facts = {"projectId": "p", "createdAt": NOW, "updatedAt": NOW, "metadata": None}
        return {
            "description": None,
            "inputSchema": None,
            "expectedOutputSchema": None,
            **self.datasets[name],
            **facts,
        }

    def _item(self, sent: dict[str, Any]) -> dict[str, Any]:
        empty = {"expectedOutput": None, "metadata": None, "sourceTraceId": None, "sourceObservationId": None}
        name = sent["datasetName"]
        stamp = {
            "status": "ACTIVE",
            "datasetId": f"d-{name}",
            "createdAt": NOW,
            "updatedAt": NOW,
            "mediaReferences": [],
        }
        return empty | sent | stamp

    def experiments(self) -> dict[str, dict[str, str]]:
        """Experiment name to dataset item to trace, as the span attributes say."""
        found: dict[str, dict[str, str]] = {}
        for span in self.otlp.spans:
            name = span.attributes.get("langfuse.experiment.name")
            if name and span.name == "experiment-item-run":
                item = str(span.attributes["langfuse.experiment.item.id"])
                found.setdefault(str(name), {})[item] = span.trace_id
        return found


@pytest.fixture
def langfuse() -> Iterator[Double]:
    double = Double()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            double.users.add(basic_auth(self.headers["Authorization"]))
            body = gzip.decompress(raw) if self.headers.get("Content-Encoding") == "gzip" else raw
            if self.path.endswith("/otel/v1/traces"):
                double.otlp.bodies.append(body)
                self.reply(200, ExportTraceServiceResponse().SerializeToString(), "application/x-protobuf")
                return
            status, answer = double.answer(self.command, self.path, body)
            self.reply(status, json.dumps(answer).encode(), "application/json")

        def do_GET(self) -> None:
            self.handle_any()

        def do_POST(self) -> None:
            self.handle_any()

        def reply(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        double.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield double
        server.shutdown()
        thread.join()


@pytest.fixture
def client(langfuse: Double, request: pytest.FixtureRequest) -> Iterator[langfuse_runs.Client]:
    keys = {
        "LANGFUSE_PUBLIC_KEY": f"pk-{request.node.name}",
        "LANGFUSE_SECRET_KEY": "sk-1",
        "LANGFUSE_BASE_URL": langfuse.url,
    }
    opened = langfuse_runs.open_client(keys)
    yield opened
    opened.shutdown()


ITEMS = tuple(
    Item(
        id=f"i{n}",
        site="orvane",
        lang="en",
        mode="elliptical",
        history=(HistoryMessage(role="assistant", content="Which sector?"),),
        query=f"reply {n}",
        company_name="Orvane",
        relevant=("p",),
    )
    for n in range(9)
)
SET = ItemSet("mini", ITEMS)


def make_run(folder: Path, *, drop: str = "") -> Run:
    refs = tuple(
        ItemRef(id=i.id, lang=i.lang, mode=i.mode, cluster=i.cluster, query=i.query, judged=True)
        for i in ITEMS
    )
    manifest = Manifest(
        arm="production", dataset="mini", dataset_sha256=SET.sha256, sealed=False, items=refs, runs=2, judge="labels",
        metrics=("ndcg@10", "mrr"), engine="lightrag", rag_mode="mix", env="test", started_at=NOW,
    )  # fmt: skip
    records = tuple(
        Record(id=item.id, run=number, query=item.query, scores={"ndcg@10": 0.5, "mrr": 1.0})
        for number in (1, 2)
        for item in ITEMS
        if not (item.id == drop and number == 2)
    )
    return Run(manifest, records, folder)


def test_a_run_becomes_one_experiment_a_repetition_with_scores(
    langfuse: Double, client: langfuse_runs.Client, tmp_path: Path
) -> None:
    run = make_run(tmp_path)
    names = upload_run(client, run, SET)
    assert names == [f"production mix {NOW} run 1", f"production mix {NOW} run 2"]
    experiments = langfuse.experiments()
    assert set(experiments) == set(names)
    remote = {langfuse_runs.remote_id("query-rewriter-mini", item.id): item.id for item in ITEMS}
    for name in names:
        assert {remote[item] for item in experiments[name]} == {item.id for item in ITEMS}
    assert len(langfuse.scores) == 2 * 2 * len(ITEMS)
    assert max(langfuse.batches) <= 15
    traces = {trace for items in experiments.values() for trace in items.values()}
    assert {score["traceId"] for score in langfuse.scores.values()} == traces
    assert {(s["name"], s["value"]) for s in langfuse.scores.values()} == {("ndcg@10", 0.5), ("mrr", 1.0)}
    assert all(secret == "sk-1" for _, secret in langfuse.users)


def test_pushing_twice_adds_nothing(langfuse: Double, client: langfuse_runs.Client, tmp_path: Path) -> None:
    run = make_run(tmp_path)
    upload_run(client, run, SET)
    scores, spans, items = dict(langfuse.scores), len(langfuse.otlp.spans), dict(langfuse.items)
    upload_run(client, run, SET)
    assert (tmp_path / PUSHED).is_file()
    assert {key: score["traceId"] for key, score in langfuse.scores.items()} == {
        key: score["traceId"] for key, score in scores.items()
    }
    assert len(langfuse.otlp.spans) == spans
    assert set(langfuse.items) == set(items)


def test_an_incomplete_run_is_not_sent(
    langfuse: Double, client: langfuse_runs.Client, tmp_path: Path
) -> None:
    with pytest.raises(IncompleteRunError, match=r"i4 \(run 2\): not run"):
        upload_run(client, make_run(tmp_path, drop="i4"), SET)
    assert langfuse.items == {}
    assert langfuse.otlp.bodies == []


def test_an_item_the_sdk_drops_is_named(
    langfuse: Double, client: langfuse_runs.Client, tmp_path: Path
) -> None:
    langfuse.hidden = langfuse_runs.remote_id("query-rewriter-mini", "i3")
    with pytest.raises(UploadError, match=r"lost 1 of 9 items, first 'i3'; it is incomplete"):
        upload_run(client, make_run(tmp_path), SET)
    assert langfuse.scores == {}


def test_rejected_scores_are_an_error(langfuse: Double, client: langfuse_runs.Client, tmp_path: Path) -> None:
    langfuse.reject = True
    with pytest.raises(UploadError, match="1 of 15 scores were rejected"):
        upload_run(client, make_run(tmp_path), SET)


def test_a_dataset_that_was_never_seeded_is_named(client: langfuse_runs.Client) -> None:
    result = langfuse_runs.ItemResult("i0", {}, {"mrr": 1.0})
    with pytest.raises(UploadError, match=r"no dataset 'nowhere' in Langfuse; seed it first"):
        langfuse_runs.push_run(client, "nowhere", "r", [result])


def test_a_server_that_is_down_is_one_sentence(langfuse: Double, client: langfuse_runs.Client) -> None:
    langfuse.broken = 401
    with pytest.raises(UploadError, match=r"dataset 'query-rewriter-mini': Langfuse answered 401"):
        upload_items(client, "mini", ITEMS)


def test_items_carry_what_a_reader_needs_and_are_overwritten_not_doubled(
    langfuse: Double, client: langfuse_runs.Client
) -> None:
    assert upload_items(client, "mini", ITEMS) == 9
    assert upload_items(client, "mini", ITEMS) == 9
    assert len(langfuse.items) == 9
    sent = langfuse.items[langfuse_runs.remote_id("query-rewriter-mini", "i0")]
    assert sent["input"] == {
        "query": "reply 0",
        "history": [{"role": "assistant", "content": "Which sector?"}],
        "company_name": "Orvane",
    }
    assert sent["expectedOutput"]["relevant"] == ["p"]
    assert sent["metadata"]["item_id"] == "i0"


def test_without_keys_nothing_is_opened() -> None:
    with pytest.raises(ConfigError, match="LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY not set"):
        langfuse_runs.open_client({})


def test_names_carry_arm_mode_and_repetition(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    assert len({run_name(run, 1), run_name(run, 2)}) == 2
    assert run_name(run, 1).startswith("production mix ")
