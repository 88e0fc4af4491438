"""The premises of derived memories, read through the filters of the search."""

from collections.abc import Sequence

from palimpsest.query.request.types import PremiseText
from palimpsest.query.scope.served_scope import ServedScope

DERIVED = "derived"
"""Kind of reason that `palimpsest.memories.version_reasons` writes for each premise of a memory."""


def premise_texts(served: ServedScope, ids: Sequence[str]) -> dict[str, tuple[PremiseText, ...]]:
    """Returns all premises that may be shown of those memories among `ids` that are derived, oldest first.

    A premise that was retired is named too, because the memory that follows from it may no longer be true.
    """
    relations: dict[str, dict[str, str]] = {}
    for memory_id, reasons in served.reasons(sorted(set(ids))).items():
        if derived := {reason["by"]: reason["relation_id"] for reason in reasons if reason["kind"] == DERIVED}:
            relations[memory_id] = derived
    texts = served.memories(sorted({i for premises in relations.values() for i in premises})) if relations else {}
    found = {}
    for memory_id, premises in relations.items():
        shown = [texts[i] for i in premises if i in texts]
        shown.sort(key=lambda m: (m.observed_at.timestamp() if m.observed_at else 0.0, m.memory_id))
        found[memory_id] = tuple(
            PremiseText(m.memory_id, m.text, m.observed_at, m.is_latest, premises[m.memory_id]) for m in shown
        )
    return found
