from __future__ import annotations

import asyncio

import pytest
from fakes import ScriptedModel
from langchain_core.messages import HumanMessage

from ixinfra.errors import ModelError
from ixinfra.llm import complete
from ixinfra.spending import spending

ASK = [HumanMessage("x" * 40)]  # about eleven tokens


async def test_calls_are_counted_in_every_task_of_the_block_and_nowhere_else() -> None:
    model = ScriptedModel()  # it counts fifteen tokens a call
    await complete(model, ASK)
    with spending() as spent:
        await asyncio.gather(*(complete(model, ASK) for _ in range(3)))
        with spending() as inner:
            await complete(model, ASK)
    await complete(model, ASK)
    assert (spent.calls, spent.tokens) == (3, 45)
    assert (inner.calls, inner.tokens) == (1, 15)


async def test_a_call_that_fails_or_hangs_costs_its_prompt() -> None:
    with spending() as spent:
        for model in (ScriptedModel(script=[RuntimeError("down")]), ScriptedModel(delay_s=30.0)):
            with pytest.raises(ModelError):
                await complete(model, ASK, timeout_s=0.01)
    assert (spent.calls, spent.tokens) == (2, 22)
