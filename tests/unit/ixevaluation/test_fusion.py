from langchain_core.documents import Document

from ixevaluation.rewriter.fusion import fuse


def docs(*names: str) -> list[Document]:
    return [Document(name) for name in names]


def test_ranks_are_fused_by_hand() -> None:
    """b: 1/62 + 1/61; a: 1/61; c: 1/62; d: 1/63."""
    fused = fuse([docs("a", "b"), docs("b", "c", "d")])
    assert [d.page_content for d in fused] == ["b", "a", "c"]


def test_no_rankings_give_nothing() -> None:
    assert fuse([]) == []
    assert fuse([[], []]) == []
