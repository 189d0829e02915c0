"""Which model answers which kind of question, by the routes of the configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, get_args

from langchain_core.language_models import BaseChatModel

from ixinfra.config.settings import ModelRoute, ModelsConfig
from ixinfra.llm import build_chat_model

RouteName = Literal[
    "query_rewriter",
    "query_reference",
    "answer",
    "lightrag_keyword",
    "lightrag_extract",
    "query_understanding",
]
ROUTE_NAMES: tuple[RouteName, ...] = get_args(RouteName)

STREAMED: RouteName = "answer"  # the one text a visitor watches being written


def is_local(route: ModelRoute) -> bool:
    """Whether the route needs no model: rules and quotations of our own answer."""
    return route.provider == "local"


def chat_model(
    models: ModelsConfig, name: RouteName, *, environ: Mapping[str, str] = os.environ
) -> BaseChatModel | None:
    """The chat model of a route; None where the route is local. No request is made.

    Raises:
        ConfigError: The route cannot be built as written, or its API key is missing.
        MissingExtraError: The provider's package is not installed.
    """
    route = route_of(models, name)
    if is_local(route):
        return None
    return build_chat_model(route, streaming=name == STREAMED, environ=environ, where=f"models.{name}")


def route_of(models: ModelsConfig, name: RouteName) -> ModelRoute:
    """The route with that name."""
    routes: dict[RouteName, ModelRoute] = {
        "query_rewriter": models.query_rewriter,
        "query_reference": models.query_reference,
        "answer": models.answer,
        "lightrag_keyword": models.lightrag_keyword,
        "lightrag_extract": models.lightrag_extract,
        "query_understanding": models.query_understanding,
    }
    return routes[name]
