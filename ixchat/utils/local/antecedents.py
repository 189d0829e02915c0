"""Which name of the last turns a message needs, in numbers: about the message, and about each name."""

from __future__ import annotations

import math
import re
import sys
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ixchat.utils.candidates import Candidate, Mention, Spoken, recent
from ixchat.utils.local.features import Floats
from ixchat.utils.local.lexicon import Lean, Lexicon, lexicon_of
from ixchat.utils.local.reading import MAX_WORDS, REMEMBERED, is_content
from ixchat.utils.local.rules import blank_impersonal, can_mean, kind_of, marker, named_before, named_in
from ixchat.utils.resolution import Turn
from ixrag.names import NameIndex
from ixrag.profiles import NameProfiles
from ixrag.rarity import word_key
from ixrag.words import Word, folded_words, words

MAX_NAMES = 12  # the most recent ones: nobody means one of a longer list without saying which
FAREWELL_CONTENT = 3  # words with content that a goodbye may hold
OPENING_WORDS = 5  # of an answer: what stands behind no more than these is what it is about

KIND_OF = {
    "product": "product", "software": "product", "service": "product", "plan": "plan", "offer": "plan",
    "module": "module", "feature": "feature", "function": "feature", "device": "device", "hardware": "device",
    "customer": "customer", "client": "customer", "organization": "customer", "organisation": "customer",
    "partner": "partner", "event": "event", "office": "place", "location": "place", "city": "place",
    "sector": "sector", "industry": "sector",
}  # fmt: skip
"""The list of nouns (`[kinds]` of the language files) for an entity type."""

MARKED: tuple[Lean, ...] = ("thing", "party", "several", "inside", "opener", "company", "shift", "clitic")
POINTERS: tuple[Lean, ...] = ("thing", "party", "clitic")
CLASSES = ("possessive", "indefinite", "self", "firm", "place", "order", "more", "one")

ABOUT_MESSAGE = (
    *MARKED, *CLASSES, "impersonal", "pointer", "no_marker", "nothing_points", "pointer_first",
    "pointer_first_in_part", "content_before_pointer", "indefinite_before", "self_before", "drops",
    "definite_nouns", "definite_new", "definite_known", "question_word", "yes_no", "question", "opening",
    "bare_opening", "answer_asks", "short", "length", "content", "new", "no_content",
    "names_subject", "names_setting", "names_company", "names", "things", "parties",
)  # fmt: skip
ABOUT_NAME = (
    "is_thing", "is_party", "is_setting", "in_last_answer", "in_last_question", "said_by_both", "said_by_user",
    "mentions", "rank", "only_name", "only_of_group", "group", "latest_of_group", "first_of_group",
    "only_of_last_turn", "beside_content", "beside_definite", "definite_elsewhere", "called_so",
    "other_called_so", "coverage", "covers_nothing", "unknown", "opens_answer", "opens_sentence", "oblique",
    "fresh", "only_fresh",
)  # fmt: skip
CROSSED = (
    ("thing", "is_thing"), ("thing", "is_party"), ("party", "is_party"), ("party", "is_thing"),
    ("thing", "is_setting"), ("clitic", "is_thing"), ("clitic", "is_party"), ("opener", "is_thing"),
    ("opener", "is_party"), ("pointer_first", "is_thing"), ("pointer_first", "is_party"),
    ("possessive", "is_thing"), ("possessive", "is_party"), ("place", "is_setting"), ("no_marker", "only_name"),
    ("no_marker", "only_of_group"), ("no_marker", "coverage"), ("no_marker", "is_party"),
    ("no_marker", "beside_content"), ("no_marker", "beside_definite"), ("nothing_points", "coverage"),
    ("nothing_points", "is_thing"), ("nothing_points", "only_of_last_turn"), ("nothing_points", "company"),
    ("nothing_points", "indefinite"), ("nothing_points", "drops"), ("nothing_points", "bare_opening"),
    ("nothing_points", "covers_nothing"), ("company", "coverage"), ("company", "is_thing"),
    ("pointer_first", "company"), ("pointer", "company"), ("pointer", "content_before_pointer"),
    ("order", "first_of_group"), ("order", "latest_of_group"), ("names_company", "coverage"),
    ("names_subject", "pointer_first"), ("impersonal", "nothing_points"), ("firm", "nothing_points"),
    ("firm", "coverage"), ("firm", "is_party"), ("firm", "pointer_first"), ("self", "coverage"), ("several", "things"), ("several", "parties"), ("group", "only_of_last_turn"),
    ("question_word", "nothing_points"), ("pointer", "latest_of_group"), ("pointer", "opens_sentence"),
    ("pointer", "oblique"), ("pointer", "fresh"), ("pointer", "only_fresh"), ("nothing_points", "only_fresh"),
    ("pointer", "said_by_both"), ("group", "called_so"), ("group", "beside_definite"), ("group", "coverage"),
    ("group", "opens_sentence"),
)  # fmt: skip
ANTECEDENT_FEATURES = (*ABOUT_MESSAGE, *ABOUT_NAME, *(f"{one} and {other}" for one, other in CROSSED))

_BASE = (*ABOUT_MESSAGE, *ABOUT_NAME)
_CROSSED = np.array([[_BASE.index(one), _BASE.index(other)] for one, other in CROSSED]).T
_PAUSE = re.compile(r"[.!?,;:\n…–—)]")
_SENTENCE_END = re.compile(r"[.!?\n]")


@dataclass(frozen=True, slots=True)
class Antecedents:
    """The names that a message may need.

    Attributes:
        candidates: Names of the last turns that the message does not hold, most recent first.
        rows: float32 `[len(candidates), len(ANTECEDENT_FEATURES)]`.
        language: ISO 639-1 code of the word lists used.
        marker: The first words of the message that point at something; empty where none does.
        points: Whether the message points at anything, or opens as the rest of a question.
        means_several: Whether it points at several, or asks to choose.
        is_farewell: Whether it thanks and asks nothing.
    """

    candidates: Sequence[Candidate]
    rows: Floats
    language: str
    marker: str
    points: bool = False
    means_several: bool = False
    is_farewell: bool = False


def describe_antecedents(
    turn: Turn, index: NameIndex, profiles: NameProfiles | None = None
) -> Antecedents | None:
    """Put a message and the names before it into numbers; None where no language shows. No I/O.

    Args:
        turn: The message and its conversation; the last two exchanges are read.
        index: The tenant's names.
        profiles: What the tenant's passages say of each name; None where they are not known.
    """
    message, spoken = words(turn.query)[:MAX_WORDS], recent(turn.messages)
    lexicon = lexicon_of(message, *(said.words[:MAX_WORDS] for said in spoken))
    if lexicon is None:
        return None
    before = named_before(spoken, lexicon, index, turn.company_name)
    named = named_in(message, before, index, turn.company_name)
    candidates = [each for each in before if each.name not in named.names][:MAX_NAMES]
    view = _View(turn.query, message, spoken, lexicon, candidates)
    if not candidates:
        return Antecedents((), np.zeros((0, len(ANTECEDENT_FEATURES)), np.float32), lexicon.code, view.marker)
    about = _about_message(view)
    about |= {
        "names_subject": named.subject,
        "names_setting": named.setting,
        "names_company": named.company,
    }
    row = [about[name] for name in ABOUT_MESSAGE]
    rows = np.array(
        [
            [*row, *(said[name] for name in ABOUT_NAME)]
            for said in (_about_name(view, rank, profiles) for rank in range(len(candidates)))
        ],
        np.float32,
    )
    products = rows[:, _CROSSED[0]] * rows[:, _CROSSED[1]]
    return Antecedents(
        candidates,
        np.concatenate([rows, products], axis=1),
        lexicon.code,
        view.marker,
        points=not about["nothing_points"],
        means_several=bool(about["several"]),
        is_farewell=view.is_farewell,
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """How a name stands in its sentence: what a sentence begins with is what it is about."""

    opens_sentence: bool
    opens_message: bool
    is_oblique: bool


class _View:
    """The message and what was said before it, read once."""

    def __init__(
        self,
        query: str,
        message: Sequence[Word],
        spoken: Sequence[Spoken],
        lexicon: Lexicon,
        candidates: Sequence[Candidate],
    ) -> None:
        self.query, self.spoken, self.lexicon = query, spoken, lexicon
        self.candidates = candidates
        self.said = {message.index: _read(message.text) for message in spoken}
        self.folded = [word.folded for word in message]
        self.parts = _parts(query, message)
        self.is_content = [is_content(word, lexicon) and word not in lexicon.frame for word in self.folded]
        self.content = [word for word, counts in zip(self.folded, self.is_content, strict=True) if counts]
        self.keys = frozenset(map(word_key, self.content))
        self.plain = " ".join(self.folded)
        self.text = blank_impersonal(self.plain, lexicon)
        self.things = [each for each in candidates if can_mean(each, thing=True, party=False)]
        self.parties = [each for each in candidates if can_mean(each, thing=False, party=True)]
        self.last_question = max((said.index for said in spoken if said.role == "user"), default=-1)

    @property
    def has_question_mark(self) -> bool:
        """Whether the message ends in one."""
        return self.query.rstrip().endswith("?")

    @cached_property
    def heads(self) -> frozenset[str]:
        """The first two words of each part of the message."""
        starts = [
            place for place, part in enumerate(self.parts) if not place or self.parts[place - 1] != part
        ]
        return frozenset(word for place in starts for word in self.folded[place : place + 2])

    @property
    def is_farewell(self) -> bool:
        """Whether it thanks and asks nothing; many a visitor leaves the question mark out."""
        lexicon, grammar = self.lexicon, self.lexicon.grammar
        asks = (
            self.has_question_mark
            or not (lexicon.question | grammar["auxiliary"]).isdisjoint(self.heads)
            or not grammar["drops"].isdisjoint(self.folded)
        )
        thanks = lexicon.reply["thanks"].search(self.text)
        return bool(thanks) and not asks and len(self.content) <= FAREWELL_CONTENT

    @cached_property
    def pointers(self) -> list[re.Match[str]]:
        """Words that point at something said before, or look as if they did; one of each kind."""
        return [found for kind in POINTERS if (found := self.lexicon.lean[kind].search(self.text))]

    @property
    def marker(self) -> str:
        """The first of them."""
        return min(self.pointers, key=lambda found: found.start()).group() if self.pointers else ""

    @property
    def definite(self) -> frozenset[str]:
        """Keys of `definite_words`."""
        return frozenset(map(word_key, self.definite_words))

    @cached_property
    def definite_words(self) -> frozenset[str]:
        """Nouns that the message speaks of as known: *the battery*, *cet outil*, *su precio*."""
        grammar = self.lexicon.grammar
        articles = grammar["definite"] | grammar["this"] | grammar["possessive"]
        nouns = zip(self.folded, self.folded[1:], self.is_content[1:], strict=False)
        return frozenset(noun for article, noun, counts in nouns if counts and article in articles)

    @cached_property
    def beside(self) -> dict[str, frozenset[str]]:
        """Keys of the words in the sentences that mention each name."""
        found: dict[str, frozenset[str]] = {}
        for candidate in self.candidates:
            keys: set[str] = set()
            for mention in candidate.mentions:
                said = self.said[mention.message]
                sentence = said.sentence(mention)
                keys.update(said.keys[sentence.start : sentence.stop])
            found[candidate.name] = frozenset(keys)
        return found

    @cached_property
    def fresh(self) -> list[str]:
        """Names that the last answer brought up."""
        last = self.spoken[-1].index
        return [each.name for each in self.candidates if all(said.message == last for said in each.mentions)]

    def place_of(self, candidate: Candidate) -> _Place:
        """How the latest mention of a name stands in its sentence."""
        mention = candidate.mentions[-1]
        said = self.said[mention.message]
        place, sentence = bisect_left(said.starts, mention.start), said.sentence(mention)
        before = said.folded[place - 1] if place > sentence.start else ""
        return _Place(
            opens_sentence=place - sentence.start <= 1,
            opens_message=place <= OPENING_WORDS,
            is_oblique=before in self.lexicon.grammar["preposition"],
        )

    def is_called(self, candidate: Candidate) -> bool:
        """Whether the message speaks of a known thing by a noun for what the candidate is: *the reader*."""
        nouns = self.lexicon.kinds.get(KIND_OF.get(kind_of(candidate.type), ""), frozenset())
        return not self.definite_words.isdisjoint(nouns)

    @cached_property
    def known(self) -> frozenset[str]:
        """Keys of all words said before."""
        return frozenset[str]().union(*(message.known for message in self.said.values()))


@dataclass(frozen=True, slots=True)
class _Said:
    """A message of the last turns: its words, where each begins, and where sentences end."""

    folded: Sequence[str]
    keys: Sequence[str]
    known: frozenset[str]
    starts: Sequence[int]
    ends: Sequence[int]

    def sentence(self, mention: Mention) -> range:
        """Places of the words in the sentence of a mention."""
        first, last = bisect_left(self.ends, mention.start), bisect_left(self.ends, mention.end)
        opens = self.ends[first - 1] if first else 0
        closes = self.ends[last] if last < len(self.ends) else sys.maxsize
        return range(bisect_left(self.starts, opens), bisect_left(self.starts, closes))


@lru_cache(maxsize=REMEMBERED)
def _read(text: str) -> _Said:
    split = words(text)
    folded = folded_words(split)[:MAX_WORDS]
    keys = list(map(word_key, folded))
    starts = [word.start for word in split[:MAX_WORDS]]
    ends = [found.start() for found in _SENTENCE_END.finditer(text)]
    return _Said(folded, keys, frozenset(keys), starts, ends)


def _parts(text: str, message: Sequence[Word]) -> list[int]:
    """In which part of a text, between two signs of punctuation, each word stands, counted from 0."""
    parts: list[int] = []
    part, end = 0, 0
    for word in message:
        part += bool(parts and _PAUSE.search(text, end, word.start))
        parts.append(part)
        end = word.end
    return parts


def _about_message(view: _View) -> dict[str, float]:
    lexicon, grammar, folded = view.lexicon, view.lexicon.grammar, view.folded
    marked: dict[str, bool] = {kind: bool(marker(view.text, lexicon, kind)) for kind in MARKED}
    holds = {name: not grammar[name].isdisjoint(folded) for name in CLASSES}
    points = bool(view.pointers)
    first = min((view.plain.count(" ", 0, found.start()) for found in view.pointers), default=0)
    before = [place for place in range(first) if view.is_content[place]]
    opening = view.parts.count(0)
    has_parts = bool(view.parts) and view.parts[-1] > 0
    answer = view.spoken[-1].text.rstrip() if view.spoken else ""
    return {
        **marked,
        **holds,
        "impersonal": view.text != view.plain,
        "pointer": points,
        "no_marker": not (marked["thing"] or marked["party"] or marked["opener"]),
        "nothing_points": not (points or marked["opener"] or holds["possessive"]),
        "pointer_first": points and not before,
        "pointer_first_in_part": points
        and not any(view.parts[place] == view.parts[first] for place in before),
        "content_before_pointer": min(len(before), 4) / 2,
        "indefinite_before": not grammar["indefinite"].isdisjoint(folded[:first]),
        "self_before": not grammar["self"].isdisjoint(folded[:first]),
        "drops": not grammar["drops"].isdisjoint(view.heads),
        "definite_nouns": min(len(view.definite), 3) / 2,
        "definite_new": min(len(view.definite - view.known), 3) / 2,
        "definite_known": not view.definite.isdisjoint(view.known),
        "question_word": not lexicon.question.isdisjoint(view.heads),
        "yes_no": not grammar["auxiliary"].isdisjoint(view.heads),
        "question": view.has_question_mark,
        "opening": has_parts and opening <= 3,
        "bare_opening": has_parts and opening <= 4 and not any(view.is_content[:opening]),
        "answer_asks": answer.endswith("?"),
        "short": len(folded) <= 6,
        "length": math.log1p(len(folded)),
        "content": min(len(view.content), 8) / 4,
        "new": min(len(view.keys - view.known), 6) / 3,
        "no_content": not view.content,
        "names": min(len(view.candidates), 5) / 3,
        "things": min(len(view.things), 4) / 2,
        "parties": min(len(view.parties), 4) / 2,
    }


def _about_name(view: _View, rank: int, profiles: NameProfiles | None) -> dict[str, float]:
    candidate = view.candidates[rank]
    thing, party = candidate in view.things, candidate in view.parties
    group = view.things if thing else view.parties if party else [candidate]
    lately = [each for each in group if each.mentions[-1].message >= view.last_question]
    roles = {mention.role for mention in candidate.mentions}
    beside = view.beside[candidate.name]
    others = (words for name, words in view.beside.items() if name != candidate.name)
    elsewhere = view.definite & frozenset[str]().union(*others)
    coverage = profiles.coverage(view.content, candidate.name, view.lexicon.code) if profiles else None
    place = view.place_of(candidate)
    answered = [mention for mention in candidate.mentions if mention.message == view.spoken[-1].index]
    return {
        "is_thing": thing,
        "is_party": party,
        "is_setting": not (thing or party),
        "in_last_answer": bool(answered),
        "in_last_question": any(mention.message == view.last_question for mention in candidate.mentions),
        "said_by_both": len(roles) == 2,
        "said_by_user": "user" in roles,
        "mentions": min(len(candidate.mentions), 4) / 2,
        "rank": min(rank, 4) / 2,
        "only_name": len(view.candidates) == 1,
        "only_of_group": len(group) == 1,
        "group": min(len(group), 5) / 3,
        "latest_of_group": group[0] is candidate,
        "first_of_group": len(group) > 1 and group[-1] is candidate,
        "only_of_last_turn": lately == [candidate],
        "beside_content": len(view.keys & beside) / max(1, len(view.keys)),
        "beside_definite": not view.definite.isdisjoint(beside),
        "definite_elsewhere": bool(elsewhere - beside),
        "called_so": view.is_called(candidate),
        "other_called_so": not view.is_called(candidate) and any(map(view.is_called, view.candidates)),
        "coverage": coverage or 0.0,
        "covers_nothing": coverage == 0 and bool(view.content),
        "unknown": coverage is None,
        "opens_answer": bool(answered) and place.opens_message,
        "opens_sentence": place.opens_sentence,
        "oblique": place.is_oblique,
        "fresh": len(answered) == len(candidate.mentions),
        "only_fresh": view.fresh == [candidate.name],
    }
