"""A process killed in the middle of an ingest: what was stored stays, and the next run goes on from there."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from search_fakes import hash_encoders

from ixrag.search.encoders import Text
from ixrag.search.ingest import ingest
from ixrag.search.qdrant_edge import EmbeddedIndex

PASSAGES = [Text(f"p{n}", f"Passage number {n} is about rotas and stock", "en") for n in range(160)]

KILLED_AFTER_THREE_PORTIONS = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
sys.path.insert(0, {here!r})
from search_fakes import hash_encoders
from test_engine_crash import PASSAGES
from ixrag.search.ingest import ingest
from ixrag.search.qdrant_edge import EmbeddedIndex

def progress(done, total):
    if done >= 96:
        os.kill(os.getpid(), signal.SIGKILL)

index = EmbeddedIndex(Path({folder!r}), 64)
asyncio.run(ingest(index, hash_encoders(), "shop", PASSAGES, progress=progress))
"""


async def test_a_killed_ingest_loses_nothing_stored_and_is_taken_up_again(tmp_path: Path) -> None:
    here = Path(__file__).parent
    code = KILLED_AFTER_THREE_PORTIONS.format(
        tests=str(here.parent), here=str(here), folder=str(tmp_path / "shard")
    )
    ended = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == -9, ended.stderr

    index = EmbeddedIndex(tmp_path / "shard", 64)
    stored = await index.digests("shop", [passage.id for passage in PASSAGES])
    assert len(stored) == 96
    done = await ingest(index, hash_encoders(), "shop", PASSAGES)
    assert (done.stored, done.unchanged, done.removed) == (64, 96, 0)
    for number in (7, 150):  # stored before the kill, and after it
        vector = await hash_encoders().query("dense", PASSAGES[number].text, "en")
        hits = await index.search("shop", "dense", vector, limit=len(PASSAGES))
        # Some numbers share a hashed vector: each of them is as near as can be.
        assert f"p{number}" in {hit.id for hit in hits if hit.score > hits[0].score - 1e-6}
        assert hits[0].score == pytest.approx(1.0, abs=1e-5)
    await index.close()


async def test_an_ingest_removes_what_is_gone_and_encodes_what_changed(tmp_path: Path) -> None:
    index = EmbeddedIndex(tmp_path / "shard", 64)
    await ingest(index, hash_encoders(), "shop", PASSAGES[:10])
    changed = [Text("p0", "A new text", "en"), *PASSAGES[1:8]]
    done = await ingest(index, hash_encoders(), "shop", changed)
    assert (done.stored, done.unchanged, done.removed) == (1, 7, 2)
    assert (await ingest(index, hash_encoders("fr"), "shop", changed)).stored == 8  # other stems
    await index.close()
