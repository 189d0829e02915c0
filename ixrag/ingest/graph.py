"""A graph without a model: names by how they are written, relations by where they stand together.

What it finds is named as such: a relation says `cooccurs` or `links`, never more than that.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from ixrag.ingest.readers.plain import title_of
from ixrag.ingest.split import Cut, sentences
from ixrag.ingest.terms import Term, TermFinder
from ixrag.lightrag.corpus import Entity, Relation
from ixrag.lightrag.stop_words import STOP_WORDS
from ixrag.names import NameIndex
from ixrag.words import words

MAX_DESCRIPTION = 300  # characters
MAX_PASSAGES = 50  # of an entity, those that name it in the title first
MAX_RELATIONS = 30  # of an entity, those that stand together more often than chance first
MAX_TOGETHER = 12  # names of one sentence; a longer list says little about any two of them
MAX_THEMES = 4


@dataclass(frozen=True, slots=True)
class GlossaryTerm:
    """A name given by hand, and what else it is called."""

    name: str
    aliases: tuple[str, ...] = ()
    kind: str = "term"


def find_graph(
    cuts: Sequence[Cut], glossary: Sequence[GlossaryTerm] = ()
) -> tuple[tuple[Entity, ...], tuple[Relation, ...]]:
    """Entities and relations of passages.

    An entity is a name with the passages it stands in, described by the sentence that defines it or the
    first that names it. A relation joins two names that share a sentence (`cooccurs`), or that head two
    documents of which one links to the other (`links`).

    Args:
        cuts: All passages of the knowledge base.
        glossary: Names that are certain.
    """
    terms = _terms(cuts, glossary)
    aliases = {term.name: term.aliases for term in glossary}
    drafts = {term.name: _Draft(term, aliases.get(term.name, ())) for term in terms}
    index = NameIndex(drafts.values())
    pairs = _read(cuts, drafts, index)
    for one, other in _linked(cuts, index):
        pair = pairs.setdefault((one, other), _Pair())
        pair.links = True
    entities = {name: draft.entity() for name, draft in drafts.items() if draft.passages}
    return tuple(entities.values()), tuple(_relations(pairs, drafts, entities))


class _Draft:
    """An entity while its mentions are collected; looks like an `EntityName` to the index."""

    __slots__ = ("aliases", "first", "mentions", "name", "passages", "term", "titled", "type")

    def __init__(self, term: Term, aliases: tuple[str, ...]) -> None:
        self.term = term
        self.name = term.name
        self.type = term.kind
        self.aliases = tuple(dict.fromkeys([*aliases, *(s for s in term.spellings if s != term.name)]))
        self.passages: Counter[str] = Counter()
        self.titled: set[str] = set()
        self.mentions = 0  # sentences
        self.first = ""

    def entity(self) -> Entity:
        best = sorted(
            self.passages, key=lambda passage: (passage not in self.titled, -self.passages[passage])
        )
        return Entity(
            name=self.name,
            type=self.type,
            description=shortened(self.term.definition or self.first or self.name),
            aliases=self.aliases,
            passages=tuple(best[:MAX_PASSAGES]),
        )


@dataclass(slots=True)
class _Pair:
    """Two names, and what joins them."""

    together: int = 0
    sentence: str = ""
    passage: str = ""
    themes: tuple[str, ...] = ()
    links: bool = False


def _terms(cuts: Sequence[Cut], glossary: Sequence[GlossaryTerm]) -> list[Term]:
    finder = TermFinder()
    for term in glossary:
        finder.add_known(term.name, term.kind)
    for passage, block in cuts:
        for heading in passage.title.split(" › "):
            if heading != title_of(passage.source):  # a file's name is no name of a thing
                finder.add_heading(heading)
        finder.add_text(passage.text, passage.lang)
        for marked in block.terms:
            finder.add_marked(marked)
    return finder.names()


def _read(
    cuts: Sequence[Cut], drafts: Mapping[str, _Draft], index: NameIndex
) -> dict[tuple[str, str], _Pair]:
    """Every mention of every name, and the pairs that share a sentence."""
    pairs: defaultdict[tuple[str, str], _Pair] = defaultdict(_Pair)
    for passage, _ in cuts:
        in_title = {hit.name for hit in index.find(passage.title)}
        for name in in_title:
            drafts[name].passages[passage.id] += 1
            drafts[name].titled.add(passage.id)
        for sentence in sentences(passage.text):
            named = list(dict.fromkeys(hit.name for hit in index.find(sentence)))
            for name in named:
                draft = drafts[name]
                draft.passages[passage.id] += 1
                draft.mentions += 1
                draft.first = draft.first or sentence
            # A passage's title says what its sentences are about.
            together = sorted({*named[:MAX_TOGETHER], *(in_title if len(in_title) <= 2 else ())})
            for pair in combinations(together, 2):
                found = pairs[pair]
                found.together += 1
                if not found.sentence:
                    found.sentence, found.passage = sentence, passage.id
                    found.themes = _themes(sentence, named)
    return dict(pairs)


def _themes(sentence: str, named: Iterable[str]) -> tuple[str, ...]:
    """The longest ordinary words of a sentence: what it says of the two names."""
    names = {word.folded for name in named for word in words(name)}
    found = {
        word.folded: sentence[word.start : word.end].lower()
        for word in words(sentence)
        if word.folded not in STOP_WORDS and word.folded not in names and not word.folded.isdigit()
    }
    longest = sorted(found, key=len, reverse=True)[:MAX_THEMES]
    return tuple(text for key, text in found.items() if key in longest)


def _relations(
    pairs: Mapping[tuple[str, str], _Pair], drafts: Mapping[str, _Draft], entities: Mapping[str, Entity]
) -> list[Relation]:
    total = sum(draft.mentions for draft in drafts.values()) or 1

    def score(item: tuple[tuple[str, str], _Pair]) -> float:
        """Pointwise mutual information times the count: often together, and not by chance."""
        (one, other), pair = item
        expected = max(drafts[one].mentions, 1) * max(drafts[other].mentions, 1) / total
        return float("inf") if pair.links else pair.together * math.log1p(pair.together / expected)

    kept: list[Relation] = []
    taken: Counter[str] = Counter()
    for (one, other), pair in sorted(pairs.items(), key=score, reverse=True):
        if max(taken[one], taken[other]) >= MAX_RELATIONS or not {one, other} <= entities.keys():
            continue
        taken.update((one, other))
        how = (["cooccurs"] if pair.together else []) + (["links"] if pair.links else [])
        kept.append(
            Relation(
                source=one,
                target=other,
                description=shortened(pair.sentence or f"{one} – {other}"),
                keywords=(*how, *pair.themes),
                weight=float(max(pair.together, 1)),
                passage=pair.passage,
            )
        )
    return kept


def _linked(cuts: Sequence[Cut], index: NameIndex) -> list[tuple[str, str]]:
    """Pairs of names that head two documents of which one links to the other."""
    head: dict[str, str] = {}
    for passage, _ in cuts:
        hits = index.find(passage.title)
        if hits and passage.source not in head:
            head[passage.source] = hits[0].name
    joined: dict[tuple[str, str], None] = {}
    for passage, block in cuts:
        for link in block.links:
            one, other = head.get(passage.source), head.get(_target(passage.source, link))
            if one and other and one != other:
                joined[(min(one, other), max(one, other))] = None
    return [*joined]


def _target(source: str, link: str) -> str:
    """The source that a relative link leads to; anything else is no file of ours."""
    try:
        url = urlsplit(link)
    except ValueError:
        return ""
    if url.scheme or url.netloc or not url.path:
        return ""
    parts: list[str] = [] if url.path.startswith("/") else list(PurePosixPath(source).parent.parts)
    for part in PurePosixPath(unquote(url.path)).parts:
        if part == "..":
            parts = parts[:-1]
        elif part not in ("/", "."):
            parts.append(part)
    return "/".join(parts)


def shortened(text: str) -> str:
    """`text` in one line, cut at a word."""
    line = " ".join(text.split())
    if len(line) <= MAX_DESCRIPTION:
        return line
    return line[:MAX_DESCRIPTION].rpartition(" ")[0] + " …"
