"""What people decided of single memories, as a build applies it: `store.memory_decisions`."""

import datetime as dt

import polars as pl

from palimpsest.core.scopes import SCOPE
from palimpsest.store.decisions import Decisions
from palimpsest.store.memory_decisions import MemoryDecision
from palimpsest.store.tables import Schema, conform


def retired_by_decision(state: pl.DataFrame, decisions: Decisions | None) -> pl.DataFrame:
    """Returns (memory_id, decided_by): memories that another takes the place of, by decision.

    Only while that other is live, in the same scope, and not itself retired by an earlier decision.

    Args:
        state: memory_id, the scope columns and `live` of every memory.
        decisions: what was decided.
    """
    found: dict[str, str] = {}
    retiring = [d for d in decisions.memories if d.action == "retire"] if decisions is not None else []
    if retiring:
        named = state.filter(pl.col("memory_id").is_in([i for d in retiring for i in (d.memory_id, d.by)]))
        rows = {i: (tuple(scope), live) for i, *scope, live in named.select("memory_id", *SCOPE, "live").iter_rows()}
        for d in retiring:
            if _is_valid(d, rows) and d.by not in found:
                found.setdefault(d.memory_id, d.by)
    schema = {"memory_id": pl.String, "decided_by": pl.String}
    return pl.DataFrame(sorted(found.items()), schema=schema, orient="row")


def _is_valid(decision: MemoryDecision, rows: dict[str, tuple[tuple[str, ...], bool]]) -> bool:
    dropped, kept = rows.get(decision.memory_id), rows.get(decision.by)
    if dropped is None or kept is None or decision.scope not in (None, dropped[0]):
        return False
    return dropped[0] == kept[0] and kept[1]


def decided_memories(memories: pl.DataFrame, decisions: Decisions) -> pl.DataFrame:
    """Returns `decided_memories`, by id: from when on a memory is not served, and its confidence, by decision."""
    values: dict[str, dict[str, object]] = {}
    decided = [d.memory_id for d in decisions.memories]
    rows_of = memories.filter(pl.col("memory_id").is_in(decided)).select("memory_id", *SCOPE).iter_rows()
    scopes = {i: tuple(scope) for i, *scope in rows_of}
    for d in decisions.memories:
        if d.scope not in (None, scopes.get(d.memory_id)):
            continue  # imported, about a memory of another scope
        if d.action == "prune":
            values.setdefault(d.memory_id, {})["pruned_at"] = dt.datetime.fromisoformat(d.at)
        elif d.action == "confidence":
            values.setdefault(d.memory_id, {})["confidence"] = d.value
    rows = [(i, v.get("pruned_at"), v.get("confidence")) for i, v in sorted(values.items())]
    schema: Schema = {"memory_id": pl.String(), "pruned_at": pl.Datetime("us", "UTC"), "confidence": pl.Float64()}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return conform("decided_memories", frame.join(memories.select("memory_id", *SCOPE), on="memory_id"))
