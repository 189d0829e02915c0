import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ixchat.utils.candidates import recent
from ixchat.utils.local.features import (
    MAX_CANDIDATES,
    MESSAGE_FEATURES,
    WORD_FEATURES,
    TurnFeatures,
    describe,
)
from ixchat.utils.local.learned import append_missing_words, missing_words
from ixchat.utils.local.lexicon import lexicons
from ixchat.utils.local.scorer import Scorer, read_scorer, shipped_scorer
from ixchat.utils.local.weighing import WEIGHT_FEATURES
from ixchat.utils.resolution import Message, Turn
from ixinfra.errors import ConfigError
from ixrag.rarity import Rarity
from ixrag.words import words

RARITY = Rarity.of(
    ["the cost of a plan", "how to cancel a plan", "symptoms and treatment", "what is the cost"] * 5
)
ALWAYS = append_missing_words(RARITY, min_need=0.0)


def turn(query: str, *history: str, company: str = "") -> Turn:
    roles = ("user", "assistant") * len(history)
    return Turn(query, [Message(role, text) for role, text in zip(roles, history, strict=False)], company)


def features_of(asked: Turn) -> TurnFeatures:
    return describe(words(asked.query), asked.query, recent(asked.messages, 6), lexicons()["en"], RARITY)


ANEMIA = (
    "What is anemia?",
    "Anemia means too few healthy red blood cells.",
    "What are the symptoms?",
    "Tiredness.",
)


def test_features_count_what_they_say() -> None:
    described = features_of(turn("How is it treated?", *ANEMIA))
    message = dict(zip(MESSAGE_FEATURES, described.message, strict=True))
    assert (message["length"], message["it"], message["question_mark"], message["turns"]) == (4, 1, 1, 2)
    rows = {
        seen.folded: dict(zip(WORD_FEATURES, row, strict=True))
        for seen, row in zip(described.sightings, described.words, strict=True)
    }
    anemia, symptoms = rows["anemia"], rows["symptoms"]
    assert (anemia["user_age"], anemia["answer_age"], anemia["count"]) == (1, 1, 2)
    assert (symptoms["user_age"], symptoms["in_question"], symptoms["after_article"]) == (0, 1, 1)
    assert anemia["focus"] == pytest.approx(0.9)
    assert symptoms["focus"] == pytest.approx(1.0)


def test_words_of_the_message_are_no_candidates() -> None:
    seen = {sighting.folded for sighting in features_of(turn("Are symptoms bad?", *ANEMIA)).sightings}
    assert "symptoms" not in seen
    assert "anemia" in seen


def test_a_long_answer_is_cut_to_its_rarest_words() -> None:
    long = " ".join(f"word{number}" for number in range(390))
    assert len(features_of(turn("And it?", "Tell me", long)).sightings) == MAX_CANDIDATES


@pytest.mark.parametrize(
    ("query", "history", "word"),
    [
        pytest.param("How is it treated?", ANEMIA[:2], "anemia", id="it"),
        pytest.param(
            "Who is the author of it?", ("Tell me about the Neverending Story.",), "Neverending", id="a title"
        ),
    ],
)
def test_a_pronoun_needs_its_subject(query: str, history: tuple[str, ...], word: str) -> None:
    missing = missing_words(turn(query, *history), RARITY)
    assert missing.need > 0.5
    assert word.lower() in [found.text.lower() for found in missing.words[:3]]


def test_a_definition_question_needs_less_than_a_pronoun() -> None:
    alone = missing_words(turn("What is photosynthesis in plants?", *ANEMIA), RARITY)
    leaning = missing_words(turn("What causes it?", *ANEMIA), RARITY)
    assert alone.need < leaning.need


async def test_first_turns_and_unknown_languages_are_kept() -> None:
    assert (await ALWAYS(turn("How is it treated?"))).fallback == "first_turn"
    assert (await ALWAYS(turn("Zzz", "Qqq"))).query == "Zzz"


def test_shares_and_nothing_add_up_to_one() -> None:
    scores = shipped_scorer().score(features_of(turn("How is it treated?", *ANEMIA)))
    assert float(scores.share.sum()) == pytest.approx(scores.need, abs=1e-5)
    assert ((scores.term >= 0) & (scores.term <= 1)).all()


def test_no_candidate_means_no_need() -> None:
    assert shipped_scorer().score(features_of(turn("It?", "the", "a"))).need == 0.0


def test_the_scorer_agrees_with_the_network_written_out_word_by_word() -> None:
    described, scorer = features_of(turn("How is it treated?", *ANEMIA)), shipped_scorer()
    w, scores = scorer.weights, scorer.score(described)
    message = np.clip((described.message - w["message_mean"]) / w["message_scale"], -4, 4)
    logits = []
    for row in described.words:
        values = np.clip((row - w["word_mean"]) / w["word_scale"], -4, 4)
        first = np.maximum(values @ w["word_in"] + message @ w["message_in"] + w["bias_in"], 0)
        second = np.maximum(first @ w["hidden"] + w["hidden_bias"], 0)
        logits.append(float(second @ w["choice"] + w["choice_bias"][0]))
    nothing = float(
        np.maximum(message @ w["nothing_in"] + w["nothing_in_bias"], 0) @ w["nothing"] + w["nothing_bias"][0]
    )
    total = sum(np.exp([*logits, nothing]))
    assert scores.need == pytest.approx(1 - np.exp(nothing) / total, abs=1e-4)
    assert scores.share == pytest.approx(np.exp(logits) / total, abs=1e-4)


def test_a_word_weighs_its_share_of_the_probability_that_anything_is_missing() -> None:
    rows = np.random.default_rng(0).normal(size=(5, len(WEIGHT_FEATURES))).astype(np.float32)
    sure, unsure, none = (shipped_scorer().weigh(rows, need) for need in (1.0, 0.25, 0.0))
    assert np.allclose(unsure, sure / 4)
    assert not none.any()


def test_weights_for_other_features_are_refused() -> None:
    with pytest.raises(ConfigError, match="train again"):
        read_scorer({"message_features": ["length"], "word_features": WORD_FEATURES, "weights": {}})


TEXT = st.one_of(
    st.text(max_size=60),
    st.lists(
        st.sampled_from(["what", "is", "it", "Anemia", "the", "**Lumo**", "é", "?", "\u200b", "«", "1990s"])
    ).map(" ".join),
)


@given(TEXT, st.lists(TEXT, max_size=5))
async def test_the_answer_is_the_message_or_the_message_and_words_of_the_history(
    query: str, history: list[str]
) -> None:
    asked = turn(query, *[text for text in history if text.strip()])
    resolution = await ALWAYS(asked)
    if resolution.query == query:
        return
    assert resolution.query.startswith(f"{query} — ")
    facts = resolution.trace["evidence"]
    for fact in facts:
        assert asked.messages[fact["message"]].content[fact["start"] : fact["end"]] == fact["term"]
    assert resolution.query == f"{query} — {' '.join(fact['term'] for fact in facts)}"


@pytest.mark.parametrize(
    "variant",
    [
        pytest.param(lambda text: unicodedata.normalize("NFD", text), id="NFD"),
        pytest.param(lambda text: text.replace("i", "\u200bi"), id="zero-width"),
    ],
)
@pytest.mark.parametrize(
    "query", ["How is it treated?", "Et ça se soigne où déjà ?", "What is photosynthesis?"]
)
def test_the_spelling_of_a_message_does_not_move_the_decision(query: str, variant: object) -> None:
    assert callable(variant)
    plain = missing_words(turn(query, *ANEMIA), RARITY)
    other = missing_words(turn(variant(query), *ANEMIA), RARITY)
    assert other.need == pytest.approx(plain.need, abs=1e-6)
    assert [word.text for word in other.words] == [word.text for word in plain.words]


def test_the_scorer_is_read_once() -> None:
    assert shipped_scorer() is shipped_scorer()
    assert isinstance(shipped_scorer(), Scorer)
