"""What models wrap around an answer, taken off: reasoning, fences, quotes, preambles, refusals, nothing.

Every function is linear in the length of the text and accepts any string.
"""

from __future__ import annotations

import re

from ixchat.utils.terms import INVISIBLE, fold

_THINKING_TAGS = ("think", "thinking", "reasoning", "thought")
_OPEN = re.compile(rf"<({'|'.join(_THINKING_TAGS)})>", re.IGNORECASE)
_CLOSE = re.compile(rf"</(?:{'|'.join(_THINKING_TAGS)})>", re.IGNORECASE)
_BULLET = re.compile(r"(?:[-+•]|\*(?!\*))\s+|#{1,6}\s+|>\s*")
_WRAPPING = " \t\r\n\u00a0\u202f\"'`*_~“”„‟«»‹›‘’‚‛「」『』"
_NOTHING = frozenset({
    "none", "n/a", "na", "nil", "null", "nothing", "empty", "undefined", "unknown", "not applicable",
    "no name", "no query", "aucun", "aucune", "aucun nom", "neant", "rien", "vide", "sans objet",
    "ninguno", "ninguna", "ningun nombre", "nada", "no aplica", "nessuno", "nessuna", "nessun nome",
    "niente", "nulla", "non applicabile", "keine", "keiner", "keines", "kein", "kein name", "nichts",
    "entfallt", "nicht zutreffend",
})  # fmt: skip
_PREAMBLE = re.compile(
    r"(?:here(?: is|'s| are)|sure|certainly|of course|okay|ok|voici|bien sur|aqui|claro|ecco|certo|hier ist|gerne|naturlich"
    r"|(?:the |la |le |il |die )?(?:search |standalone |resolved |final |reformulated )?"
    r"(?:query|answer|output|result|requete|recherche|reponse|resultat|consulta|busqueda|respuesta"
    r"|ricerca|query di ricerca|risposta|suchanfrage|anfrage|antwort))\b"
)
_REFUSAL = re.compile(
    r"(?:i'?m sorry|i am sorry|sorry|i (?:can(?:no|')t|can not|am unable|do not|don't)|as an ai|unfortunately"
    r"|(?:je suis )?desole|je ne (?:peux|suis)|lo siento|no puedo|mi dispiace|non posso"
    r"|(?:es )?tut mir|ich kann)\b"
)
_SCAFFOLD = re.compile(
    r"\b(?:the (?:assistant|visitor|user|agent)|l'(?:assistant|utilisateur|agent|assistente|utente)|le visiteur"
    r"|la visiteuse|el (?:asistente|visitante|usuario|agente)|il visitatore|(?:der|die|das) (?:assistent|besucher(?:in)?|nutzer|benutzer))\b"
    r"|^(?:step|case|etape|cas|paso|caso|passo|schritt|fall) ?\d"
)


def without_thinking(text: str) -> str:
    """Drop `<think>` blocks; an unclosed one swallows the rest, an unopened one what precedes it."""
    if "<" not in text:
        return text
    kept: list[str] = []
    position = 0
    for opening in _OPEN.finditer(text):
        if opening.start() < position:
            continue
        kept.append(_after_last_close(text[position : opening.start()]))
        closing = _CLOSE.search(text, opening.end())
        if closing is None:
            return "".join(kept)
        position = closing.end()
    kept.append(_after_last_close(text[position:]))
    return "".join(kept)


def answer_lines(text: str) -> list[str]:
    """The lines that say something, in order, without reasoning, fences and bullets."""
    lines = (line.strip() for line in INVISIBLE.sub("", without_thinking(text)).splitlines())
    return [_BULLET.sub("", line, count=1) if _BULLET.match(line) else line for line in lines if _says(line)]


def unwrap(text: str) -> str:
    """Take quotes, emphasis and blanks off both ends, and a final full stop."""
    bare = text.strip(_WRAPPING)
    if bare.endswith(".") and not bare.endswith(".."):
        bare = bare[:-1]
    return bare.strip(_WRAPPING)


def is_nothing(text: str) -> bool:
    """Whether the answer says that there is nothing to say (`NONE`, `aucun`, `n/a`, `-`)."""
    bare = fold(text).text.strip(" .!:;,-_*()[]<>{}\"'`")
    return not bare or bare in _NOTHING


def is_refusal(text: str) -> bool:
    """Whether the model excuses itself instead of answering."""
    return bool(_REFUSAL.match(fold(text[:80]).text))


def is_scaffold(text: str, query: str) -> bool:
    """Whether the text is the model's own classification of the turn, and not an answer.

    It speaks of the assistant or the visitor, or starts with a digit. What the visitor's own message
    says too (`5 à 10 ans`) is an answer.
    """
    ours, theirs = fold(text).text.lstrip(), fold(query).text.strip()
    if ours[:1].isdigit() and _leading_number(ours) != _leading_number(theirs):
        return True
    return any(match.group() not in theirs for match in _SCAFFOLD.finditer(ours))


def without_preamble(line: str) -> str:
    """`Here is the query: X` → `X`. A preamble with nothing behind it gives ""; other lines stay."""
    folded = fold(line)
    if not _PREAMBLE.match(folded.text):
        return line
    colon = folded.text.find(":")
    if colon < 0 or len(folded.text[:colon].split()) > 8:
        return line
    return line[folded.ends[colon] :].strip()


def _after_last_close(text: str) -> str:
    closings = list(_CLOSE.finditer(text))
    return text[closings[-1].end() :] if closings else text


def _says(line: str) -> bool:
    return bool(line) and not line.startswith("```")


def _leading_number(text: str) -> str:
    number = re.match(r"\d+(?:[.,]\d+)*", text)
    return number.group() if number else ""
