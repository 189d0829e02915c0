"""Splitting: nothing lost, nothing too long, cut where a reader would cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ixrag.ingest.document import Block, Document
from ixrag.ingest.split import split
from ixrag.lightrag.engine import count_tokens

WORDS = st.lists(
    st.sampled_from(["Brodal", "plans.", "shifts", "und", "für!", "店", "x" * 90, "a?", "10"]), max_size=60
)
TEXTS = st.lists(WORDS.map(" ".join), min_size=1, max_size=5).map("\n\n".join)


def texts(
    *blocks: Block, max_tokens: int = 60, overlap_tokens: int = 0, title: str = "Guide"
) -> list[tuple[str, str]]:
    document = Document(title=title, blocks=blocks)
    cuts = split(document, "guide.md", max_tokens=max_tokens, overlap_tokens=overlap_tokens)
    return [(cut.passage.title, cut.passage.text) for cut in cuts]


def test_each_heading_begins_a_passage_called_by_its_path() -> None:
    blocks = Block(text="Intro."), Block(headings=("Plans", "Basic"), text="Three euros.")
    assert texts(*blocks) == [("Guide", "Intro."), ("Guide › Plans › Basic", "Three euros.")]


def test_passages_are_numbered_through_the_document_and_keep_its_language() -> None:
    document = Document(
        title="G", lang="fr", blocks=(Block(text="Un."), Block(headings=("H",), text="Deux."))
    )
    first, second = (cut.passage for cut in split(document, "a/g.md", max_tokens=60, overlap_tokens=0))
    assert (first.id, second.id, second.source, second.lang) == ("a/g.md#1", "a/g.md#2", "a/g.md", "fr")


def test_paragraphs_are_kept_whole_and_joined_while_they_fit() -> None:
    one, two, three = "One is short.", "Two is short as well.", "Three is " + "quite long " * 14 + "indeed."
    found = texts(Block(text=f"{one}\n\n{two}\n\n{three}"), max_tokens=50)
    assert [text for _, text in found] == [f"{one}\n\n{two}", three]


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    sentence = "Brodal plans the shifts of a whole shop in one go."
    found = [text for _, text in texts(Block(text=" ".join([sentence] * 5)), max_tokens=34)]
    assert found == [f"{sentence} {sentence}", f"{sentence} {sentence}", sentence]


def test_a_passage_repeats_the_end_of_the_one_before() -> None:
    first, second, third = "Alpha comes first of all.", "Beta follows at once.", "Gamma ends the list here."
    found = [
        text
        for _, text in texts(Block(text=f"{first}\n\n{second}\n\n{third}"), max_tokens=18, overlap_tokens=8)
    ]
    assert found == [f"{first}\n\n{second}", f"{second}\n\n{third}"]


def test_a_giant_title_leaves_room_for_the_text() -> None:
    ((title, text),) = texts(Block(text="Body."), title="Word " * 100)
    assert text == "Body."
    assert count_tokens(title) <= 20


@given(TEXTS, st.integers(50, 120), st.integers(0, 30))
def test_no_passage_is_too_long_and_no_word_is_lost(text: str, max_tokens: int, overlap_tokens: int) -> None:
    block = Block(headings=("Plans",), text=text)
    found = texts(block, max_tokens=max_tokens, overlap_tokens=overlap_tokens)
    assert all(count_tokens(f"{title}\n{part}") <= max_tokens for title, part in found)
    joined = "".join("".join(part.split()) for _, part in found)
    whole = "".join(text.split())
    if overlap_tokens:
        assert set(whole) == set(joined)
        assert len(joined) >= len(whole)
    else:
        assert joined == whole
