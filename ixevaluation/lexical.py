"""A lexical index behind the same `Retriever` protocol as the product's engines.

It needs no model and no service, so whole public benchmarks run through the shipping `retrieve` in
minutes. It has no graph: keyword lists are accepted and not used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from langchain_core.documents import Document
from numpy.typing import NDArray

from ixevaluation.dataset import Passage
from ixinfra.config.settings import RagMode
from ixinfra.errors import MissingExtraError
from ixrag.documents import current_report

try:
    import bm25s
    import Stemmer
except ImportError as error:  # pragma: no cover - the message is the behaviour
    raise MissingExtraError("the lexical index needs the extra `eval`: pip install 'ixchat[eval]'") from error

K1 = 1.5
B = 0.75
TOP_K = 10
SNOWBALL = {"en": "english", "fr": "french", "es": "spanish", "it": "italian", "de": "german"}


class LexicalIndex:
    """BM25 (the Lucene variant) over stemmed words without stop words.

    Args:
        passages: What can be found, at least one; only `text` is indexed.
        lang: Language of the stop words and the stemmer, one of `SNOWBALL`.

    Source: Kamphuis et al., ECIR 2020, for the variant; k1 and b as in the public baselines.
    """

    def __init__(self, passages: Sequence[Passage], *, lang: str = "en") -> None:
        if not passages:
            raise ValueError("an index needs at least one passage")
        self.passages = {passage.id: passage for passage in passages}
        self._ids = [passage.id for passage in passages]
        self._lang = lang
        self._stemmer = Stemmer.Stemmer(SNOWBALL[lang])
        corpus = self._tokenize([passage.text for passage in passages])
        self._bm25 = bm25s.BM25(method="lucene", k1=K1, b=B)
        self._bm25.index(corpus, show_progress=False)
        self._document_count: dict[str, int] = {}
        for words in corpus:
            for word in set(words):
                self._document_count[word] = self._document_count.get(word, 0) + 1

    def words(self, text: str) -> list[str]:
        """The stemmed words of a text as the index knows them, in order."""
        return self._tokenize([text])[0]

    def rarity(self, text: str) -> float:
        """Inverse document frequency of the rarest word of `text`, in nats; 0 when no word is known."""
        n = len(self._ids)
        counts = [self._document_count[word] for word in self.words(text) if word in self._document_count]
        return max((math.log(1 + (n - count + 0.5) / (count + 0.5)) for count in counts), default=0.0)

    def search(
        self, query: str, k: int = TOP_K, *, beside: Mapping[str, float] | None = None
    ) -> list[tuple[str, float]]:
        """`(passage id, score)`, best first, at most `k`; a passage without a common word is not returned.

        Args:
            query: What is searched.
            k: Most passages.
            beside: Further words, whose scores count this much of a word of the query.
        """
        if beside:
            scores = sum((w * self.scores(word) for word, w in beside.items()), self.scores(query))
            best = np.argsort(-scores, kind="stable")[:k]
            return [(self._ids[row], float(scores[row])) for row in best.tolist() if scores[row] > 0]
        known = [word for word in self.words(query) if word in self._document_count]
        if not known:
            return []
        rows, scores = self._bm25.retrieve([known], k=min(k, len(self._ids)), show_progress=False)
        return [
            (self._ids[int(row)], float(score))
            for row, score in zip(rows[0], scores[0], strict=True)
            if score > 0
        ]

    def scores(self, text: str) -> NDArray[np.float64]:
        """The score of every passage, float64 `[n]`, in the order of `passages`; they add up over words."""
        known = [word for word in self.words(text) if word in self._document_count]
        if not known:
            return np.zeros(len(self._ids))
        return np.asarray(self._bm25.get_scores(known), np.float64)

    def _tokenize(self, texts: list[str]) -> list[list[str]]:
        tokens: list[list[str]] = bm25s.tokenize(
            texts, stopwords=self._lang, stemmer=self._stemmer, return_ids=False, show_progress=False
        )
        return tokens


class LexicalRetriever:
    """The index as a `Retriever`. `rag_mode` is what the product believes the tenant has.

    Args:
        index: What is searched.
        rag_mode: Which resolvers the shipping policy picks; the search is the same for all.
        top_k: Documents a search.
    """

    def __init__(self, index: LexicalIndex, *, rag_mode: RagMode = "mix", top_k: int = TOP_K) -> None:
        self._index = index
        self._rag_mode: RagMode = rag_mode
        self._top_k = top_k

    @property
    def rag_mode(self) -> RagMode:
        """Which channels the product believes it has."""
        return self._rag_mode

    async def ainvoke(self, input: str, **kwargs: Any) -> Sequence[Document]:
        """Passages for `input`, best first, in the metadata of the LightRAG retriever."""
        report = current_report()
        report.vector_text = input
        beside = kwargs.get("missing_words")
        return [
            Document(
                self._index.passages[passage_id].text,
                metadata={
                    "kind": "chunk",
                    "rank": rank,
                    "source": passage_id,
                    "chunk_id": passage_id,
                    "score": score,
                },
            )
            for rank, (passage_id, score) in enumerate(
                self._index.search(input, self._top_k, beside=beside), start=1
            )
        ]

    async def said_in(self, texts: Sequence[str], passages: int) -> list[list[str]]:
        """Texts of the best passages for each text."""
        return [
            [self._index.passages[found].text for found, _ in self._index.search(text, passages)]
            for text in texts
        ]
