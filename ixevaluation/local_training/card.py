"""The model card: what the scorer is, what it was taught, what it is worth out of fold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LICENCES = {
    "gate-trec": "TREC CAsT 2019–2022 and iKAT 2023–2025 topics, MIT",
    "gate-canard": "CANARD (Elgohary, Peskov, Boyd-Graber 2019; from QuAC), CC BY-SA 4.0",
    "gate-alexa-cqr": "Alexa contextual query rewrites, MIT-0",
    "retrieval-mtrag": "MTRAG (IBM), Apache-2.0; its rewrites are a model's",
}


@dataclass(frozen=True, slots=True)
class Report:
    """Figures by set: need by threshold, choice by number of words, search by arm."""

    need: Mapping[str, Mapping[float, Mapping[str, Any]]]
    choice: Mapping[str, Mapping[int, float]]
    search: Mapping[str, Mapping[str, Mapping[str, Any]]]


def card(report: Report, sets: Mapping[str, float]) -> str:
    """The card as Markdown; the same report gives the same text."""
    taught = "\n".join(f"- `{name}` (weight {weight}): {LICENCES[name]}" for name, weight in sets.items())
    return "\n".join(
        [
            "# The learned scorer",
            "",
            "A network of two small layers over counted features of a message and of each word of the last six turns. It",
            "says whether the message leans on the conversation, which word it lacks, and how much that word should weigh",
            "beside the message in a lexical search. Written by `python -m ixevaluation.local_training --data DIR`; do not edit.",
            "",
            "Taught from the development halves of:",
            "",
            taught,
            "",
            "The lexical weights (one linear layer) are fitted to the relevance labels of `retrieval-mtrag`,",
            _ranked(sets),
            "",
            "All figures below are out of fold: five folds by conversation, the scorer of a fold saw none of its conversations.",
            "System messages (CANARD's page titles) are left out, as in the product. English only: the other languages share",
            "the features through their word lists, and nothing here measures them.",
            "",
            *_need(report),
            *_choice(report),
            *_search(report),
        ]
    )


def _ranked(sets: Mapping[str, float]) -> str:
    if "gate-canard" in sets:
        return "`retrieval-mtragun` (MTRAG-UN, Apache-2.0) and `retrieval-canard` (CANARD, CC BY-SA 4.0)."
    return "and `retrieval-mtragun` (MTRAG-UN, Apache-2.0)."


def _need(report: Report) -> list[str]:
    lines = [
        "## Does the message lean on the conversation?",
        "",
        "| set | turns | standalone | need ≥ | recall | specificity | balanced |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, by_threshold in report.need.items():
        for threshold, row in by_threshold.items():
            lines.append(
                f"| {name} | {row['turns']} | {row['standalone']} | {threshold} | {row['recall']:.3f} "
                f"| {_figure(row['specificity'])} | {_figure(row['balanced'])} |"
            )
    return [*lines, ""]


def _figure(value: float) -> str:
    """A dash where a set holds no stand-alone turn."""
    return "–" if math.isnan(value) else f"{value:.3f}"


def _choice(report: Report) -> list[str]:
    lines = [
        "## Is the right word among the best? (turns that lean on the conversation)",
        "",
        "| set | first | first two | first three |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {row[1]:.3f} | {row[2]:.3f} | {row[3]:.3f} |" for name, row in report.choice.items()
    ]
    return [*lines, ""]


def _search(report: Report) -> list[str]:
    lines = [
        "## Lexical search, nDCG@10 against the message alone",
        "",
        "| arm | set | turns | raw | Δ | 95 % CI | better / worse | changed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for arm, by_set in report.search.items():
        for name, row in by_set.items():
            lines.append(
                f"| {arm} | {name} | {row['turns']} | {row['raw']:.3f} | {row['delta']:+.4f} | {row['low']:+.3f} … {row['high']:+.3f} "
                f"| {row['better']} / {row['worse']} | {row['changed']:.0%} |"
            )
    return [*lines, ""]
