"""Golden questions in two halves: one to tune abstention on, one to judge it on that nothing was chosen by."""

import random
from collections.abc import Sequence

from palimpsest.eval.golden.questions import GoldenSet, Question

SEED = 17


def tuning_half(sets: Sequence[GoldenSet]) -> frozenset[str]:
    """Returns the ids of the questions to tune on; the others are held apart.

    Each half gets half of the questions of each collection, user, and type or kind of unanswerable question, drawn by a
    fixed seed.
    """
    groups: dict[tuple[str, str, str], list[str]] = {}
    for golden in sets:
        for q in golden.questions:
            groups.setdefault((golden.collection, q.user or golden.default_user, _group(q)), []).append(q.id)
    draw = random.Random(SEED)  # noqa: S311 (no secret)
    chosen: set[str] = set()
    for _, ids in sorted(groups.items()):
        ids = sorted(ids)
        draw.shuffle(ids)
        odd = draw.random() < 0.5 if len(ids) % 2 else False  # half of the odd ones go to either half
        chosen.update(ids[: len(ids) // 2 + odd])
    return frozenset(chosen)


def _group(question: Question) -> str:
    return question.type if question.answerable else f"u{question.kind or 'old'}"
