"""Which words of a text name something, judged by how they are written: no model, any European language.

A name is written with a capital in the middle of a sentence and never without one; or somebody marked it:
as a heading, in bold, in quotation marks, by a definition. German writes every noun with a capital, so
there a capital counts only for what is also named elsewhere or marked.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ixrag.ingest.split import sentences
from ixrag.lightrag.stop_words import STOP_WORDS
from ixrag.words import folded

Evidence = Literal["capitals", "label", "heading", "marked", "quoted", "defined", "glossary"]

MAX_NAME_WORDS = 5
MAX_TOPIC_WORDS = 4
LOWER_SHARE = 0.1  # of a name's occurrences that may begin with a small letter
GERMAN_SHARE = 0.16  # of capitals inside sentences; other languages stay below, German is near 0.3
GERMAN_WORDS = 25  # from how many words on that share says something
SMALL_CORPUS = 200  # passages; in more, a name must be written twice

_TOKEN = re.compile(r"[^\W_]+(?:[.&+-][^\W_]+)*\+{0,2}")
_ELISION = re.compile(r"\b(?:[dlnmtsjc]|qu|dell|nell|all|sull|un)[’'](?=\w)", re.IGNORECASE)
_LABEL = re.compile(r"^([^\W\d_]{3,20})\s?:\s+(\S.*)$")
_HEAD = re.compile(r"^(.+?)(?:,|\s[–—-]\s|:\s|\s\(|$)")
_QUOTED = re.compile(r"«\s*([^«»\n]{2,60}?)\s*»|“([^“”\n]{2,60})”|„([^„“\n]{2,60})“")
_DEFINED = re.compile(
    r"^(?P<name>[^,.;:()]{2,60}?),? (?:is|are|est|sont|es|son|è|sono|ist|sind) "
    r"(?:an?|the|une?|las?|les?|el|los|unas?|uno|il|lo|gli|l|eine?|der|die|das)[ ’'](?P<what>[^,.;:()]+)"
)
KINDS = {
    "customer": "customer client cliente clienti clientes kunde kunden reference",
    "partner": "partner partenaire socio",
    "company": "company entreprise societe empresa azienda unternehmen firma editor editeur",
    "product": "product produit producto prodotto produkt software logiciel programa programma app application tool "
    "outil herramienta strumento werkzeug",
    "module": "module modul modulo extension connector connecteur plugin",
    "plan": "plan formule tarif offer offre oferta offerta angebot",
    "service": "service servicio servizio dienst",
    "person": "person personne persona founder fondateur director directeur",
    "city": "city town ville ciudad citta stadt",
    "office": "office bureau oficina ufficio buro agence",
}
"""Kinds of things, and the words that labels and definitions use for them, folded."""

_KIND_OF = {word: kind for kind, words in KINDS.items() for word in words.split()}
_MONTHS_AND_DAYS = """
january february march april may june july august september october november december monday tuesday wednesday
thursday friday saturday sunday januar februar marz mai juni juli oktober dezember montag dienstag mittwoch
donnerstag freitag samstag sonntag
"""
_CALENDAR = frozenset(_MONTHS_AND_DAYS.split())  # English and German write them with a capital


class Token(NamedTuple):
    """A word of a sentence; `joined` when one blank alone separates it from the word before."""

    text: str
    folded: str
    capital: bool
    first: bool
    joined: bool


@dataclass(slots=True)
class Term:
    """A candidate for a name, and everything that speaks for it."""

    spellings: Counter[str] = field(default_factory=Counter)
    evidence: Counter[Evidence] = field(default_factory=Counter)
    weak: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    definition: str = ""

    @property
    def name(self) -> str:
        """The commonest spelling; of equally common ones the first."""
        return self.spellings.most_common(1)[0][0]

    @property
    def kind(self) -> str:
        """What a label or a definition calls it, else how it was found."""
        if self.kinds:
            return self.kinds.most_common(1)[0][0]
        return "topic" if set(self.evidence) <= {"heading"} and not self.weak else "name"


class TermFinder:
    """Collects the terms of a corpus, one text at a time, and says at the end which are names."""

    def __init__(self) -> None:
        self._terms: defaultdict[str, Term] = defaultdict(Term)
        self._small: Counter[str] = Counter()
        self._capital: Counter[str] = Counter()
        self._headings: dict[str, None] = {}
        self._texts = 0

    def add_text(self, text: str, lang: str = "") -> None:
        """The text of a passage, and its language where that is known."""
        self._texts += 1
        # What stands in quotation marks is one term, whatever its words are elsewhere.
        tokens = [tokenise(sentence) for sentence in sentences(_QUOTED.sub(" , ", text))]
        is_german = lang == "de" if lang else _looks_german(tokens)
        for sentence in tokens:
            self._count(sentence)
            for run in capital_runs(sentence):
                self._note_run(run, is_weak=is_german)
        for match in _QUOTED.finditer(text):
            self._note(match[match.lastindex or 0], "quoted")
        for sentence_text in sentences(text):
            self._note_definition(sentence_text)

    def add_heading(self, heading: str) -> None:
        """A heading or title: `Customer: Nordhem`, `Opening hours`, `Nordhem, the depot`."""
        if heading in self._headings:
            return
        self._headings[heading] = None
        tokens = tokenise(heading)
        self._count(tokens[1:])
        if match := _LABEL.match(heading):
            label, rest = match.groups()
            if rest[0].isupper() and len(rest.split()) <= MAX_TOPIC_WORDS:
                self._note(rest, "label", kind=_KIND_OF.get(folded(label), folded(label)))
                return
            del self._headings[heading]
            self._headings[label] = None
        for run in capital_runs(tokens):
            self._note_run(run, is_weak=True, evidence="heading")

    def add_marked(self, term: str) -> None:
        """What an author set in bold, in italics or as a term."""
        self._note(term.strip(" \t.,;:!?"), "marked")

    def add_known(self, name: str, kind: str = "term") -> None:
        """A name out of a glossary."""
        self._note(name, "glossary", kind=kind)

    def names(self) -> list[Term]:
        """The terms that are names, and short headings without a name in them, which are topics."""
        found = {key: term for key, term in self._terms.items() if self._is_name(key, term)}
        for heading in self._headings:
            key = folded(heading)
            parts = key.split()
            if len(parts) <= MAX_TOPIC_WORDS and key not in found and not self._names_something(parts, found):
                topic = Term(Counter([heading]), Counter(["heading"]))
                if parts and parts[0] not in STOP_WORDS:
                    found[key] = topic
        return [*found.values()]

    def _names_something(self, parts: Sequence[str], found: dict[str, Term]) -> bool:
        lengths = range(1, len(parts) + 1)
        return any(
            " ".join(parts[at : at + length]) in found for length in lengths for at in range(len(parts))
        )

    def _count(self, sentence: Iterable[Token]) -> None:
        for token in sentence:
            if token.text[0].isdigit():
                continue
            if not token.capital:
                self._small[token.folded] += 1
            elif not token.first:
                self._capital[token.folded] += 1

    def _note_run(self, run: Sequence[Token], *, is_weak: bool, evidence: Evidence = "capitals") -> None:
        text = " ".join(token.text for token in run)
        if len(run) > MAX_NAME_WORDS or (len(folded(text)) < 3 and not text.isupper()):
            return
        term = self._terms[folded(text)]
        term.spellings[text] += 1
        if evidence == "heading":
            term.evidence["heading"] += 1
        elif is_weak or run[0].first:
            term.weak += 1
        else:
            term.evidence["capitals"] += 1

    def _note(self, text: str, evidence: Evidence, kind: str = "") -> None:
        name = " ".join(text.split()).strip("\"'“”«»„*_` ")
        key = folded(name)
        if not key or len(key.split()) > MAX_NAME_WORDS or key.isdigit() or set(key.split()) <= STOP_WORDS:
            return
        term = self._terms[key]
        term.spellings[name] += 1
        term.evidence[evidence] += 1
        if kind:
            term.kinds[kind] += 1

    def _note_definition(self, sentence: str) -> None:
        match = _DEFINED.match(sentence)
        if match is None:
            return
        name = re.sub(
            r"^(?:The|An?|Les?|La|L[’']|El|Los|Las|Il|Lo|Der|Die|Das)[ ’']?(?=\S)", "", match["name"]
        )
        parts = folded(name).split()
        if not 0 < len(parts) <= MAX_TOPIC_WORDS or set(parts) & STOP_WORDS:
            return
        term = self._terms[" ".join(parts)]
        term.spellings[name] += 1
        term.evidence["defined"] += 1
        what = folded(match["what"]).split()[:4]
        term.kinds.update({_KIND_OF[word] for word in what if word in _KIND_OF})
        term.definition = term.definition or sentence

    def _is_name(self, key: str, term: Term) -> bool:
        evidence, parts = term.evidence, key.split()
        if evidence["glossary"] or evidence["label"]:
            return True
        if parts[0] in _CALENDAR or set(parts) <= STOP_WORDS:
            return False
        if self._is_common(parts):
            return bool(evidence["marked"] > 1 or (evidence["marked"] and evidence["heading"]))
        has_capital = any(character.isupper() for character in term.name)
        marked = evidence["marked"] + evidence["quoted"] + evidence["defined"]
        written = evidence["capitals"] + term.weak + evidence["heading"]
        if self._texts > SMALL_CORPUS and written + marked < 2:
            return False
        if evidence["capitals"] or (marked and has_capital):
            return True
        return bool(evidence["heading"] and term.weak) or term.name.isupper()

    def _is_common(self, parts: Sequence[str]) -> bool:
        """Whether one of the words that must be names is an ordinary word."""
        return any(
            self._small[part] > LOWER_SHARE * (self._small[part] + self._capital[part]) for part in parts
        )


def _looks_german(tokens: Sequence[Sequence[Token]]) -> bool:
    inside = [token.capital for sentence in tokens for token in sentence if not token.first]
    return len(inside) >= GERMAN_WORDS and sum(inside) > GERMAN_SHARE * len(inside)


def tokenise(sentence: str) -> list[Token]:
    """The words of a sentence, French and Italian elisions taken off."""
    text = _ELISION.sub(lambda match: " " * len(match.group()), sentence)
    tokens: list[Token] = []
    end = 0
    for match in _TOKEN.finditer(text):
        gap = sentence[end : match.start()]
        first = not tokens or gap.strip().endswith((":", "•", "–", "—")) or gap.strip() in ("-", "|")
        word = match.group()
        tokens.append(
            Token(word, folded(word), word[0].isupper(), first, bool(tokens) and gap in (" ", " & "))
        )
        end = match.end()
    return tokens


def capital_runs(sentence: Sequence[Token]) -> Iterator[list[Token]]:
    """Words with capitals that follow each other, without a first word that only begins the sentence."""
    run: list[Token] = []
    for token in sentence:
        goes_on = token.capital or (run and token.text[0].isdigit() and run[-1].text.isupper())
        if run and not (goes_on and token.joined):
            yield from _trimmed(run)
            run = []
        if goes_on:
            run.append(token)
    yield from _trimmed(run)


def _trimmed(run: list[Token]) -> Iterator[list[Token]]:
    while run and (run[0].folded in STOP_WORDS or run[0].text[0].isdigit()):
        run = run[1:]
    if run:
        yield run
