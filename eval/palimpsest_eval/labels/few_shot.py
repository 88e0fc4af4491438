"""A relation program with labelled pairs as demonstrations: compiled without a model, the same from the same pairs."""

import random
from collections.abc import Iterator, Sequence

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.json_types import JsonObject
from palimpsest.relations.classify.label_types import LABELS
from palimpsest.relations.classify.lm.read_answer import contains_instructions
from palimpsest.relations.classify.lm.relation_program import load_program, pair_inputs
from palimpsest.relations.classify.pairs_file import PairRow, pair_from_row

MAX_DEMONSTRATION_CHARS = 160
"""Of both statements together: every call sends every demonstration."""
_CONFIDENCE = 0.9  # in a demonstration's answer; a constant, so that it says nothing about the label


def few_shot_program(rows: Sequence[PairRow], count: int, seed: int = 0) -> JsonObject:
    """Returns the state of a program with `count` demonstrations, compiled by DSPy's LabeledFewShot.

    The answer of a demonstration quotes both statements in full, so it teaches the form of an answer and the label.

    Args:
        rows: labelled pairs to choose from; judge the program on others.
        count: how many demonstrations.
        seed: of the choice.

    Raises:
        PalimpsestError: there are too few short pairs.
    """
    import dspy

    examples = []
    for row in choose_demonstrations(rows, count, seed):
        inputs = pair_inputs(pair_from_row(row))
        answer = {"older_quote": row["older"], "newer_quote": row["newer"], "label": row["label"]}
        answer["conflict"] = str(row.get("conflict") or "none")
        examples.append(dspy.Example(**inputs, **answer, confidence=_CONFIDENCE).with_inputs(*inputs))
    optimizer = dspy.LabeledFewShot(k=count)
    return dict(optimizer.compile(load_program(), trainset=examples, sample=False).dump_state())


def choose_demonstrations(rows: Sequence[PairRow], count: int, seed: int = 0) -> list[PairRow]:
    """Returns `count` short pairs, the labels in turn, each of another group and, while there are any, another domain.

    Raises:
        PalimpsestError: there are too few.
    """
    short = [
        r
        for r in sorted(rows, key=lambda r: r["id"])
        if len(r["older"]) + len(r["newer"]) <= MAX_DEMONSTRATION_CHARS
        and not contains_instructions(r["older"] + "\n" + r["newer"])
    ]
    random.Random(seed).shuffle(short)  # noqa: S311
    chosen: list[PairRow] = []
    used: set[str] = set()
    for label in _labels_in_turn(count):
        of_label = [r for r in short if r["label"] == label and not used.intersection(_origins(r)[:2])]
        of_label.sort(key=lambda r: _origins(r)[2] in used)
        if not of_label:
            raise PalimpsestError(
                f"demonstrations: no further {label} pair up to {MAX_DEMONSTRATION_CHARS} characters; ask for fewer"
            )
        chosen.append(of_label[0])
        used.update(_origins(of_label[0]))
    return chosen


def _labels_in_turn(count: int) -> Iterator[str]:
    for i in range(count):
        yield LABELS[i % len(LABELS)]


def _origins(row: PairRow) -> tuple[str, str, str]:
    """Returns id, group and domain, each with a prefix that keeps them apart."""
    return f"id {row['id']}", f"group {row.get('group') or row['id']}", f"domain {row.get('domain')}"
