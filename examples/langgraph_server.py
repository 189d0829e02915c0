"""The chat graph for LangGraph Server. Run: `langgraph dev`, with `pip install "langgraph-cli[inmem]"`.

`langgraph.json` names the variable `graph`. The module is loaded once; tenants are opened by the first run
that needs them, inside the server's event loop, and stay open.
"""

from __future__ import annotations

import os
from functools import partial

from ixchat import build_chat_graph
from ixchat.graph import open_tenant
from ixchat.tenants import TenantRegistry
from ixinfra import build_tracer, get_config
from ixinfra.embeddings import build_embedder

settings = get_config(os.environ.get("SHOP_ENV", "development"))
tenants = TenantRegistry(
    partial(
        open_tenant,
        settings,
        embedder=build_embedder(settings.embedding),
        tracer=build_tracer(settings.tracing, environment=settings.env),
    )
)
graph = build_chat_graph(tenants)  # the server brings its own checkpointer
