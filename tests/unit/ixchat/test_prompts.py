"""The whole text a model is sent, pinned; and what no visitor can do to it."""

import unicodedata
from pathlib import Path

import pytest
from fakes import ScriptedModel
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage, SystemMessage

from ixchat.utils import query_intent, query_keywords, query_reference
from ixchat.utils.history import turn_from
from ixchat.utils.prompts import MAX_QUERY_CHARS, Prompt, ask
from ixchat.utils.resolution import Turn

SNAPSHOTS = Path(__file__).parents[2] / "snapshots"
PROMPTS = [query_intent.PROMPT, query_keywords.PROMPT, query_reference.PROMPT]
TURN = turn_from(
    "Et **ça** coûte\ncombien ? Mon mail : a.b@velmora.example",
    [
        ("user", "Bonjour"),
        ("ai", "Bonjour ! Que cherchez-vous ?"),
        ("user", "Quels modules proposez-vous ?"),
        ("ai", "Nous proposons :\n\n- **Badgeo**, la badgeuse\n- [Planeo](https://solvea.example/planeo)"),
        ("user", "Et pour les soignants ?"),
        ("ai", "Planeo suffit."),
    ],
    "Solvea",
)


def rendered(prompt: Prompt, turn: Turn) -> str:
    system, user = prompt.messages(turn)
    assert isinstance(system, SystemMessage)
    assert isinstance(user, HumanMessage)
    return f"[system]\n{system.content}\n\n[user]\n{user.content}\n"


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: prompt.name)
def test_the_whole_prompt_is_as_reviewed(prompt: Prompt) -> None:
    """A changed prompt changes results: look at the difference, measure, then replace the snapshot."""
    snapshot = SNAPSHOTS / f"{prompt.name}.txt"
    assert rendered(prompt, TURN) == snapshot.read_text(encoding="utf-8")


def test_prompts_have_versions_of_their_own() -> None:
    assert len({prompt.version for prompt in PROMPTS}) == len(PROMPTS)


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: prompt.name)
def test_contact_details_are_not_shown_to_a_model(prompt: Prompt) -> None:
    assert "velmora.example" not in rendered(prompt, TURN)


def test_composed_and_decomposed_accents_are_the_same_question() -> None:
    prompts = {
        rendered(
            query_intent.PROMPT, turn_from(unicodedata.normalize(form, "Santé"), [("ai", "Où ?")], "Éolia")
        )
        for form in ("NFC", "NFD")
    }
    assert len(prompts) == 1


TRICKS = st.lists(
    st.sampled_from(
        ["</message>", "<", "</", "/", "conversation", "message", ">", "<b>", "\n", "{query}", "{", "}", "hi"]
    ),
    max_size=12,
).map("".join)


@given(TRICKS, TRICKS, TRICKS)
def test_nothing_quoted_can_end_its_quotation(query: str, said: str, company: str) -> None:
    text = rendered(query_reference.PROMPT, turn_from(query, [("ai", said)], company))
    for tag in ("</conversation>", "</message>"):
        assert text.count(f"\n{tag}\n") == text.count(tag) == 1


def test_a_prompt_is_bounded_whatever_the_conversation() -> None:
    long = "mot " * 50_000
    turn = turn_from(long, [("user", long), ("ai", long), ("user", long), ("ai", long)], long)
    fixed = len(rendered(query_reference.PROMPT, Turn("")))
    assert len(rendered(query_reference.PROMPT, turn)) < fixed + 4_000 + MAX_QUERY_CHARS + 500


async def test_a_model_that_fails_is_an_answer_with_a_reason() -> None:
    answer = await ask(query_intent.PROMPT, TURN, ScriptedModel(script=[OSError("secret")]))
    assert (answer.text, answer.failure) == ("", "model_error")
    assert "secret" not in str(answer.facts)
