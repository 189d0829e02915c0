"""Talks to the outside: configuration, models, embeddings and tracing."""

from ixinfra.config.loader import get_config
from ixinfra.config.settings import Settings
from ixinfra.errors import IxError
from ixinfra.tracing import build_tracer

__all__ = ["IxError", "Settings", "build_tracer", "get_config"]
