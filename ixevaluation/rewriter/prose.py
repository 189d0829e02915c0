"""Arms that let a chat model write the search text. All of them replace the visitor's words."""

from __future__ import annotations

from dataclasses import dataclass

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage

from ixchat.utils.history import format_history
from ixchat.utils.resolution import Resolution, Turn
from ixinfra.errors import ModelError
from ixinfra.llm import complete

MODEL_TIMEOUT_S = 8.0


@dataclass(frozen=True, slots=True)
class Instruction:
    """What the model is asked to write; `purpose` is the arm's line in `--help` and reports."""

    purpose: str
    system: str


CANDIDATE = Instruction(
    "Prose rewrite with a clean prompt: one resolved question.",
    "You turn the last message of a support chat into one question for a search engine. Fill in what the "
    "conversation makes clear. Keep the visitor's language. If the message can be searched as it is, repeat it "
    "unchanged. Plain text, one line, at most 25 words, no quotes, no formatting, no explanation.",
)
MINIMAL = Instruction(
    "Telegraphic rewrite: the fewest words that can be searched.",
    "Write the search words for the last message of a support chat: topic and what is asked about it, taken from "
    "the conversation. Three to seven words in the visitor's language, no sentence, no punctuation, one line.",
)
HYDE = Instruction(
    "Search with an invented answer passage.",
    "Write the passage of the company's documentation that would answer the last message of this support chat: "
    "two or three factual sentences in the visitor's language, as they would stand there. Only the passage.",
)
CONDENSE = Instruction(
    "Condense conversation and follow-up into a stand-alone question.",
    "Below is a conversation and a follow-up. Rephrase the follow-up as a question that is understood without the "
    "conversation, in the same language. Answer with the question alone.",
)
FULL_QUESTION = Instruction(
    "Always write a complete question, all names and times spelt out.",
    "Write the complete question the visitor is asking now. Replace every pronoun and every missing part by what "
    "the conversation says, spell out names, keep the language. Always write a question, on one line, without "
    "any comment.",
)
INSTRUCTIONS = {
    "candidate": CANDIDATE,
    "minimal": MINIMAL,
    "hyde": HYDE,
    "condense": CONDENSE,
    "full-question": FULL_QUESTION,
}


def prose_prompt(turn: Turn) -> str:
    """The user message of every prose arm: history quoted, then the message."""
    return (
        f"Company: {turn.company_name or 'not stated'}\n"
        f"Conversation:\n{format_history(turn.messages)}\n\nVisitor's message: {turn.query}"
    )


async def rewrite(turn: Turn, model: BaseChatModel, instruction: Instruction) -> Resolution:
    """The model's text as the search text; the visitor's words when it fails or writes nothing."""
    messages = [SystemMessage(instruction.system), HumanMessage(prose_prompt(turn))]
    try:
        completion = await complete(model, messages, timeout_s=MODEL_TIMEOUT_S, name="prose-rewrite")
    except ModelError as error:
        return Resolution(turn.query, "error", "timeout" if error.reason == "timeout" else "model_error")
    text = " ".join(completion.text.split())
    if not text:
        return Resolution(turn.query, "error", "empty")
    trace = {"model": completion.model, "provider": completion.provider}
    return Resolution(text, "resolve" if text != turn.query else "keep", trace=trace)
