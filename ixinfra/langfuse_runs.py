"""Datasets, experiment runs and scores in Langfuse. A sink: nothing is computed from what is there.

The SDK drops failed items of an experiment without raising, and logs a rejected score at most. Both
are errors here.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langfuse import Langfuse
from langfuse.api.commons.errors import NotFoundError
from langfuse.api.core.api_error import ApiError
from langfuse.api.scores.types import CreateScoreRequest
from opentelemetry.sdk.trace import TracerProvider

from ixinfra.errors import ConfigError, UploadError

Client = Langfuse
SCORES_A_REQUEST = 15
TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class DatasetItem:
    """One item of a dataset; `id` is unique within it."""

    id: str
    input: Any
    expected: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What one run says about one item; `scores` are named numbers."""

    item_id: str
    output: Any
    scores: Mapping[str, float]
    comment: str = ""


def open_client(environ: Mapping[str, str] = os.environ) -> Langfuse:
    """A client of its own, from LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY and LANGFUSE_BASE_URL (or _HOST).

    Raises:
        ConfigError: A key is missing.
    """
    missing = [name for name in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY") if not environ.get(name)]
    if missing:
        raise ConfigError(f"{' and '.join(missing)} not set: Langfuse cannot be reached without both keys")
    return Langfuse(
        public_key=environ["LANGFUSE_PUBLIC_KEY"],
        secret_key=environ["LANGFUSE_SECRET_KEY"],
        base_url=environ.get("LANGFUSE_BASE_URL") or environ.get("LANGFUSE_HOST"),
        timeout=TIMEOUT_S,
        tracer_provider=TracerProvider(shutdown_on_exit=False),
    )


def push_dataset(client: Langfuse, name: str, items: Sequence[DatasetItem], *, description: str = "") -> int:
    """Create or update a dataset; an item that is there already is overwritten, never doubled.

    Raises:
        UploadError: Langfuse refused or could not be reached.
    """
    try:
        client.create_dataset(name=name, description=description)
        for item in items:
            client.create_dataset_item(
                dataset_name=name,
                id=remote_id(name, item.id),
                input=item.input,
                expected_output=item.expected,
                metadata={**item.metadata, "item_id": item.id},
            )
    except (ApiError, OSError) as error:
        raise UploadError(f"dataset {name!r}: {_why(error)}") from None
    except Exception as error:  # the SDK's HTTP client has exceptions of its own
        raise UploadError(f"dataset {name!r}: {type(error).__name__}") from None
    return len(items)


def push_run(
    client: Langfuse,
    dataset: str,
    run_name: str,
    results: Sequence[ItemResult],
    *,
    metadata: Mapping[str, Any] | None = None,
    known_traces: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Record one repetition of a run as an experiment, with a score per item and metric.

    Args:
        client: From `open_client`.
        dataset: Name of the dataset; `push_dataset` has created it.
        run_name: Carries arm and repetition: Langfuse merges runs of the same name.
        results: One per item of the dataset that was run.
        metadata: Facts about the run.
        known_traces: Item to trace of an earlier push of this run: those are not sent again, their
            scores are, under the same ids.

    Returns:
        Item id to trace id, for the next push.

    Raises:
        UploadError: The dataset is missing, an item got lost, or a score was rejected.
    """
    traces = dict(known_traces or {})
    new = [result for result in results if result.item_id not in traces]
    if new:
        traces |= _run_experiment(client, dataset, run_name, new, metadata or {})
    client.flush()
    lost = [result.item_id for result in results if result.item_id not in traces]
    if lost:
        raise UploadError(
            f"run {run_name!r} lost {len(lost)} of {len(results)} items, first {lost[0]!r}; it is incomplete"
        )
    _push_scores(client, run_name, results, traces)
    return traces


def remote_id(dataset: str, item_id: str) -> str:
    """Id of an item in Langfuse, where ids are unique per project, not per dataset."""
    return hashlib.sha256(f"{dataset}\0{item_id}".encode()).hexdigest()[:32]


def score_id(run_name: str, item_id: str, metric: str) -> str:
    """The same for the same run, item and metric: pushing twice overwrites."""
    return hashlib.sha256(f"{run_name}\0{item_id}\0{metric}".encode()).hexdigest()[:32]


def _run_experiment(
    client: Langfuse, name: str, run_name: str, results: Sequence[ItemResult], metadata: Mapping[str, Any]
) -> dict[str, str]:
    by_remote = {remote_id(name, result.item_id): result for result in results}
    try:
        dataset = client.get_dataset(name)
    except NotFoundError:
        raise UploadError(f"no dataset {name!r} in Langfuse; seed it first") from None
    except ApiError as error:
        raise UploadError(f"dataset {name!r}: {_why(error)}") from None
    except Exception as error:  # the SDK's HTTP client has exceptions of its own
        raise UploadError(f"dataset {name!r}: {type(error).__name__}") from None
    dataset.items = [item for item in dataset.items if item.id in by_remote]

    def task(*, item: Any, **_facts: Any) -> Any:
        return by_remote[item.id].output

    done = dataset.run_experiment(
        name=name,
        run_name=run_name,
        task=task,
        max_concurrency=8,
        metadata={k: str(v) for k, v in metadata.items()},
    )
    return {
        by_remote[result.item.id].item_id: result.trace_id
        for result in done.item_results
        if result.trace_id and not isinstance(result.item, dict)
    }


def _push_scores(
    client: Langfuse, run_name: str, results: Sequence[ItemResult], traces: Mapping[str, str]
) -> None:
    requests = [
        CreateScoreRequest(
            id=score_id(run_name, result.item_id, metric),
            trace_id=traces[result.item_id],
            name=metric,
            value=float(value),
            comment=result.comment or None,
        )
        for result in results
        for metric, value in result.scores.items()
    ]
    for start in range(0, len(requests), SCORES_A_REQUEST):
        batch = requests[start : start + SCORES_A_REQUEST]
        try:
            answer = client.api.scores.create(request=batch)
        except ApiError as error:
            raise UploadError(f"scores of run {run_name!r}: {_why(error)}") from None
        except Exception as error:  # the SDK's HTTP client has exceptions of its own
            raise UploadError(f"scores of run {run_name!r}: {type(error).__name__}") from None
        if rejected := getattr(answer, "rejected", 0):
            raise UploadError(f"run {run_name!r}: {rejected} of {len(batch)} scores were rejected")


def _why(error: Exception) -> str:
    status = getattr(error, "status_code", None)
    return f"Langfuse answered {status}" if status else type(error).__name__
