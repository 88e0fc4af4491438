"""Pairs that the offline labeler reads as a conflict: found by a build, or without an order and read now."""

import polars as pl

from palimpsest.consolidation.model_conflicts import MIN_PROPOSED, Pair, labelled_pairs, read_conflicts
from palimpsest.consolidation.scope_memories import Memory, ScopeMemories
from palimpsest.store.tables import conform

SCOPE = ("notes", "ana", None)


def memory(memory_id: str, text: str) -> Memory:
    nothing = dict.fromkeys(
        ("session_id", "speaker", "title", "heading", "valid_until", "superseded_by", "observed_at", "ingested_at")
    )
    places = {"at": None, "line": None, "seq": 0, "ordinal": 0, "importance_source": None}
    numbers = {"confidence": 1.0, "importance": 0.5, "trust": 0.5}
    return Memory(memory_id, text, f"d{memory_id}", unit="turn", is_latest=True, **nothing, **places, **numbers)


def scope_of(*relations: dict[str, object]) -> ScopeMemories:
    memories = {i: memory(i, f"text {i}") for i in ("m1", "m2", "m3")}
    rows = [
        {"relation_id": f"r{n}", "label": "NONE", "confidence": 0.9, "labeler": "offline"} | r
        for n, r in enumerate(relations)
    ]
    return ScopeMemories(SCOPE, memories, {"relations": conform("relations", pl.DataFrame(rows))}, frozenset(memories))


def test_what_a_build_found_likely_is_a_pair_with_its_likelihood():
    likely = {"newer_id": "m2", "older_id": "m1", "likelihood": 0.3}
    unlikely = {"newer_id": "m3", "older_id": "m1", "likelihood": 0.001}
    decided = {"newer_id": "m3", "older_id": "m2", "likelihood": 0.9, "labeler": "person"}
    found = list(labelled_pairs(scope_of(likely, unlikely, decided)))
    assert [(p.first.memory_id, p.second.memory_id, p.score, p.conflict) for p in found] == [
        ("m1", "m2", 0.3, "dynamic")
    ]
    assert [(r.why, r.probability) for r in read_conflicts(found)] == [("dynamic", 0.3)]


def test_a_conflict_of_another_kind_counts_where_the_older_is_hardly_ended():
    conditional = {"newer_id": "m2", "older_id": "m1", "label": "EXTEND", "conflict": "conditional", "likelihood": 0.01}
    static = {"newer_id": "m3", "older_id": "m1", "conflict": "static", "consequence": "disputed", "labeler": "dspy"}
    readings = list(read_conflicts(list(labelled_pairs(scope_of(conditional, static)))))
    assert {(r.pair.second.memory_id, r.why) for r in readings} == {("m2", "conditional"), ("m3", "static")}


def test_below_the_line_nothing_is_proposed():
    pair = Pair(memory("m1", "a"), memory("m2", "b"), MIN_PROPOSED - 0.01, "dynamic")
    assert not pair.is_found and not list(read_conflicts([pair]))


def test_pairs_without_an_order_are_read_in_both_directions():
    home, moved = memory("m1", "We rent a flat in Lisbon."), memory("m2", "We moved from Lisbon to Porto last month.")
    boat = memory("m3", "My boat is red.")
    found = list(read_conflicts([Pair(moved, home, 0.6), Pair(boat, home, 0.2)]))
    assert [(r.pair.first.memory_id, r.why) for r in found] == [("m2", "undated")]
    assert found[0].probability >= MIN_PROPOSED
