"""What tracing adds to a turn, on good days and bad. Run: `python -m benchmarks.tracing [--turns N]`.

The same turn (a follow-up that resolves: five spans) runs untraced and with each kind of tracing host,
in one process, alternating. Goals: a host that is down, silent or refusing costs a turn nothing that a
healthy host does not; stopping takes under 2 s.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.timing import table
from ixchat.nodes.knowledge_retriever import Deps, retrieve
from ixchat.utils.history import turn_from
from ixchat.utils.query_keywords import resolve_reference
from ixinfra.config.settings import TracingConfig
from ixinfra.tracing import NO_TRACER, Tracer, build_tracer

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from fakes import FakeRetriever, ScriptedModel
from otlp_server import SILENT, otlp_server, refusing_host

HISTORY = [("user", "Avez-vous un outil pour la paie ?"), ("assistant", "Oui, Velmora Paie.")]
TURN = turn_from("Quelles enseignes l'ont déjà installé ?", HISTORY, company_name="Velmora", tenant_id="t")
STATUS = {"answers": 200, "silent": SILENT, "401": 401, "413": 413, "503": 503}
SEARCH_S, CHECK_S = 0.02, 0.01


def open_tracer(exporter: Any, url: str) -> Tracer:
    """A tracer of its own: the SDK keeps one client per key."""
    name = uuid4().hex
    keys = {
        "LANGFUSE_PUBLIC_KEY": f"pk-{name}",
        "LANGFUSE_SECRET_KEY": f"sk-{name}",
        "LANGFUSE_BASE_URL": url,
    }
    return build_tracer(TracingConfig(exporter=exporter, otlp_endpoint=f"{url}/v1/traces"), environ=keys)


async def one_turn(tracer: Tracer) -> float:
    """Milliseconds of one turn."""
    model = ScriptedModel(script=["RESOLVE: Velmora Paie"], delay_s=CHECK_S)
    deps = Deps(
        FakeRetriever(delay_s=SEARCH_S),
        reference_resolver=partial(resolve_reference, model=model),
        tracer=tracer,
    )
    began = time.perf_counter()
    with tracer.turn(session_id="s", tenant_id="t"):
        await retrieve(TURN, deps)
    return (time.perf_counter() - began) * 1000


async def measure(tracers: dict[str, Tracer], turns: int) -> dict[str, list[float]]:
    """Turn times per tracer, alternating, so that a busy moment hits all of them."""
    rows: dict[str, list[float]] = {name: [] for name in tracers}
    for tracer in tracers.values():
        await one_turn(tracer)
    for _ in range(turns):
        for name, tracer in tracers.items():
            rows[name].append(await one_turn(tracer))
    return rows


def main() -> None:
    """Print turn times and stop times per host."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=300, help="turns per host")
    turns = parser.parse_args().turns
    logging.disable(logging.CRITICAL)  # exporters report every lost batch
    with ExitStack() as stack:
        hosts = {name: stack.enter_context(otlp_server(status)).url for name, status in STATUS.items()}
        hosts["refuses"] = stack.enter_context(refusing_host())
        tracers = {"no tracing": NO_TRACER}
        tracers |= {f"langfuse, {name}": open_tracer(("langfuse",), url) for name, url in hosts.items()}
        tracers["otlp, answers"] = open_tracer(("otlp",), hosts["answers"])
        tracers["both, silent"] = open_tracer(("otlp", "langfuse"), hosts["silent"])
        print(table("turn", asyncio.run(measure(tracers, turns))))
        stops: dict[str, list[float]] = {}
        for name, tracer in tracers.items():
            began = time.perf_counter()
            tracer.close(1.0)
            stops[name] = [(time.perf_counter() - began) * 1000]
        print(table("stop, asked for 1 s", stops))


if __name__ == "__main__":
    main()
