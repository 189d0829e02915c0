"""The route `local+MODEL`: rules decide where they are sure, a model is asked in between."""

from __future__ import annotations

from dataclasses import replace

from ixchat.utils.resolution import Resolution, Resolver, Turn


def ask_when_unsure(local: Resolver, model: Resolver, *, ask_below: float) -> Resolver:
    """A resolver that asks `model` only where `local` states a confidence below `ask_below`.

    The model's answer stands, also when it is a failure: then the visitor's words are searched, as on a
    route without a local part. The trace says `asked`, and where it was, `local_decision` and `agrees`.

    Args:
        local: States `confidence`, 0 to 1, in its trace; without it the model is asked.
        model: Any resolver of the same job.
        ask_below: Below which confidence the model is asked; 0 never asks, above 1 always does.
    """

    async def resolve(turn: Turn) -> Resolution:
        guess = await local(turn)
        if float(guess.trace.get("confidence", 0.0)) >= ask_below or guess.fallback == "first_turn":
            return replace(guess, trace={**guess.trace, "asked": False})
        answer = await model(turn)
        facts = {"asked": True, "local_decision": guess.decision, "agrees": answer.query == guess.query}
        return replace(answer, trace={**answer.trace, **facts})

    return resolve
