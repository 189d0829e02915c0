"""How a resolver asks its model: the prompt's fixed part, the quoted turn, one call, text or a reason back."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from ixchat.utils.history import format_history, plain_text
from ixchat.utils.resolution import Fallback, Turn
from ixchat.utils.terms import encodable
from ixinfra.errors import ModelError
from ixinfra.llm import complete, model_id

MAX_QUERY_CHARS = 1_000  # of the visitor's message, as a model sees it
MAX_COMPANY_CHARS = 100

# The history is quoted inside one user message: given as chat roles, models answer the visitor
# instead of resolving the message.
_TURN = """\
Company: {company}

<conversation>
{history}
</conversation>

<message>
{query}
</message>

{ask}"""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The fixed text of one resolver's question.

    Attributes:
        name: Name of the generation span.
        instructions: System message; the same for every turn, so that providers can cache it.
        ask: Last line of the user message.
    """

    name: str
    instructions: str
    ask: str

    @property
    def version(self) -> str:
        """Twelve hexadecimal digits that change with any character of the prompt; for run records."""
        text = "\0".join((self.instructions, _TURN, self.ask))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def messages(self, turn: Turn) -> list[BaseMessage]:
        """What the model is sent for `turn`: instructions, and one message with everything quoted."""
        quoted = _TURN.format(
            company=_quotable(plain_text(turn.company_name, MAX_COMPANY_CHARS)) or "unknown",
            history=_quotable(format_history(turn.messages)),
            query=_quotable(plain_text(turn.query, MAX_QUERY_CHARS)),
            ask=self.ask,
        )
        return [SystemMessage(self.instructions), HumanMessage(quoted)]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of asking: the model's text, or why there is none.

    Attributes:
        text: The model's text; "" when the call failed.
        facts: Model, provider, usage, milliseconds and prompt version, for the resolution's trace.
        failure: Reason of a failed call.
    """

    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    failure: Fallback | None = None


async def ask(prompt: Prompt, turn: Turn, model: BaseChatModel, *, timeout_s: float | None = None) -> Answer:
    """Ask `model` once. A failed call is an `Answer` with its reason; only a cancellation is raised.

    Args:
        prompt: What to ask.
        turn: What to ask about.
        model: Any LangChain chat model.
        timeout_s: Longest wait, in seconds; default: the limit of the model's route.
    """
    try:
        completion = await complete(model, prompt.messages(turn), timeout_s=timeout_s, name=prompt.name)
    except ModelError as error:
        failure: Fallback = "timeout" if error.reason == "timeout" else "model_error"
        return Answer("", {"model": model_id(model), "prompt": prompt.version}, failure)
    return Answer(
        encodable(completion.text),
        {
            "model": completion.model,
            "provider": completion.provider,
            "usage": dict(completion.usage),
            "elapsed_ms": round(completion.elapsed_ms, 1),
            "prompt": prompt.version,
        },
    )


def _quotable(text: str) -> str:
    """Text that cannot close the quotation it stands in, and is the same bytes however it was typed."""
    return unicodedata.normalize("NFC", text).replace("</", "< /")
