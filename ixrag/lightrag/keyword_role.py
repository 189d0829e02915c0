"""LightRAG's keyword role on a chat model, under our deadline."""

from __future__ import annotations

import json

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from ixinfra.errors import ModelError
from ixinfra.llm import complete
from ixrag.lightrag.calls import CALLS, Calls
from ixrag.lightrag.engine import KeywordModel
from ixrag.lightrag.keywords import extract_keywords
from ixrag.names import NameIndex


def keyword_role(model: BaseChatModel, names: NameIndex, timeout_s: float | None = None) -> KeywordModel:
    """Answers LightRAG's extraction prompt with `model`; without it when the model fails.

    A dead keyword model then costs its deadline and some precision, not the search. The reason is kept
    for the search's report.
    """

    async def extract(prompt: str) -> str:
        try:
            answer = await complete(
                model, [HumanMessage(prompt)], timeout_s=timeout_s, name="lightrag-keywords"
            )
            return answer.text
        except ModelError as error:
            calls = CALLS.get() or Calls()
            calls.keyword_failure = error.reason
            ll, hl = extract_keywords(calls.query, names)
            return json.dumps({"low_level_keywords": ll, "high_level_keywords": hl})

    return extract
