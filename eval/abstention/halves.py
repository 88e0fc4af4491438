"""Golden questions in two halves: one to tune abstention on, one to judge it on that nothing was chosen by."""

from collections.abc import Sequence
from hashlib import blake2b

from palimpsest.eval.golden.questions import GoldenSet, Question

SEED = 17


def tuning_half(sets: Sequence[GoldenSet]) -> frozenset[str]:
    """Returns the ids of the questions to tune on; the others are held out.

    Each half gets half of the questions of each collection, user, and type or kind of unanswerable question: those
    whose ids come first by a seeded hash. A question that is added moves at most one other to another half, of its own
    group.
    """
    groups: dict[str, list[str]] = {}
    for golden in sets:
        for q in golden.questions:
            groups.setdefault(f"{golden.collection}/{q.user or golden.default_user}/{_group(q)}", []).append(q.id)
    chosen: set[str] = set()
    for group, ids in groups.items():
        ids.sort(key=lambda question_id: _draw(group, question_id))
        odd = len(ids) % 2 and int(_draw(group, ""), 16) % 2  # half of the odd ones go to either half
        chosen.update(ids[: len(ids) // 2 + odd])
    return frozenset(chosen)


def _draw(group: str, question_id: str) -> str:
    return blake2b(f"{SEED}/{group}/{question_id}".encode(), digest_size=8).hexdigest()


def _group(question: Question) -> str:
    return question.type if question.answerable else f"u{question.kind or 'old'}"
