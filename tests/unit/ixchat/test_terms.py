"""Whole terms: finding a name in real text, counting words."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ixchat.utils.terms import count_words, encodable, find_name, find_names


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        pytest.param("badgeo", "Le module BADGEO.", "BADGEO", id="case"),
        pytest.param("Elodie", "Le plan Élodie", "Élodie", id="accents"),
        pytest.param(
            unicodedata.normalize("NFD", "Élodie"), "Le plan Élodie", "Élodie", id="decomposed name"
        ),
        pytest.param(
            "Élodie", unicodedata.normalize("NFD", "plan Élodie !"), "E\u0301lodie", id="decomposed text"
        ),
        pytest.param("Pay-Connect", "le Pay\u2011Connect", "Pay\u2011Connect", id="non-breaking hyphen"),
        pytest.param("L'Atelier", "à L’Atelier", "L’Atelier", id="typographic apostrophe"),
        pytest.param("Badgeo", "un Bad\u200bgeo neuf", "Bad\u200bgeo", id="zero-width space inside"),
        pytest.param("Badgeo", "le (Badgeo™)", "Badgeo", id="trade mark"),
        pytest.param("C++", "nous formons à C++.", "C++", id="signs at the end"),
        pytest.param("C", "nous formons à C++ et C#.", None, id="a letter is not its language with signs"),
        pytest.param("Premium", "l'offre Premium+", None, id="another plan"),
        pytest.param("Rose", "notre roseraie", None, id="inside a word"),
        pytest.param("Badgeo", "das Badgeo-Modul", "Badgeo", id="first part of a compound"),
        pytest.param("Badgeo", "使用Badgeo吗", "Badgeo", id="Latin between ideographs"),
        pytest.param("バッジオ", "勤怠管理にはバッジオを使います", "バッジオ", id="before a particle"),
        pytest.param("バッジ", "勤怠管理にはバッジオを使います", None, id="inside a katakana word"),
        pytest.param("ハッシオ", "バッジオを使います", None, id="unvoiced kana are other letters"),
        pytest.param("ﾊﾞｯｼﾞｵ", "バッジオを使います", "バッジオ", id="half-width kana"),
        pytest.param("勤怠", "勤怠管理", "勤怠", id="ideographs"),
        pytest.param("Badge Connect", "un badge. Connect vous plaira", None, id="over the end of a sentence"),
        pytest.param("Pack - Premium", "Pack – Premium", "Pack – Premium", id="dash inside a name"),
        pytest.param("Node.js", "avec Node.js", "Node.js", id="full stop inside a name"),
        pytest.param("", "x", None, id="no name"),
        pytest.param("—", "a — b", None, id="a sign is no name"),
    ],
)
def test_find_name(name: str, text: str, found: str | None) -> None:
    span = find_name(name, text)
    assert (text[slice(*span)] if span else None) == found


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_a_name_between_blanks_is_found(before: str, name: str, after: str) -> None:
    text = f"{before} {name} {after}"
    spans = list(find_names(name, text))
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert bool(spans) is any(map(str.isalnum, name))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("  5 à\u00a010 ans ", 4, id="blanks of every kind"),
        pytest.param("多少钱", 1, id="three ideographs"),
        pytest.param("请问你们的产品", 3, id="seven ideographs"),
        pytest.param("用 Badgeo 打卡", 2, id="mixed"),
        pytest.param("", 0, id="nothing"),
    ],
)
def test_count_words(text: str, words: int) -> None:
    assert count_words(text) == words


@given(st.text(st.characters(codec=None), max_size=20))
def test_every_string_becomes_encodable(text: str) -> None:
    safe = encodable(text)
    assert safe.encode().decode() == safe
    assert encodable(safe) == safe
