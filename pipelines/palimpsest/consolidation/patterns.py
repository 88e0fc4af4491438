"""Notes: what several memories state of one person or thing alike, as one line over all of them."""

from collections import defaultdict
from collections.abc import Iterator

import polars as pl

from palimpsest.consolidation.scope_memories import ScopeMemories
from palimpsest.query.graph.fact_table import SINGLE_VALUED
from palimpsest.store.proposals import Proposal

MIN_MEMORIES = 3
MAX_VALUES = 10
_SAYS_LITTLE = frozenset({"be", "have", "do", "get", "make", "made", "take", "give", "go", "go_to", "be_in", "be_on"})


def notes(scope: ScopeMemories) -> Iterator[Proposal]:
    """Yields a note for each slot of an entity that three latest memories of two documents fill with three values.

    A note lists the values as the memories have them, and concludes nothing.
    """
    latest = {m.memory_id: m for m in scope.latest}
    names = dict(pl.concat(scope.tables[t].select("entity_id", "name") for t in ("speakers", "entities")).iter_rows())
    slots: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    rows = scope.tables["facts"].filter(pl.col("is_latest") & ~pl.col("is_negated")).sort("fact_id")
    columns = ("subject_id", "predicate", "object_id", "value", "memory_ids")
    for subject, predicate, other, value, memory_ids in rows.select(columns).iter_rows():
        text, stating = (names.get(other) if other else value) or "", [i for i in memory_ids if i in latest]
        if text and stating and subject in names and predicate not in _SAYS_LITTLE | SINGLE_VALUED:
            slots[subject, predicate].setdefault(text, stating[0])
    for (subject, predicate), values in sorted(slots.items()):
        ids = tuple(sorted(set(values.values())))
        documents = {latest[i].document_id for i in ids}
        if len(ids) < MIN_MEMORIES or len(documents) < 2 or not scope.is_looked_at(*ids):
            continue
        listed = "; ".join(sorted(values)[:MAX_VALUES])
        yield Proposal(
            "note",
            "repeated slot",
            scope.scope,
            ids,
            f"{names[subject]}, {predicate.replace('_', ' ')}: {listed}",
            0.7,
        )
