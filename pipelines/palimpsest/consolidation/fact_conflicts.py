"""Facts of a scope that give a slot of one value several of them: `fact list` marks the same as conflicts."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

import polars as pl

from palimpsest.consolidation.conflicts import MAX_GROUP, Conflict
from palimpsest.consolidation.scope_memories import Memory, ScopeMemories
from palimpsest.query.graph.fact_table import SINGLE_VALUED
from palimpsest.relations.classify.rules.values import read_value, refines, same_value


def fact_conflicts(scope: ScopeMemories) -> Iterator[Conflict]:
    """Yields the pairs of latest memories that state different values of one slot of one entity, each pair once."""
    latest = {m.memory_id: m for m in scope.latest}
    names = dict(scope.tables["entities"].select("entity_id", "name").iter_rows())
    slots: dict[tuple[str, str], dict[str, list[Memory]]] = defaultdict(lambda: defaultdict(list))
    single = pl.col("predicate").is_in(sorted(SINGLE_VALUED)) & ~pl.col("is_negated") & pl.col("is_latest")
    rows = scope.tables["facts"].filter(single & (pl.col("modality").fill_null("stated") == "stated"))
    columns = ("subject_id", "predicate", "object_id", "value", "memory_ids")
    for subject, predicate, other, value, memory_ids in rows.select(columns).iter_rows():
        text = names.get(other, "") if other else value or ""
        slots[subject, predicate][text] += [latest[i] for i in memory_ids if i in latest]
    seen: set[frozenset[str]] = set()
    for (_, predicate), values in sorted(slots.items()):
        if not 2 <= len(values) <= MAX_GROUP:
            continue
        for a, b in combinations(sorted(values), 2):
            if not _differ(a, b):
                continue
            for first, second in zip(values[a][:1], values[b][:1], strict=False):
                pair = frozenset((first.memory_id, second.memory_id))
                if len(pair) == 2 and pair not in seen and scope.is_looked_at(*pair):
                    seen.add(pair)
                    yield Conflict(first, second, predicate, (a, b), False)


def _differ(a: str, b: str) -> bool:
    """Returns whether two values differ, and neither is only more exact."""
    x, y = read_value(a), read_value(b)
    return bool(a and b) and not (same_value(x, y) or refines(x, y) or refines(y, x)) and x.kind == y.kind
