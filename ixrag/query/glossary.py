"""Words of the trade: the synonyms and long forms of a tenant's own vocabulary."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol, runtime_checkable

from ixrag.query.context import QueryContext
from ixrag.query.languages import Language, exact, languages
from ixrag.query.listing import distinct
from ixrag.words import Word, words

MIN_STEM_CHARS = 3  # a plural ending is not taken off what would be shorter than this


@runtime_checkable
class GlossaryExpander(Protocol):
    """Knows other words for terms of a query. Implement it by shape or subclass it.

    Contract: keys are the matched terms in lower case, values their synonyms in the glossary's order,
    never empty. How they enter a search is the caller's business.
    """

    @abstractmethod
    async def expand(self, ctx: QueryContext, query_text: str) -> dict[str, list[str]]:
        """`{term: [synonym, ...]}` for every term that occurs in `query_text`, in order."""
        raise NotImplementedError


class NoopGlossaryExpander(GlossaryExpander):
    """Knows no other word."""

    async def expand(self, ctx: QueryContext, query_text: str) -> dict[str, list[str]]:
        """Always empty."""
        return {}


@dataclass(frozen=True, slots=True)
class _Entry:
    term: str
    synonyms: tuple[str, ...]


class InMemoryGlossary(GlossaryExpander):
    """Terms and synonyms in memory, found as whole words in one pass over the query.

    Longer terms win over shorter ones inside them. A look-up tries, at each word, only the lengths
    that some term beginning with this word has: its cost grows with the query, not with the glossary.

    Args:
        terms: `{term: [synonym, ...]}`. Later spellings of a term that compares equal are added to the
            first; `ixrag.query.glossary_files` refuses them instead.
        ignore_accents: Whether "congé" and "conge" are one word. Case never matters.
        plurals_of: Languages (ISO 639) by whose plural endings "invoices" finds "invoice".

    Raises:
        ValueError: A language of `plurals_of` is not in `languages.toml`.
    """

    def __init__(
        self,
        terms: Mapping[str, Sequence[str]],
        *,
        ignore_accents: bool = True,
        plurals_of: Iterable[str] = (),
    ) -> None:
        self._ignore_accents = ignore_accents
        self._languages = [_known(code) for code in plurals_of]
        self._entries: dict[str, _Entry] = {}
        self._lengths: dict[str, set[int]] = {}
        for term, synonyms in terms.items():
            self._add(term, synonyms)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def version(self) -> str:
        """Sixteen hex digits that change with any term or synonym."""
        pairs = sorted((entry.term, *entry.synonyms) for entry in self._entries.values())
        return blake2b(json.dumps(pairs).encode(), digest_size=8).hexdigest()

    async def expand(self, ctx: QueryContext, query_text: str) -> dict[str, list[str]]:
        """`{term: [synonym, ...]}` for every term in `query_text`, in order of occurrence."""
        matches = sorted(self._matches(self._comparable(query_text)))
        return {entry.term: list(entry.synonyms) for _, _, entry in _without_overlaps(matches)}

    def _add(self, term: str, synonyms: Sequence[str]) -> None:
        compared = self._comparable(term)
        if not compared:
            return
        key = " ".join(compared)
        known = self._entries.get(key, _Entry(term.strip().lower(), ()))
        merged = distinct([*known.synonyms, *synonyms], other_than=[term, known.term])
        if merged:
            self._entries[key] = _Entry(known.term, tuple(merged))
            self._lengths.setdefault(compared[0], set()).add(len(compared))

    def _matches(self, compared: Sequence[str]) -> Iterable[tuple[int, int, _Entry]]:
        """Every term in the text as (minus its length, position of its first word, entry)."""
        for position, first in enumerate(compared):
            for length in self._lengths.get(first, ()):
                if position + length > len(compared):
                    continue
                entry = self._entries.get(" ".join(compared[position : position + length]))
                if entry is not None:
                    yield -length, position, entry

    def _comparable(self, text: str) -> list[str]:
        return [self._singular(self._form(text, word)) for word in words(text)]

    def _form(self, text: str, word: Word) -> str:
        return word.folded if self._ignore_accents else exact(text, word)

    def _singular(self, word: str) -> str:
        for language in self._languages:
            for ending, replacement in language.plurals:
                stem = word.removesuffix(ending)
                if stem != word and len(stem) >= MIN_STEM_CHARS:
                    return stem + replacement
        return word


class TenantGlossary(GlossaryExpander):
    """One glossary for each tenant.

    Args:
        glossaries: By tenant id.
        shared: For tenants that have none of their own.
    """

    def __init__(
        self, glossaries: Mapping[str, GlossaryExpander], shared: GlossaryExpander | None = None
    ) -> None:
        self._glossaries = dict(glossaries)
        self._shared = shared or NoopGlossaryExpander()

    async def expand(self, ctx: QueryContext, query_text: str) -> dict[str, list[str]]:
        """What the glossary of `ctx.tenant_id` knows."""
        return await self._glossaries.get(ctx.tenant_id, self._shared).expand(ctx, query_text)


def _without_overlaps(matches: Iterable[tuple[int, int, _Entry]]) -> list[tuple[int, int, _Entry]]:
    """The longest matches first, then the leftmost, each word used once; in order of the text."""
    taken: set[int] = set()
    kept = []
    for negative_length, position, entry in matches:
        span = range(position, position - negative_length)
        if taken.isdisjoint(span):
            taken.update(span)
            kept.append((position, -negative_length, entry))
    return sorted(kept, key=lambda match: match[:2])


def _known(code: str) -> Language:
    language = languages().get(code)
    if language is None:
        raise ValueError(f"unknown language {code!r}; expected one of {sorted(languages())}")
    return language
