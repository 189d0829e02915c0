"""The answer writer of the chat graph.

It reads the whole conversation and the visitor's own words: what was searched is retrieval's
business and never shown to it. Without a model, or when the model fails, it quotes the best passages.
"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, BaseMessageChunk, SystemMessage

from ixchat.nodes.knowledge_retriever import Deps, Emit
from ixinfra.errors import ModelError
from ixinfra.llm import stream_text

MAX_PASSAGES = 6  # what a small model still reads with attention
MAX_QUOTES = 2
MAX_QUOTE_CHARS = 420

ANSWER_PROMPT = """\
You answer visitors on the website of {company}. Use the passages below and the conversation; when \
they do not hold the answer, say so in one sentence and offer to pass the question on. Answer in the \
visitor's language, in at most five sentences, and name the passage a fact comes from as [n].

Passages:
{passages}"""

NOTHING_FOUND = {
    "fr": "Je n'ai rien trouvé à ce sujet dans nos documents.",
    "en": "I found nothing about this in our documents.",
    "es": "No he encontrado nada sobre esto en nuestros documentos.",
    "it": "Non ho trovato nulla su questo nei nostri documenti.",
    "de": "Dazu habe ich in unseren Unterlagen nichts gefunden.",
}


def passages_of(documents: Sequence[Document]) -> list[Document]:
    """The text passages among retrieved documents, best first; entities and relations are left out."""
    return [document for document in documents if document.metadata.get("kind", "chunk") == "chunk"]


def quote_passages(documents: Sequence[Document], language: str = "en") -> str:
    """The best passages, word for word, each with its source. Never empty."""
    passages = passages_of(documents)[:MAX_QUOTES]
    if not passages:
        return NOTHING_FOUND.get(language, NOTHING_FOUND["en"])
    return "\n\n".join(f"« {_cut(p.page_content)} »\n— {p.metadata.get('source', '?')}" for p in passages)


async def write_answer(
    messages: Sequence[AnyMessage], documents: Sequence[Document], deps: Deps, *, emit: Emit | None = None
) -> AIMessage:
    """Answer the last message of the conversation.

    With `deps.answer_model` the tokens reach the host's `messages` stream as they come, and `emit` as
    `{"event": "token", "text": …}` without the model's reasoning. A model that fails is replaced by quotes;
    `additional_kwargs["fallback"]` then holds the reason.
    """
    with deps.tracer.span("answer-writer", "chain", input={"documents": len(documents)}) as span:
        if deps.answer_model is None:
            return AIMessage(quote_passages(documents, deps.language))
        prompt = _prompt(messages, documents, deps)
        pieces: list[str] = []
        whole: list[BaseMessageChunk] = []
        try:
            async for piece in stream_text(deps.answer_model, prompt, name="answer-model", whole=whole):
                pieces.append(piece)
                if emit:
                    emit({"event": "token", "text": piece})
        except ModelError as error:
            span.fail(error.reason)
            quotes = quote_passages(documents, deps.language)
            return AIMessage(quotes, additional_kwargs={"fallback": error.reason})
        text = "".join(pieces).strip()
        # Under the id its tokens had, LangGraph does not show the answer a second time.
        return AIMessage(text or quote_passages(documents, deps.language), id=whole[0].id if whole else None)


def _prompt(messages: Sequence[AnyMessage], documents: Sequence[Document], deps: Deps) -> list[BaseMessage]:
    passages = "\n\n".join(
        f"[{number}] {passage.page_content}"
        for number, passage in enumerate(passages_of(documents)[:MAX_PASSAGES], start=1)
    )
    system = ANSWER_PROMPT.format(company=deps.company_name or "the company", passages=passages or "(none)")
    return [SystemMessage(system), *messages]


def _cut(text: str) -> str:
    if len(text) <= MAX_QUOTE_CHARS:
        return text
    return text[:MAX_QUOTE_CHARS].rsplit(" ", 1)[0] + " …"
