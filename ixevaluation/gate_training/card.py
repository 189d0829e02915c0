"""The model card of the intent gate, made of the numbers of its training run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ixchat.utils.intent_gate import MIN_CONFIDENCE, STRATEGIES
from ixevaluation.gate_training.examples import Example

Verdicts = Sequence[tuple[Example, str]]

HEAD = """# Intent gate

A multinomial logistic regression over the look of a message: small words in order, length, question marks,
split points, markers of reference, and whether its content stands in the conversation. Made by
`python -m ixevaluation.gate_training`; this card is printed by the same run. Below a confidence of
{floor} a message is searched as it is, and a first turn is never taken for a reference.

## Data

| source | licence | used for | messages |
|---|---|---|---|
| TREC CAsT 2019–2022 and iKAT 2023–2025, development half | MIT | training | {gate-trec} |
| Alexa contextual query rewrite, development half | MIT-0 | training | {gate-alexa-cqr} |
| MTRAG, development half, published rewrites | Apache-2.0 | training | {retrieval-mtrag} |
| the product's reference set, development half | this repository's | training | {reference-dev} |
| messages written for the gate | this repository's | training | {written-train} |
| compounds and keywords cut out of all of these | as above | training | {compound} |
| CANARD, development half | CC BY-SA 4.0 | test alone | – |

The labels `coref` and `passthrough` of the public sets say what a rewriter did, not what a reader decided:
`resolve` where words of the conversation were added, `none` where nothing was. `decompose`,
`coref_decompose` and `expand` have no public labels: they are learned from compounds made by rule.
The model is licensed like this repository (MIT).
"""

TAIL = """
## Where it is wrong

- A question that could stand alone and was rewritten by people all the same ("What are some important modern
  uses?") looks like any other question. On CANARD, where one topic runs through a dialogue, such turns are
  most of its misses; they are searched as written.
- Outside English, `coref` was learned from the product's own dialogues and few written ones.
- Two questions joined without a question word after the conjunction ("price and support") pass as one.
- Messages of one to three words are `expand` unless they lean on the conversation; a bare name is, too.
- Languages other than the five: only length, marks and overlap are seen. Expect `passthrough` or `expand`.
"""


def card(training: Sequence[Example], tests: Mapping[str, Verdicts]) -> str:
    """The card as markdown."""
    sources: Counter[str] = Counter(example.source for example in training)
    parts = [HEAD.format(floor=MIN_CONFIDENCE, **sources), "## Scores"]
    for name, verdicts in tests.items():
        parts.append(f"\n### {name}\n")
        parts.append(_scores(verdicts))
        for lang in sorted({example.lang for example, _ in verdicts}):
            rows = [(example, said) for example, said in verdicts if example.lang == lang]
            parts.append(
                f"\n`{lang}`, rows are what is right, columns what the gate says:\n\n{_confusion(rows)}"
            )
    return "\n".join(parts) + "\n" + TAIL


def _scores(verdicts: Verdicts) -> str:
    right = sum(example.label == said for example, said in verdicts)
    lines = [f"{right} of {len(verdicts)} right ({right / len(verdicts):.0%}).\n"]
    lines += ["| class | messages | precision | recall |", "|---|---|---|---|"]
    for label in STRATEGIES:
        wanted = [said for example, said in verdicts if example.label == label]
        taken = [example.label for example, said in verdicts if said == label]
        if wanted:
            lines.append(f"| {label} | {len(wanted)} | {_share(taken, label)} | {_share(wanted, label)} |")
    return "\n".join(lines)


def _confusion(verdicts: Verdicts) -> str:
    cells = Counter((example.label, said) for example, said in verdicts)
    labels = [label for label in STRATEGIES if any(key[0] == label for key in cells)]
    lines = ["| | " + " | ".join(STRATEGIES) + " |", "|---" * (len(STRATEGIES) + 1) + "|"]
    lines += [
        f"| **{label}** | " + " | ".join(str(cells[label, said]) for said in STRATEGIES) + " |"
        for label in labels
    ]
    return "\n".join(lines)


def _share(values: Iterable[str], label: str) -> str:
    values = list(values)
    return f"{sum(value == label for value in values) / len(values):.2f}" if values else "–"
