"""What models put around or instead of an answer: fences, quotes, preambles, refusals, their own reasoning.

Every function is linear in the length of the text and accepts any string.
"""

from __future__ import annotations

import re

from ixchat.utils.terms import INVISIBLE
from ixinfra.llm import without_thinking
from ixrag.words import folded

_BULLET = re.compile(r"\A(?:(?:[-+•]|\*(?!\*))\s+|#{1,6}\s+|>\s*)")
_AROUND = " \t\u00a0\u202f\"'`*_~“”„‟«»‹›‘’‚‛「」『』<>"
_MAX_PREAMBLE_WORDS = 8
_MAX_ANSWER_CHARS = 4_000  # an answer is a line or two; the rest is a model that ran away

# All lists below are folded words, as `folded` gives them.
_NOTHING = frozenset({
    "none", "n a", "na", "nil", "null", "nothing", "empty", "undefined", "unknown", "not applicable",
    "no name", "no query", "aucun", "aucune", "aucun nom", "neant", "rien", "vide", "sans objet",
    "ninguno", "ninguna", "ningun nombre", "nada", "no aplica", "nessuno", "nessuna", "nessun nome",
    "niente", "nulla", "non applicabile", "kein", "keine", "keiner", "keines", "kein name", "nichts",
    "entfallt", "nicht zutreffend",
})  # fmt: skip
_ANNOUNCEMENT = re.compile(r"(?:here is|here s|here are|sure|certainly|of course|voici|hier ist)\b")
_LABEL = re.compile(
    r"(?:(?:the |la |le |il |die )?(?:search |standalone |resolved |final |reformulated )?"
    r"(?:query|answer|output|result|decision|requete|recherche|reponse|resultat|consulta|busqueda|respuesta"
    r"|ricerca|risposta|suchanfrage|anfrage|antwort|ok|okay|bien sur|aqui|claro|ecco|certo|gerne|naturlich))\b"
)
_REFUSAL = re.compile(
    r"(?:i m sorry|i am sorry|sorry|i can t|i cannot|i can not|i am unable|i m unable|i don t|as an ai"
    r"|unfortunately|je suis desole|desole|je ne peux|je ne suis|lo siento|no puedo|mi dispiace|non posso"
    r"|es tut mir|tut mir|ich kann)\b"
)
_SCAFFOLD = re.compile(
    r"\b(?:the (?:assistant|visitor|user|agent)|l (?:assistant|utilisateur|agent|assistente|utente)|le visiteur"
    r"|la visiteuse|el (?:asistente|visitante|usuario|agente)|il visitatore"
    r"|(?:der|die|das) (?:assistent|assistentin|besucher|besucherin|nutzer|benutzer))\b"
)
_NUMBERED_CASE = re.compile(r"(?:step|case|etape|cas|paso|caso|passo|schritt|fall) \d")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def answer_lines(text: str) -> list[str]:
    """The lines that say something, in order, without reasoning, fences, bullets and invisible characters."""
    answer = INVISIBLE.sub("", without_thinking(text))[:_MAX_ANSWER_CHARS]
    lines = (line.strip() for line in answer.splitlines())
    return [_BULLET.sub("", line, count=1) for line in lines if line and not line.startswith("```")]


def unwrap(text: str) -> str:
    """Take quotes, emphasis and blanks off both ends, and a final full stop."""
    bare = text.strip(_AROUND)
    if bare.endswith(".") and not bare.endswith(".."):
        bare = bare[:-1]
    return bare.strip(_AROUND)


def is_nothing(text: str) -> bool:
    """Whether a model says that there is nothing to say: `NONE`, `aucun`, `n/a`, `-`."""
    bare = folded(text[:40])
    return not bare or (len(text) <= 40 and bare in _NOTHING)


def is_refusal(text: str) -> bool:
    """Whether a model excuses itself instead of answering."""
    return bool(_REFUSAL.match(folded(text[:80])))


def is_scaffold(text: str, query: str) -> bool:
    """Whether a text is the model's own classification of the turn: a numbered case, or `speaks_of_turn`.

    A leading number that the visitor's own message starts with (`5 à 10 ans`) is an answer.
    """
    text = text.lstrip()
    foreign_number = text[:1].isdigit() and _leading_number(text) != _leading_number(query.lstrip())
    return foreign_number or bool(_NUMBERED_CASE.match(folded(text))) or speaks_of_turn(text, query)


def speaks_of_turn(text: str, query: str) -> bool:
    """Whether a text speaks of the assistant or the visitor, where `query`, the visitor's message, does not."""
    theirs = folded(query)
    return any(match.group() not in theirs for match in _SCAFFOLD.finditer(folded(text)))


def without_preamble(line: str) -> str:
    """`Here is the query: X` → `X`; "" for an announcement with nothing behind it. Other lines stay."""
    head, colon, rest = line.replace("：", ":", 1).partition(":")
    announces = bool(_ANNOUNCEMENT.match(folded(head)))
    if not colon:
        return "" if announces else line
    short = len(head.split()) <= _MAX_PREAMBLE_WORDS
    return rest.strip() if short and (announces or _LABEL.match(folded(head))) else line


def _leading_number(text: str) -> str:
    number = _NUMBER.match(text)
    return number.group() if number else ""
