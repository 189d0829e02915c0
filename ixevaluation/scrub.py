"""Personal data out of recorded turns: found by rule, replaced by stable synthetic values.

Phone numbers are found by the `phonenumbers` library and checked numbers by `python-stdnum`; the rest
are patterns. What is not found stays: read a seeded set before sharing it.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from ixinfra.errors import MissingExtraError

try:
    import phonenumbers
    from stdnum import iban, luhn
except ImportError as error:  # pragma: no cover - the message is the behaviour
    raise MissingExtraError("scrubbing needs the extra `eval`: pip install 'ixchat[eval]'") from error

Kind = Literal["url", "email", "iban", "card", "key", "phone", "name"]
KINDS: tuple[Kind, ...] = get_args(Kind)

REGIONS = {
    "fr": ("FR", "BE", "CH"),
    "en": ("GB", "US", "IE"),
    "es": ("ES",),
    "it": ("IT",),
    "de": ("DE", "AT"),
}
MIN_NAME_PART = 3  # letters; shorter parts of a name are words of other texts
MIN_KEY_BITS = 3.2  # Shannon entropy a character: random tokens reach it, words and ids do not

_EMAIL = re.compile(r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+")
_URL = re.compile(r"\b(?:https?|ftp)://[^\s<>\"'）)]+", re.IGNORECASE)
_URL_SECRET = re.compile(
    r"//[^/\s@]+:[^/\s@]*@|[?&#;](?:[\w-]*(?:token|key|secret|sig|signature|auth|code|session|sid|pass|pwd|jwt)[\w-]*)=",
    re.IGNORECASE,
)
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}\b", re.IGNORECASE)
_CARD = re.compile(r"(?<![\d+])\d(?:[ -]?\d){12,18}(?!\d)")
_KEY = re.compile(
    r"\b(?:sk|pk|rk)[-_](?:live|test|proj|lf)?[-_]?[A-Za-z0-9_-]{12,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bAKIA[0-9A-Z]{16}\b"
    r"|\bxox[abprs]-[A-Za-z0-9-]{10,}|\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]+)?|(?<=Bearer )[\w.~+/-]{12,}=*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
)
_TOKEN = re.compile(r"(?<![\w/+.-])[A-Za-z0-9_+/-]{24,}={0,2}(?![\w/+-])")

_WORD = r"[^\W\d_][\w'’.-]*"
_TITLE = re.compile(
    r"\b(?:M\.|Mme|Mlle|Monsieur|Madame|Mr\.?|Mrs\.?|Ms\.?|Dr\.?|Herr|Frau|Sig\.(?:ra)?|Signor[ae]?|Sr\.?|Sra\.?|Don|Doña)\s+"
    r"((?:[A-ZÀ-ÖØ-Þ][\w'’.-]*\s?){1,3})"
)
_INTRODUCTION = re.compile(
    r"(?:je m['’]appelle|mon nom (?:est|:)|my name(?: is|['’]s)|me llamo|mi nombre es|mi chiamo|il mio nome [eè]"
    r"|ich hei(?:ß|ss)e|mein name ist|\b(?:nom|pr[ée]nom|full name|name|nombre|apellidos?|nome|cognome|vorname|nachname)\s*[:=])"
    rf"\s*((?:{_WORD}[ \t]*){{1,3}})",
    re.IGNORECASE,
)
_ASKS_NAME = re.compile(
    r"(?:votre|vos|your|su|tu|il suo|il tuo|ihren?|deinen?)\s+(?:pr[ée]noms?|noms?|(?:full )?name[ns]?|nombre|nome)\b",
    re.IGNORECASE,
)
_NAME_STOPS = frozenset(
    [
        "et",
        "and",
        "y",
        "e",
        "und",
        "je",
        "i",
        "ich",
        "io",
        "yo",
        "mon",
        "my",
        "mi",
        "mein",
        "tel",
        "email",
        "mail",
        "téléphone",
        "telefono",
        "teléfono",
        "phone",
        "de",
        "from",
        "chez",
        "at",
        "bei",
        "da",
        "en",
        "in",
        "est",
        "is",
        "suis",
        "am",
        "oui",
        "non",
        "yes",
        "no",
        "sí",
        "si",
        "ja",
        "nein",
        "bonjour",
        "hello",
        "hola",
        "ciao",
        "hallo",
        "merci",
        "thanks",
        "gracias",
        "grazie",
        "danke",
        "email:",
        "mail:",
    ]
)
_GIVEN = ("Camille", "Robin", "Andrea", "Alex", "Noa", "Sacha", "Kim", "Luca", "Maxime", "Jo")
_FAMILY = (
    "Delmoro",
    "Vantreau",
    "Kesselin",
    "Orsavi",
    "Brunholt",
    "Lazarde",
    "Pellinor",
    "Torvane",
    "Maduvez",
    "Quillan",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One piece of personal data in a text: characters `start` to `end`."""

    kind: Kind
    start: int
    end: int
    text: str


def find_personal(text: str, *, lang: str = "") -> list[Finding]:
    """Personal data and secrets in a text, left to right, without overlaps; synthetic values are not found.

    Args:
        text: Any text.
        lang: Language, which decides the countries whose national phone numbers are read; empty reads all.
    """
    taken: list[Finding] = []
    searched = _SYNTHETIC.sub(lambda match: "|" * len(match[0]), text)
    for kind, spans in _FINDERS:
        for start, end in spans(searched, lang):
            overlaps = any(start < other.end and other.start < end for other in taken)
            if not overlaps and not is_synthetic(text[start:end]):
                taken.append(Finding(kind, start, end, text[start:end]))
    return sorted(taken, key=lambda finding: finding.start)


def scrub_conversation(messages: Sequence[tuple[str, str]], *, lang: str = "", salt: str = "") -> list[str]:
    """The texts of a conversation without personal data.

    A name given in one message is replaced in all of them. The same value becomes the same synthetic one.

    Args:
        messages: `(role, text)`, oldest first.
        lang: As for `find_personal`.
        salt: Makes the synthetic values of one set its own.
    """
    names = {name.casefold(): name for name in _given_names(messages, lang)}
    return [_replace(text, names.values(), lang, salt) for _, text in messages]


def is_synthetic(value: str) -> bool:
    """Whether `value` is one that scrubbing writes."""
    return bool(_SYNTHETIC.fullmatch(value.strip())) or _SYNTHETIC_NAMES.issuperset(value.split())


def synthetic(kind: Kind, value: str, salt: str = "") -> str:
    """The stand-in for a value: the same for the same value and salt, in a range nobody owns."""
    digest = int(hashlib.sha256(f"{salt}\0{kind}\0{value.casefold()}".encode()).hexdigest(), 16)
    number = digest % 10_000
    return {
        "url": f"https://example.com/link-{number:04d}",
        "email": f"visitor-{number:04d}@example.com",
        "iban": f"IBAN-{number:04d}",
        "card": f"CARD-{number:04d}",
        "key": f"KEY-{number:04d}",
        "phone": f"01 99 00 {number // 100:02d} {number % 100:02d}",  # a range kept for fiction in France
        "name": f"{_GIVEN[digest % len(_GIVEN)]} {_FAMILY[digest // 10 % len(_FAMILY)]}",
    }[kind]


_SYNTHETIC = re.compile(
    r"https://example\.com/link-\d{4}|visitor-\d{4}@example\.com|(?:IBAN|CARD|KEY)-\d{4}|01 99 00 \d\d \d\d"
)
_SYNTHETIC_NAMES = frozenset((*_GIVEN, *_FAMILY))


def _replace(text: str, names: Iterable[str], lang: str, salt: str) -> str:
    for finding in reversed(find_personal(text, lang=lang)):
        stand_in = synthetic(finding.kind, finding.text, salt)
        text = text[: finding.start] + stand_in + text[finding.end :]
    for name in sorted(names, key=len, reverse=True):
        stand_in = synthetic("name", name, salt)
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", stand_in, text, flags=re.IGNORECASE)
        for part, other in zip(name.split(), stand_in.split(), strict=False):
            if len(part) >= MIN_NAME_PART:  # "Merci Paul" after "Paul Martin"
                text = re.sub(rf"(?<![\w-]){re.escape(part.title())}(?![\w-])", other, text)
    return text


def _given_names(messages: Sequence[tuple[str, str]], lang: str) -> list[str]:
    found = [f.text for _, text in messages for f in find_personal(text, lang=lang) if f.kind == "name"]
    for (role, asked), (answering, text) in pairwise(messages):
        if role == "assistant" and answering == "user" and _ASKS_NAME.search(asked) and "?" not in text:
            first = re.split(r"[,;\n]|\s[-–]\s", text.strip())[0]
            words = _leading_name(first)
            if words and len(first.split()) <= 4 and not is_synthetic(words):
                found.append(words)
    return found


def _names(text: str, _lang: str) -> Iterator[tuple[int, int]]:
    for pattern in (_INTRODUCTION, _TITLE):
        for match in pattern.finditer(text):
            if name := _leading_name(match[1]):
                start = match.start(1) + match[1].index(name)
                yield start, start + len(name)


def _leading_name(text: str) -> str:
    """The first one to three words that can be a name."""
    words: list[str] = []
    for match in re.finditer(_WORD, text):
        word = match[0].rstrip(".'’-")
        if word.casefold() in _NAME_STOPS or len(words) == 3 or len(word) < 2:
            break
        words.append(word)
        end = match.start() + len(word)
    return text[text.index(words[0]) : end] if words else ""


def _phones(text: str, lang: str) -> Iterator[tuple[int, int]]:
    regions = REGIONS.get(lang) or tuple(region for group in REGIONS.values() for region in group)
    if sum(char.isdigit() for char in text) < 7:
        return
    for region in regions:
        for match in phonenumbers.PhoneNumberMatcher(text, region):
            yield match.start, match.end


def _ibans(text: str, _lang: str) -> Iterator[tuple[int, int]]:
    for match in _IBAN.finditer(text):
        end = match.end()
        while end - match.start() >= 15:  # the pattern may have run into the next word
            if text[end - 1].isalnum() and iban.is_valid(text[match.start() : end]):
                yield match.start(), end
                break
            end -= 1


def _cards(text: str, _lang: str) -> Iterator[tuple[int, int]]:
    for match in _CARD.finditer(text):
        digits = re.sub(r"\D", "", match[0])
        if luhn.is_valid(digits) and len(set(digits)) > 1:
            yield match.span()


def _keys(text: str, _lang: str) -> Iterator[tuple[int, int]]:
    yield from (match.span() for match in _KEY.finditer(text))
    for match in _TOKEN.finditer(text):
        token = match[0]
        is_mixed = any(c.isdigit() for c in token) and any(c.isalpha() for c in token)
        if is_mixed and _bits(token) >= MIN_KEY_BITS:
            yield match.span()


def _urls(text: str, _lang: str) -> Iterator[tuple[int, int]]:
    for match in _URL.finditer(text):
        if _URL_SECRET.search(match[0]):
            yield match.start(), match.start() + len(match[0].rstrip(".,;:!?"))


def _emails(text: str, _lang: str) -> Iterator[tuple[int, int]]:
    yield from (match.span() for match in _EMAIL.finditer(text))


def _bits(token: str) -> float:
    counts = Counter(token).values()
    return -sum(n / len(token) * math.log2(n / len(token)) for n in counts)


Finder = Callable[[str, str], Iterator[tuple[int, int]]]
# Order matters: an address inside a link, or digits inside an IBAN, belong to the larger thing.
_FINDERS: tuple[tuple[Kind, Finder], ...] = (
    ("url", _urls),
    ("email", _emails),
    ("key", _keys),
    ("iban", _ibans),
    ("card", _cards),
    ("phone", _phones),
    ("name", _names),
)
