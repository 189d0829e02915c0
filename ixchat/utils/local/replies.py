"""What a short reply asks for: what the assistant asked or offered, in the words of the conversation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ixchat.utils.candidates import Mention, Spoken, recent
from ixchat.utils.local.lexicon import Lexicon, lexicon_of
from ixchat.utils.names import is_company
from ixchat.utils.resolution import Turn
from ixchat.utils.terms import INVISIBLE
from ixrag.names import NameHit, NameIndex
from ixrag.words import Word, folded, words

Act = Literal["accepts", "answers", "declines", "acknowledges"]
"""`accepts` an offer, `answers` a question or adds a detail, or says nothing to search for."""

_YES_SIGNS = "👍👌✅🙌👏💯"
_NO_SIGNS = "👎❌🚫"
_SENTENCE = re.compile(r"[^.!?？！。\n]+[.!?？！。]*")


@dataclass(frozen=True, slots=True)
class Term:
    """A word or name to search for, as the conversation writes it, and where it stands.

    `mention` is None for the visitor's own words.
    """

    text: str
    is_name: bool
    mention: Mention | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A short reply read in its conversation.

    Attributes:
        act: What the reply does.
        own: Terms of the reply itself; empty for a bare yes.
        wanted: Terms of what is asked for: the offer, or the request that the reply completes. Names first.
        language: ISO 639-1 code of the word lists used; empty when unknown.
    """

    act: Act
    own: tuple[Term, ...] = ()
    wanted: tuple[Term, ...] = ()
    language: str = ""


def read_reply(turn: Turn, index: NameIndex) -> Reading:
    """Read a short reply.

    After an offer, a yes asks for what was offered: its terms come from the offering sentence. Any
    other reply completes the visitor's previous request: terms come from there, then from the
    assistant's question. Every term stands in the conversation; nothing is invented.
    """
    reply = words(turn.query)
    spoken = recent(turn.messages)
    lexicon = lexicon_of([], *(said.words for said in spoken)) or lexicon_of(reply)
    if lexicon is None:
        return Reading("answers", (Term(turn.query.strip(), False),)) if reply else Reading("acknowledges")
    collect = _Collector(lexicon, index, turn.company_name)
    own = tuple(collect.own_terms(reply, turn.query))
    act = _act(" ".join(word.folded for word in reply), lexicon) if reply else _act_of_sign(turn.query)
    if act in ("declines", "acknowledges"):
        return Reading(act, language=lexicon.code)
    if act == "accepts":
        return Reading(act, (), _unique(_offered(spoken, lexicon, collect)), lexicon.code)
    seen = set(folded(turn.query).split())
    wanted = (term for term in _requested(spoken, collect) if not seen.issuperset(folded(term.text).split()))
    return Reading(act, own, _unique(wanted), lexicon.code)


def _act(text: str, lexicon: Lexicon) -> Act:
    """Bare replies are recognised whole: "oui merci" is a yes, "oui Lille" is an answer."""
    rest, kinds = text, set[str]()
    for kind, pattern in lexicon.reply.items():
        rest, count = pattern.subn(" ", rest)
        kinds |= {kind} if count else set()
    if any(lexicon.has_content(word) and word not in lexicon.frame for word in rest.split()):
        return "answers"
    if "no" in kinds:
        return "declines"
    return "accepts" if "yes" in kinds else "acknowledges"


def _act_of_sign(text: str) -> Act:
    if any(sign in text for sign in _YES_SIGNS):
        return "accepts"
    return "declines" if any(sign in text for sign in _NO_SIGNS) else "acknowledges"


def _offered(spoken: Sequence[Spoken], lexicon: Lexicon, collect: _Collector) -> list[Term]:
    """Terms of the last offer or question of the assistant, then names around it."""
    last = next((said for said in reversed(spoken) if said.role == "assistant"), None)
    if last is None:
        return []
    sentences = [match.span() for match in _SENTENCE.finditer(last.text)]
    offers = [
        (start, end)
        for start, end in sentences
        if lexicon.offer.search(folded(last.text[start:end]))
        or last.text[start:end].rstrip().endswith(("?", "？"))
    ]
    if not offers:
        return []
    start, end = offers[-1]
    inside = [word for word in last.words if start <= word.start < end]
    terms = collect.terms(inside, last.text, last)
    if any(term.is_name for term in terms):
        return terms
    return [*terms, *collect.names(last.words, last), *_names_asked(spoken, collect)]


def _requested(spoken: Sequence[Spoken], collect: _Collector) -> list[Term]:
    """Terms of the visitor's last request with content, else of the assistant's question; names first."""
    asked = [said for said in reversed(spoken) if said.role == "user"]
    for said in asked:
        terms = collect.terms(said.words, said.text, said)
        if terms:
            return terms
    last = next((said for said in reversed(spoken) if said.role == "assistant"), None)
    return collect.terms(last.words, last.text, last) if last and "?" in last.text else []


def _names_asked(spoken: Sequence[Spoken], collect: _Collector) -> list[Term]:
    for said in reversed(spoken):
        if said.role == "user" and (names := collect.names(said.words, said)):
            return names
    return []


@dataclass(frozen=True, slots=True)
class _Collector:
    lexicon: Lexicon
    index: NameIndex
    company_name: str

    def terms(self, text_words: Sequence[Word], text: str, said: Spoken | None) -> list[Term]:
        """Names, then other words with content, each once."""
        hits = self._hits(text_words)
        covered = {position for hit in hits for position in range(hit.first_word, hit.last_word + 1)}
        company = set(folded(self.company_name).split())
        plain = [
            Term(text[word.start : word.end], False, _mention(said, word.start, word.end))
            for position, word in enumerate(text_words)
            if position not in covered and self._says_something(word) and word.folded not in company
        ]
        names = [Term(text[hit.start : hit.end], True, _mention(said, hit.start, hit.end)) for hit in hits]
        return list(_unique([*names, *plain]))

    def own_terms(self, reply: Sequence[Word], text: str) -> list[Term]:
        """The visitor's words, piece by piece as written: "5 à 10 ans" stays one term."""
        hits = self._hits(reply)
        terms = [Term(text[hit.start : hit.end], True) for hit in hits]
        pieces: list[list[Word]] = [[]]
        for position, word in enumerate(reply):
            if any(hit.first_word <= position <= hit.last_word for hit in hits):
                pieces.append([])
                continue
            if position and not _is_blank(text[reply[position - 1].end : word.start]):
                pieces.append([])
            pieces[-1].append(word)
        for piece in pieces:
            content = [word for word in piece if self._says_something(word)]
            if content:
                terms.append(Term(text[content[0].start : content[-1].end], False))
        return terms

    def names(self, text_words: Sequence[Word], said: Spoken) -> list[Term]:
        """Names alone."""
        return [
            Term(said.text[hit.start : hit.end], True, _mention(said, hit.start, hit.end))
            for hit in self._hits(text_words)
        ]

    def _says_something(self, word: Word) -> bool:
        return self.lexicon.has_content(word.folded) and word.folded not in self.lexicon.frame

    def _hits(self, text_words: Sequence[Word]) -> list[NameHit]:
        return [hit for hit in self.index.find_in(text_words) if not is_company(hit.name, self.company_name)]


def _is_blank(between: str) -> bool:
    return INVISIBLE.sub("", between).isspace()


def _mention(said: Spoken | None, start: int, end: int) -> Mention | None:
    return Mention(said.index, said.role, start, end) if said else None


def _unique(terms: Iterable[Term]) -> tuple[Term, ...]:
    first: dict[str, Term] = {}
    for term in terms:
        first.setdefault(folded(term.text), term)
    return tuple(first.values())
