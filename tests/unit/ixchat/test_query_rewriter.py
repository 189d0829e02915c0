"""The retired prose rewriter: its defects are what the old evaluation arm is for."""

import pytest
from fakes import ScriptedModel

from ixchat.utils.history import turn_from
from ixchat.utils.query_rewriter import MAX_TOKENS, first_tokens, rewrite_query

HISTORY = [("user", "Vos modules ?"), ("ai", "Nous proposons **Badgeo**. Quel secteur ?")]
FRENCH = (
    "Quels sont les modules proposés pour la gestion des plannings et des temps dans les établissements de santé, "
    "et comment ces modules s'intègrent-ils à la paie déjà utilisée par les équipes administratives, "
    "y compris les heures supplémentaires et les congés des soignants de nuit ?"
)


@pytest.mark.parametrize(
    ("message", "rewritten"),
    [
        pytest.param("What do you do with your data?", "What do Solvea do with Solvea's data?", id="English"),
        pytest.param(
            "Que faites-vous de vos données ?", "Que faites-vous de vos données ?", id="French is left alone"
        ),
    ],
)
async def test_a_first_turn_understands_english_alone(message: str, rewritten: str) -> None:
    model = ScriptedModel()
    resolution = await rewrite_query(turn_from(message, [], "Solvea"), model)
    assert (resolution.query, resolution.fallback, model.asked) == (rewritten, "first_turn", [])


async def test_a_long_question_is_cut_wherever_the_tokens_end() -> None:
    resolution = await rewrite_query(turn_from("Santé", HISTORY, "Solvea"), ScriptedModel(script=[FRENCH]))
    assert FRENCH.startswith(resolution.query)
    assert 230 <= len(resolution.query) <= 275  # what 50 tokens of French were measured at


async def test_markdown_is_shown_to_the_model_and_kept_in_its_answer() -> None:
    model = ScriptedModel(script=['"Que fait **Badgeo** pour la santé ?"'])
    resolution = await rewrite_query(turn_from("Santé", HISTORY, "Solvea"), model)
    assert "**Badgeo**" in str(model.asked[0][-1].content)
    assert resolution.query == '"Que fait **Badgeo** pour la santé ?"'
    assert (resolution.decision, resolution.fallback) == ("resolve", None)
    assert resolution.trace["conversation_history_length"] == 2


async def test_any_message_is_rewritten_however_long() -> None:
    model = ScriptedModel(script=["Une question ?"])
    resolution = await rewrite_query(
        turn_from("Combien de bureaux avez-vous en France ?", HISTORY, "Solvea"), model
    )
    assert resolution.query == "Une question ?"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [("x", "empty"), (TimeoutError(), "timeout"), (RuntimeError("429"), "model_error")],
    ids=["one character", "timeout", "error"],
)
async def test_without_an_answer_the_first_turn_rule_is_used(answer: str | Exception, reason: str) -> None:
    resolution = await rewrite_query(
        turn_from("your price", HISTORY, "Solvea"), ScriptedModel(script=[answer])
    )
    assert (resolution.query, resolution.decision, resolution.fallback) == ("Solvea's price", "error", reason)


class CappedModel(ScriptedModel):
    max_tokens: int = 4_000


async def test_the_models_own_cap_is_set_and_the_callers_model_is_left_alone() -> None:
    model = CappedModel(script=["Une question ?"])
    await rewrite_query(turn_from("Santé", HISTORY, "Solvea"), model)
    assert model.max_tokens == 4_000


def test_a_short_text_is_not_cut() -> None:
    assert first_tokens("Une question ?", MAX_TOKENS) == "Une question ?"
