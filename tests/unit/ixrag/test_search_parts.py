"""Quota, fusion's second half and the cross-encoder."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from langchain_core.documents import Document

from ixinfra.errors import ConfigError
from ixrag.search.fusion import diversified, without_near_duplicates
from ixrag.search.quota import Quota
from ixrag.search.rerank import Candidate, CrossEncoder


def docs(*texts: str) -> list[Document]:
    return [Document(text, id=text) for text in texts]


# --- fusion ---


def test_a_near_copy_is_dropped_and_the_first_stays() -> None:
    original = "the rota of a week is built in one click from the sales forecast of the shop"
    copy = original.replace("rota", "ROTA").replace("click ", "click, ")
    other = "stock is counted at closing time by everyone who works in the shop on that day"
    assert without_near_duplicates(docs(original, other, copy)) == docs(original, other)
    assert len(without_near_duplicates(docs("oui", "non", "Oui !"))) == 2


@pytest.mark.parametrize("at_least", [0.3, 0.5, 0.9, 1.0])
def test_near_copies_are_those_that_comparing_every_pair_finds(at_least: float) -> None:
    rng = random.Random(5)
    texts = []
    for _ in range(12):
        base = [rng.choice("abcdefghij") * 2 for _ in range(rng.randint(1, 30))]
        for _ in range(4):
            changed = [word if rng.random() < 0.95 else "zz" for word in base]
            texts.append(" ".join(changed))
    kept: list[tuple[str, set[tuple[str, ...]]]] = []
    for text in texts:
        found = text.split()
        runs = set(zip(found, found[1:], found[2:], strict=False)) or {tuple(found)}
        if all(len(runs & other) / len(runs | other) < at_least for _, other in kept):
            kept.append((text, runs))
    fused = without_near_duplicates([Document(text) for text in texts], at_least=at_least)
    assert [document.page_content for document in fused] == [text for text, _ in kept]
    assert len(kept) < len(texts)


def test_marginal_relevance_by_hand() -> None:
    a, b, c = docs("alpha beta", "alpha beta gamma", "delta")
    # After a: b is worth .5·.9 - .5·(2/3) = .117, c is worth .5·.6 - 0 = .3.
    assert diversified([(a, 1.0), (b, 0.9), (c, 0.6)], relevance=0.5) == [a, c, b]
    assert diversified([(a, 1.0), (b, 0.9), (c, 0.6)], relevance=1.0) == [a, b, c]
    assert diversified([(a, 1.0), (b, 0.9)], relevance=0.5, limit=1) == [a]
    assert diversified([]) == []


# --- quota ---


def test_calls_and_tokens_are_counted_over_a_minute_for_each_tenant() -> None:
    now = [0.0]
    quota = Quota(calls=2, tokens=100, clock=lambda: now[0])
    assert [quota.take("a", 10), quota.take("a", 10), quota.take("a", 10)] == [True, True, False]
    assert quota.take("b", 90)
    assert not quota.take("b", 20)
    now[0] = 60.0
    assert quota.take("a", 10)
    assert not Quota(calls=0).take("a", 0)


# --- cross-encoder ---


def tiny_model(folder: Path) -> None:
    """Scores a pair by the sum of its token ids, padding left out."""
    from onnx import TensorProto, helper, save
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    int64 = TensorProto.INT64
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["input_ids", "attention_mask"], ["seen"]),
            helper.make_node("ReduceSum", ["seen", "axis"], ["sums"], keepdims=1),
            helper.make_node("Cast", ["sums"], ["logits"], to=TensorProto.FLOAT),
        ],
        "tiny",
        [helper.make_tensor_value_info(name, int64, ["n", "t"]) for name in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 1])],
        [helper.make_tensor("axis", int64, [1], [1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    save(model, str(folder / "model.onnx"))
    tokenizer = Tokenizer(
        models.WordLevel({"[PAD]": 0, "[UNK]": 1, "stock": 10, "rota": 100}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:1", special_tokens=[])
    tokenizer.save(str(folder / "tokenizer.json"))


async def test_a_cross_encoder_reads_query_and_passage_together(tmp_path: Path) -> None:
    tiny_model(tmp_path)
    encoder = CrossEncoder(tmp_path)
    candidates = [Candidate(document, 1.0) for document in docs("rota rota", "stock", "other words here")]
    scores = await encoder.scores("rota", candidates)
    assert scores == pytest.approx([300.0, 110.0, 103.0])
    assert np.argmax(scores) == 0
    assert encoder.name == f"cross-encoder:{tmp_path.name}"


def test_a_folder_without_a_model_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.onnx is missing"):
        CrossEncoder(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"x")
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        CrossEncoder(tmp_path)
