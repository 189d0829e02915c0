"""What a client may ask: one turn, as JSON."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StringConstraints,
    ValidationError,
    model_validator,
)

from ixinfra.errors import RefusedError

MAX_MESSAGE_CHARS = 8_000
MAX_HISTORY = 200

Text = Annotated[str, StringConstraints(max_length=MAX_MESSAGE_CHARS)]
Id = Annotated[str, StringConstraints(max_length=128)]


class PastMessage(BaseModel):
    """One earlier message of the conversation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Literal["user", "assistant"]
    content: Text


class TurnRequest(BaseModel):
    """The body of `POST /turn`.

    Attributes:
        tenant: Whose knowledge base is searched.
        message: The visitor's message.
        history: The conversation before it, oldest first, for a client that keeps it itself.
        thread: The conversation's id, for a client that leaves it to the server. Whoever knows it can go
            on with the conversation, so it must be hard to guess.
        rewriter: False searches the visitor's own words. True is what the configuration says: a request
            can switch resolution off, never on.
        session: Conversation, put on every span; default is `thread`.
        user: Visitor, put on every span.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tenant: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    message: Annotated[Text, StringConstraints(pattern=r"\S")]
    history: Annotated[tuple[PastMessage, ...], Field(max_length=MAX_HISTORY)] = ()
    thread: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{8,128}$")] | None = None
    rewriter: StrictBool = True
    session: Id = ""
    user: Id = ""

    @model_validator(mode="after")
    def _keeps_one_history(self) -> TurnRequest:
        if self.history and self.thread:
            raise ValueError("give history or thread, not both")
        return self


def read_turn(body: bytes) -> TurnRequest:
    """The request in `body`.

    Raises:
        RefusedError: It is not JSON, or not a turn; the text names each field and repeats nothing of it.
    """
    try:
        data: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError(400, "not_json", "the body is not JSON in UTF-8") from None
    try:
        return TurnRequest.model_validate(data)
    except ValidationError as error:
        raise RefusedError(400, "not_a_turn", "; ".join(_lines(error))) from None


def _lines(error: ValidationError) -> list[str]:
    return [
        ": ".join(filter(None, (".".join(map(str, problem["loc"])), problem["msg"])))
        for problem in error.errors(include_input=False, include_url=False)[:5]
    ]
