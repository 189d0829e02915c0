"""Two judges with one interface: labels, and a chat model that says whether the passages suffice.

A judge receives the item and the passages. It has no way to see what an arm resolved: that is the
one difference between arms it must not know about.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage

from ixevaluation import ranking
from ixevaluation.dataset import Item, content_hash
from ixevaluation.records import JudgeName
from ixinfra.errors import ModelError
from ixinfra.llm import complete, model_id

LABEL_METRICS = ("ndcg@10", "recall@5", "recall@10", "mrr", "hit@5", "answer", "chunks-ndcg@10")
KINDS = ("chunk", "entity", "relation")
RUBRIC_VERSION = "v2"
JUDGE_TIMEOUT_S = 60.0

RUBRIC = """You grade the passages that a knowledge search returned for one visitor message in a support chat.

Question to answer: do these passages, together, contain what is needed to satisfy the visitor's information need?

Scale, whole numbers only:
0   nothing in the passages helps
3   same topic, but the needed fact is absent
5   part of what is needed is there
8   everything essential is there, a detail is missing
10  the need can be met completely from the passages

Rules:
- A short or incomplete message still has an information need: the conversation supplies it. There is no message
  in this set that needs no lookup, so never give a high score because an answer could do without passages.
- Judge the content of the passages only, never how the message is worded, and never what you know yourself.
- Passages about another company, product or plan than the one meant do not help.

Answer with two lines and nothing else:
REASON: one sentence
SCORE: a whole number from 0 to 10"""

_SCORE = re.compile(r"^\W*SCORE\W*?(\d{1,2})(?:\s*/\s*10)?\W*$", re.IGNORECASE | re.MULTILINE)
_REASON = re.compile(r"^\W*REASON\W*(.+)$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge says of one result.

    Attributes:
        scores: Metric to value, 0 to 1.
        comment: The judge's own words; "" for labels.
        read_sha: Hash of all the text the judge read; "" when it read none.
    """

    scores: Mapping[str, float]
    comment: str = ""
    read_sha: str = ""


class Judge(Protocol):
    """Scores what a search returned for an item."""

    @property
    def name(self) -> JudgeName:
        """Which of the two it is."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics of a verdict; the first is what arms are compared on unless asked otherwise."""

    def can_judge(self, item: Item) -> bool:
        """Whether the item carries what this judge needs."""

    async def score(self, item: Item, passages: Sequence[Document], *, attempt: int = 1) -> Verdict:
        """Judge one result.

        Args:
            item: What was asked.
            passages: What was found, best first.
            attempt: From 2: judge the same passages once more, independently of earlier verdicts.

        Raises:
            ModelError: The judge gave no usable verdict.
        """


@dataclass(frozen=True, slots=True)
class LabelJudge:
    """Scores a ranking by the item's labels. Reads no text but an answer to be contained."""

    name: JudgeName = "labels"
    metrics: tuple[str, ...] = LABEL_METRICS

    def can_judge(self, item: Item) -> bool:
        """Whether the item has relevant passages."""
        return item.is_labelled

    async def score(self, item: Item, passages: Sequence[Document], *, attempt: int = 1) -> Verdict:
        """Ranking measures over the passages that the result leads to, see `context_ranking`.

        `chunks-ndcg@10` looks at the chunk list alone, which graph keywords hardly move.
        """
        ids, wanted = context_ranking(passages), set(item.relevant)
        chunks = ranking.distinct([passage_id(p) for p in passages if _kind(p) == "chunk"])
        scores = {
            "ndcg@10": ranking.ndcg_at(ids, wanted, 10),
            "recall@5": ranking.recall_at(ids, wanted, 5),
            "recall@10": ranking.recall_at(ids, wanted, 10),
            "mrr": ranking.reciprocal_rank(ids, wanted),
            "hit@5": float(ranking.hit_at(ids, wanted, 5)),
            "chunks-ndcg@10": ranking.ndcg_at(chunks, wanted, 10),
        }
        if item.answer:
            scores["answer"] = float(ranking.contains_answer([p.page_content for p in passages], item.answer))
        return Verdict(scores)


def context_ranking(documents: Sequence[Document]) -> list[str]:
    """Distinct passage ids in the order in which a reader of all three lists meets them.

    A graph search returns three rankings: chunks, entities, relations. Taken in turns (first chunk,
    first entity, first relation, second chunk, …), each entity or relation stands for the passage it
    came from. Where there are chunks alone, this is their ranking.
    """
    lists = [[passage_id(d) for d in documents if _kind(d) == kind] for kind in KINDS]
    longest = max((len(ids) for ids in lists), default=0)
    return ranking.distinct(
        [ids[rank] for rank in range(longest) for ids in lists if rank < len(ids) and ids[rank]]
    )


def passage_id(document: Document) -> str:
    """Id of the passage a document is, or of the first one it came from, in the labels' terms."""
    origins = document.metadata.get("passage_ids") or [""]
    for value in (document.metadata.get("passage_id"), origins[0], document.metadata.get("chunk_id")):
        if value:
            return str(value)
    return str(document.metadata.get("source") or "") if _kind(document) == "chunk" else ""


def _kind(document: Document) -> str:
    return str(document.metadata.get("kind", "chunk"))


@dataclass(slots=True)
class SufficiencyJudge:
    """A chat model that reads conversation, need and passages, and scores whether they suffice.

    Attributes:
        model: Any LangChain chat model.
        cache: Verdicts by content hash; the same text is never judged twice.
        timeout_s: Longest wait for one verdict.
    """

    model: BaseChatModel
    cache: VerdictCache = field(default_factory=lambda: VerdictCache(None))
    timeout_s: float = JUDGE_TIMEOUT_S
    name: JudgeName = "sufficiency"
    metrics: tuple[str, ...] = ("sufficiency",)

    def can_judge(self, item: Item) -> bool:
        """Whether the turn carries an information need."""
        return item.is_judged

    async def score(self, item: Item, passages: Sequence[Document], *, attempt: int = 1) -> Verdict:
        """See `Judge.score`."""
        text = judge_prompt(item, [passage.page_content for passage in passages])
        read_sha = content_hash(text)
        key = content_hash([RUBRIC_VERSION, RUBRIC, model_id(self.model), text, attempt])
        answer = self.cache.get(key)
        if answer is None:
            messages = [SystemMessage(RUBRIC), HumanMessage(text)]
            completion = await complete(
                self.model, messages, timeout_s=self.timeout_s, name="sufficiency-judge"
            )
            answer = completion.text
            score = parse_score(answer)
            self.cache.put(key, answer)
        else:
            score = parse_score(answer)
        reason = _REASON.search(answer)
        return Verdict({"sufficiency": score}, reason[1].strip() if reason else "", read_sha)


def judge_prompt(item: Item, passages: Sequence[str]) -> str:
    """All the judge reads about one item. A function of item and passages, so equal for all arms."""
    conversation = [{"role": message.role, "text": message.content} for message in item.history]
    return "\n".join(
        [
            f"Company: {item.company_name or 'not stated'}",
            "Conversation so far (JSON):",
            json.dumps(conversation, ensure_ascii=False),
            f"Visitor's message: {json.dumps(item.query, ensure_ascii=False)}",
            f"Information need: {item.need or 'what the message means in this conversation'}",
            f"Passages returned: {len(passages)}",
            *(
                f"[{number}] {json.dumps(text, ensure_ascii=False)}"
                for number, text in enumerate(passages, start=1)
            ),
        ]
    )


def parse_score(answer: str) -> float:
    """The score of a judge's answer, 0 to 1.

    Raises:
        ModelError: No single score from 0 to 10; reason `model_error`.
    """
    scores = {int(found) for found in _SCORE.findall(answer)}
    if len(scores) != 1 or not 0 <= (score := scores.pop()) <= 10:
        raise ModelError("the judge's answer holds no single score from 0 to 10", reason="model_error")
    return score / 10


class VerdictCache:
    """Judge answers by content hash, in a file that survives the process; in memory without a path."""

    def __init__(self, path: Path | None) -> None:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._path = str(path) if path else None
        self._memory: dict[str, str] = {}
        if self._path:
            with closing(sqlite3.connect(self._path)) as database, database:
                database.execute(
                    "create table if not exists verdicts (key text primary key, answer text not null)"
                )

    def get(self, key: str) -> str | None:
        """The answer given before, or None."""
        if not self._path:
            return self._memory.get(key)
        with closing(sqlite3.connect(self._path)) as database:
            row = database.execute("select answer from verdicts where key = ?", (key,)).fetchone()
        return str(row[0]) if row else None

    def put(self, key: str, answer: str) -> None:
        """Remember an answer."""
        if not self._path:
            self._memory[key] = answer
            return
        with closing(sqlite3.connect(self._path)) as database, database:
            database.execute("insert or replace into verdicts values (?, ?)", (key, answer))
