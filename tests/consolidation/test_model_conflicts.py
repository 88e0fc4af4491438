"""Pairs that the offline labeler reads as a conflict: found by a build, or without an order and read now."""

import datetime as dt
from types import SimpleNamespace

import polars as pl
import pytest

from palimpsest.consolidation.decide import confirm, undo
from palimpsest.consolidation.find_proposals import similar_topics
from palimpsest.consolidation.model_conflicts import MIN_PROPOSED, Pair, labelled_pairs, read_conflicts
from palimpsest.consolidation.scope_memories import Memory, ScopeMemories
from palimpsest.store.builds import published
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home
from palimpsest.store.proposals import Proposal, read_proposals, write_proposals
from palimpsest.store.tables import conform
from tests.small_corpus import build_home, write_chats

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


def test_pairs_without_an_order_are_read_in_both_directions_and_below_the_line_nothing_is_proposed():
    pair = Pair(memory("m1", "a"), memory("m2", "b"), MIN_PROPOSED - 0.01, "dynamic")
    assert not pair.is_found and not list(read_conflicts([pair]))
    home, moved = memory("m1", "We rent a flat in Lisbon."), memory("m2", "We moved from Lisbon to Porto last month.")
    found = list(read_conflicts([Pair(moved, home, 0.6), Pair(memory("m3", "My boat is red."), home, 0.2)]))
    assert [(r.pair.first.memory_id, r.why) for r in found] == [("m2", "undated")]
    assert found[0].probability >= MIN_PROPOSED


TOPIC_SCOPE = ("c", "ann", "")
IDS = [f"m{i}" for i in range(10)]


def scope_with(members: dict[str, str], looked_at=IDS) -> ScopeMemories:
    """A scope whose topics gather the memories of the given numbers; memory 9 is not latest."""
    memories = {i: SimpleNamespace(memory_id=i, is_latest=i != "m9", is_formed=False) for i in IDS}
    topics = pl.DataFrame({"topic_id": list(members), "label": [f"topic {t}" for t in members]})
    rows = [{"topic_id": t, "memory_id": f"m{number}"} for t, numbers in members.items() for number in numbers]
    tables = {"topics": topics, "topic_memories": pl.DataFrame(rows)}
    return ScopeMemories(TOPIC_SCOPE, memories, tables, frozenset(looked_at))


def test_three_in_five_shared_memories_make_two_topics_one_proposal_and_the_larger_is_kept():
    (found,) = similar_topics(scope_with({"a": "01234", "b": "012345", "c": "678"}), frozenset())
    assert found.names == ("b", "a") and found.memory_ids == ("m0", "m1", "m2", "m3") and found.confidence == 0.83
    assert "topic b" in found.description and "5 memories" in found.description


@pytest.mark.parametrize(
    ("members", "looked_at", "decided"),
    [
        ({"a": "012", "b": "012"}, IDS, ()),
        ({"a": "012345", "b": "456789"}, IDS, ()),
        ({"a": "0129", "b": "0129"}, IDS, ()),
        ({"a": "0123", "b": "0123"}, IDS, [("a", "b")]),
        ({"a": "0123", "b": "0123"}, ["m8"], ()),
    ],
)
def test_few_shared_memories_retired_ones_decided_pairs_and_old_memories_make_none(members, looked_at, decided):
    assert not list(similar_topics(scope_with(members, looked_at), frozenset(decided)))


def test_a_confirmed_pair_of_topics_is_one_node_and_undo_takes_it_back(tmp_path, shared_vectors):
    home, corpus = Home(tmp_path / "home", shared_vectors), write_chats(tmp_path / "corpus")
    build_home(home, corpus)
    tables = published(home).tables(["memories", "nodes"])
    scope = tuple(tables["memories"].select("collection", "user_id", "project_id").row(0))
    keep, other = tables["nodes"].filter(user_id=scope[1])["node_id"].sort().head(2)
    memory = tables["memories"].filter(user_id=scope[1])["memory_id"][0]
    at = dt.datetime.now(dt.UTC).isoformat()
    proposal = Proposal("connection", "similar topics", scope, (memory,), "d", 0.7, names=(keep, other), created_at=at)
    write_proposals(home.path, [proposal])
    confirm(home, [proposal.proposal_id])
    (decision,) = read_decisions(home.decisions).graph
    assert (decision.action, decision.node_id, decision.other_id) == ("merge_nodes", keep, other)
    assert read_decisions(home.decisions).paired == {tuple(sorted((keep, other)))}
    build_home(home, corpus)
    nodes = set(published(home).tables(["nodes"])["nodes"]["node_id"])
    assert keep in nodes and other not in nodes
    undo(home, [proposal.proposal_id])
    assert not read_decisions(home.decisions).graph
    assert read_proposals(home.path)[proposal.proposal_id].state == "open"
