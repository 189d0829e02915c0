import pytest

from ixchat.utils.local.cascade import ask_when_unsure
from ixchat.utils.resolution import Message, Resolution, Resolver, Turn

TURN = Turn(
    "Ça coûte combien ?", [Message("user", "Et Pointavel ?"), Message("assistant", "Pointavel pointe.")]
)
NAMED = f"{TURN.query} — Pointavel"


def scripted(resolution: Resolution, calls: list[str]) -> Resolver:
    async def resolve(turn: Turn) -> Resolution:
        calls.append(turn.query)
        return resolution

    return resolve


@pytest.mark.parametrize(
    ("confidence", "asked"),
    [
        pytest.param(0.9, False, id="sure"),
        pytest.param(0.85, False, id="just sure enough"),
        pytest.param(0.7, True, id="unsure"),
        pytest.param(None, True, id="no confidence stated"),
    ],
)
async def test_the_model_is_asked_only_in_between(confidence: float | None, asked: bool) -> None:
    calls: list[str] = []
    trace = {} if confidence is None else {"confidence": confidence}
    local = scripted(Resolution(TURN.query, "keep", trace=trace), [])
    model = scripted(Resolution(NAMED, "resolve", trace={"model": "m"}), calls)
    resolution = await ask_when_unsure(local, model, ask_below=0.85)(TURN)
    assert bool(calls) is asked
    assert resolution.query == (NAMED if asked else TURN.query)
    assert resolution.trace["asked"] is asked


async def test_the_trace_says_whether_both_agree() -> None:
    local = scripted(Resolution(NAMED, "resolve", trace={"confidence": 0.5}), [])
    for answer, agrees in ((NAMED, True), (TURN.query, False)):
        model = scripted(Resolution(answer, "resolve"), [])
        resolution = await ask_when_unsure(local, model, ask_below=0.85)(TURN)
        assert (resolution.trace["agrees"], resolution.trace["local_decision"]) == (agrees, "resolve")


async def test_a_failed_model_leaves_the_visitors_words() -> None:
    local = scripted(Resolution(NAMED, "resolve", trace={"confidence": 0.5}), [])
    model = scripted(Resolution(TURN.query, "error", "timeout"), [])
    resolution = await ask_when_unsure(local, model, ask_below=0.85)(TURN)
    assert (resolution.query, resolution.fallback) == (TURN.query, "timeout")


async def test_a_first_turn_asks_nobody() -> None:
    calls: list[str] = []
    local = scripted(Resolution("Bonjour", fallback="first_turn"), [])
    await ask_when_unsure(local, scripted(Resolution("Bonjour"), calls), ask_below=0.85)(Turn("Bonjour"))
    assert calls == []
