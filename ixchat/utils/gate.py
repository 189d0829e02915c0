"""Which messages cannot be searched as written: the gate in front of both short-reply resolvers."""

from __future__ import annotations

import re
import unicodedata

from ixchat.utils.terms import EMAIL, INVISIBLE, URL, count_words

MAX_RESOLVE_WORDS = 4  # longer replies lost more items than they won on the tuning set
MAX_REPLY_CHARS = 400  # nobody answers a question in four words of a hundred letters

_QUESTION_MARK = re.compile("[?\u037e؟፧᥅⁇⁈⁉‽⸮⳺⳻꘏꛷︖﹖？❓❔\U00011143\U0001e95f]")
_ANYWHERE = re.compile("[¿⸘՞]")  # opens a Spanish question; stands inside an Armenian word
_GREEK = re.compile("[\u0370-\u03ff\u1f00-\u1fff]")
_TAG = re.compile(r"</?[a-z][^<>]{0,200}>", re.IGNORECASE)
_PHONE = re.compile(
    r"(?<!\w)(?:\+|\(?0)[\d\s().\-/]{8,24}(?!\w)|(?<!\w)\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}(?!\w)"
)
_COMMAND = re.compile(r"/[a-z_]", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_PHONE_DIGITS = range(9, 16)


def should_resolve(query: str) -> bool:
    """Whether a follow-up is a short reply that means nothing without the conversation.

    The rule: not empty, does not end in a question mark, at most `MAX_RESOLVE_WORDS` words. On
    plain text it is exactly that. Real text adds: question marks of every script, also behind
    closing quotes, brackets or emoji; an opening `¿`; invisible characters; scripts without
    spaces. Nothing to resolve either: punctuation alone, contact details, addresses, commands, one
    giant token. Linear in the length of `query`; any string is accepted.
    """
    text = _visible(query)
    if not text or len(text) > MAX_REPLY_CHARS or count_words(text) > MAX_RESOLVE_WORDS:
        return False
    return not (_is_question(text) or _is_wordless(text) or _is_contact(text) or _COMMAND.match(text))


def has_reference_text(query: str) -> bool:
    """Whether a message has words that could point at something said before.

    False for blanks, punctuation, bare contact details and addresses, commands and one giant token:
    a resolver has nothing to read in them.
    """
    text = _PHONE.sub(" ", URL.sub(" ", EMAIL.sub(" ", _visible(query)))).strip()
    if _is_wordless(text) or _COMMAND.match(text):
        return False
    return len(text) <= MAX_REPLY_CHARS or count_words(text) > 1


def _visible(query: str) -> str:
    text = query.strip()
    if "<" in text:
        text = _TAG.sub("", text)
    if text.isascii():
        return text.strip()
    # The Greek question mark becomes a semicolon under NFC, so it is kept apart first.
    text = INVISIBLE.sub("", text).replace("\u037e", "?")
    return unicodedata.normalize("NFC", text).strip()


def _is_question(text: str) -> bool:
    """Look behind whatever closes the message: quotes, brackets, emphasis, emoji, more marks."""
    if _ANYWHERE.search(text):
        return True
    end = len(text)
    while end and not text[end - 1].isalnum():
        end -= 1
    if _QUESTION_MARK.search(text, end):
        return True
    return end > 0 and ";" in text[end:] and bool(_GREEK.match(text[end - 1]))


def _is_wordless(text: str) -> bool:
    """Punctuation only. An emoji says something: it is a symbol, not punctuation."""
    return not any(char.isalnum() or unicodedata.category(char) == "So" for char in text)


def _is_contact(text: str) -> bool:
    if "@" in text and EMAIL.search(text):
        return True
    if ("://" in text or "www." in text.lower()) and URL.search(text):
        return True
    if not _DIGIT.search(text):
        return False
    phone = _PHONE.search(text)
    return phone is not None and sum(map(str.isdigit, phone.group())) in _PHONE_DIGITS
