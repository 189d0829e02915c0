"""Retrieval without any graph: a `Turn` in, a `Retrieval` out.

Run: `python examples/plain_asyncio.py`. Needs the extra `local`, no key and no network.
"""

from __future__ import annotations

import asyncio

from ixchat import open_tenants, retrieve, turn_from
from ixinfra import get_config

CONVERSATION = [
    (
        "Bonjour, que proposez-vous pour planifier une équipe ?",
        "Planivaro. Dans quel secteur travaillez-vous ?",
    ),
    ("Santé", "Planivaro gère les roulements de nuit."),
    ("Quels établissements l'utilisent déjà aujourd'hui ?", "Vingt-sept maisons de retraite."),
]


async def main() -> None:
    """Search for each message, given what was said before it."""
    history: list[tuple[str, str]] = []
    async with open_tenants(get_config("development")) as tenants, tenants.lend("advanced") as deps:
        for message, reply in CONVERSATION:
            turn = turn_from(message, history, company_name=deps.company_name, tenant_id=deps.tenant_id)
            async with asyncio.timeout(15):  # cancelling a turn cancels all that it started
                retrieval = await retrieve(turn, deps)
            print(f"{retrieval.path}, {retrieval.resolution.decision}: {retrieval.record['query']}")
            assert retrieval.documents  # best first
            history += [("user", message), ("assistant", reply)]


if __name__ == "__main__":
    asyncio.run(main())
