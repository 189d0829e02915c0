"""LightRAG's extraction on a chat model whose answers are remembered: a passage is paid for once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage

from ixinfra.errors import KnowledgeBaseError, ModelError
from ixinfra.llm import complete
from ixrag.ingest.state import IngestState

NOTHING_FOUND = "<|COMPLETE|>"  # what LightRAG's prompt asks for at the end of every answer


@dataclass(frozen=True, slots=True)
class Extraction:
    """A model for entities and relations, its name, and the limit of one call."""

    model: BaseChatModel
    model_id: str
    timeout_s: float | None = None


class RememberedAnswers:
    """An `ExtractModel` that asks once for each prompt, in this run and in later ones.

    A passage on which the model fails goes in without entities, and is asked for again by the next run.

    Args:
        extraction: Who is asked; another model's answers are not its own.
        state: Where answers are remembered.
        told: Called with 1 after each answer.

    Attributes:
        asked: Calls that were made.
        failures: Calls that failed, by reason.
    """

    def __init__(
        self, extraction: Extraction, state: IngestState, told: Callable[[int], None] | None = None
    ) -> None:
        self._extraction = extraction
        self._state = state
        self._told = told
        self.asked = 0
        self.failures: Counter[str] = Counter()

    async def __call__(self, prompt: str, system_prompt: str) -> str:
        """The model's answer to a prompt of LightRAG's."""
        key = f"{system_prompt}\n{prompt}"
        answer = await asyncio.to_thread(self._state.answer, self._extraction.model_id, key)
        if answer is None:
            answer = await self._ask(prompt, system_prompt, key)
        if self._told:
            self._told(1)
        return answer

    def expect_answers(self) -> None:
        """Refuse a build to which the model contributed nothing.

        Raises:
            KnowledgeBaseError: Every call failed.
        """
        failed = self.failures.total()
        if failed and failed == self.asked:
            reasons = ", ".join(f"{reason} {count}×" for reason, count in self.failures.most_common())
            raise KnowledgeBaseError(
                f"the model of models.lightrag_extract answered none of {failed} calls ({reasons}); "
                'the index stays as it was. Try `ix doctor`, or model = "local:rules"'
            )

    async def _ask(self, prompt: str, system_prompt: str, key: str) -> str:
        messages = [SystemMessage(system_prompt)] if system_prompt else []
        self.asked += 1
        try:
            completion = await complete(
                self._extraction.model,
                [*messages, HumanMessage(prompt)],
                timeout_s=self._extraction.timeout_s,
                name="lightrag-extraction",
            )
        except ModelError as error:
            self.failures[error.reason] += 1
            return NOTHING_FOUND
        await asyncio.to_thread(self._state.put_answer, self._extraction.model_id, key, completion.text)
        return completion.text or NOTHING_FOUND
