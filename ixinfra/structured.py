"""Holding a chat model to a JSON schema, by whichever way its own package declares."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable


def held_to(model: BaseChatModel, schema: Mapping[str, Any]) -> Runnable[Any, Any] | None:
    """The model bound to answer in this schema; its result holds the model's message under `raw`.

    The method (a response format, a tool that must be called) is the default of the model's class.
    None where the class has no way, as with any model that cannot call tools.
    """
    declared = inspect.signature(type(model).with_structured_output).parameters
    strict = {"strict": True} if "strict" in declared else {}
    try:
        return model.with_structured_output(dict(schema), include_raw=True, **strict)
    except NotImplementedError:
        return None


def called_with(message: BaseMessage) -> str:
    """Arguments of the first tool call of a message, as JSON; "" without one."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return json.dumps(calls[0]["args"], ensure_ascii=False) if calls else ""
