import random
import unicodedata
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ixrag.names import NameIndex
from ixrag.words import folded, words


@dataclass(frozen=True, slots=True)
class Label:
    name: str
    type: str = "product"
    aliases: tuple[str, ...] = ()


def names_in(text: str, *labels: Label) -> list[str]:
    return [hit.name for hit in NameIndex(labels).find(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("L’ERP Wavelo", "l erp wavelo", id="typographic apostrophe"),
        pytest.param("Santé, Straße !", "sante strasse", id="accents and sharp s"),
        pytest.param("Pay‑Connect", "pay connect", id="non-breaking hyphen"),
        pytest.param("C++ et C#", "c++ et c#", id="symbols that belong to a name"),
        pytest.param("**Lumo**", "lumo", id="markdown"),
        pytest.param("Lu\u200bmo", "lumo", id="zero-width space inside a word"),
        pytest.param("これはバッジオです", "こ れ は バッジオ で す", id="script without spaces"),
        pytest.param("", "", id="empty"),
    ],
)
def test_words_are_compared_without_case_accents_and_typography(text: str, expected: str) -> None:
    assert unicodedata.normalize("NFC", folded(text)) == expected


@given(st.text(alphabet=st.characters(max_codepoint=0x24F, categories=["L", "N", "P", "Zs"]), max_size=60))
def test_words_do_not_depend_on_the_unicode_form(text: str) -> None:
    assert folded(unicodedata.normalize("NFC", text)) == folded(unicodedata.normalize("NFD", text))


@given(st.text(max_size=80))
def test_words_stand_where_they_say(text: str) -> None:
    end = 0
    for word in words(text):
        assert end <= word.start < word.end <= len(text)
        assert folded(text[word.start : word.end]) == word.folded
        end = word.end


WESTERN = st.text(
    alphabet=st.sampled_from("abzAZ09éÉßœŒæªº²¼µðþ_ .,;'’«»…•™€+#-*\n\xa0\xad\x00"), max_size=30
)


@given(WESTERN)
def test_western_text_is_read_as_it_is_among_other_scripts(text: str) -> None:
    assert list(words(text)) == words(f"{text} 日")[:-1]


def test_a_few_words_can_be_asked_for_in_any_order() -> None:
    text = words("L’accès, « Kadrel » affiche")
    assert [text[2].folded, text[-1].start, text[0].end, len(text)] == ["kadrel", 20, 1, 4]
    assert text[1:3] == list(text)[1:3]
    with pytest.raises(IndexError):
        text[4]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("Que fait LUMO planning ?", ["Lumo Planning"], id="case, longest name first"),
        pytest.param("Lumo suffit ?", ["Lumo"], id="shorter name alone"),
        pytest.param("la lumosphère", [], id="inside a longer word"),
        pytest.param("Lumo Planning et Lumo", ["Lumo Planning", "Lumo"], id="both, in order"),
        pytest.param("the scheduler is down", ["Lumo Planning"], id="by alias"),
        pytest.param("lumo", ["Lumo"], id="last word of the text"),
    ],
)
def test_names_are_found_as_whole_terms(text: str, expected: list[str]) -> None:
    assert names_in(text, Label("Lumo"), Label("Lumo Planning", aliases=("scheduler",))) == expected


def test_a_hit_says_where_the_name_stands() -> None:
    text = "Avec l’Atelier Numérique, oui"
    (hit,) = NameIndex([Label("Atelier numerique")]).find(text)
    assert text[hit.start : hit.end] == "Atelier Numérique"


def test_labels_that_nobody_types_are_left_out() -> None:
    sentence = " ".join(f"word{i}" for i in range(13))
    assert names_in(f"a 7 {sentence}", Label("A"), Label("7"), Label("!"), Label(sentence)) == []


def test_the_index_agrees_with_a_search_name_by_name() -> None:
    rng = random.Random(7)
    syllables = ["ba", "lo", "mi", "ra", "tu"]

    def term() -> str:
        return rng.choice(syllables) + rng.choice(syllables)

    labels = [Label(" ".join(term() for _ in range(rng.randint(1, 3)))) for _ in range(300)]
    index = NameIndex(labels)
    for _ in range(50):
        tokens = [term() for _ in range(20)]
        expected, position = [], 0
        while position < len(tokens):
            fitting = [
                name
                for label in labels
                if tokens[position : position + len(name := label.name.split())] == name
            ]
            longest = max(fitting, key=len, default=None)
            if longest:
                expected.append(" ".join(longest))
            position += len(longest) if longest else 1
        assert [hit.name for hit in index.find(" ".join(tokens))] == expected
