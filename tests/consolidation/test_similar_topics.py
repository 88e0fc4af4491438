"""Topics that gather nearly the same memories: proposed once, merged as nodes on confirmation, and taken back."""

import datetime as dt
from types import SimpleNamespace

import polars as pl

from palimpsest.consolidation.decide import confirm, undo
from palimpsest.consolidation.find_proposals import similar_topics
from palimpsest.consolidation.scope_memories import ScopeMemories
from palimpsest.store.builds import published
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home
from palimpsest.store.proposals import Proposal, read_proposals, write_proposals
from tests.small_corpus import build_home, write_chats

SCOPE = ("c", "ann", "")
IDS = [f"m{i}" for i in range(10)]


def scope_with(members: dict[str, str], looked_at=IDS) -> ScopeMemories:
    """A scope whose topics gather the memories of the given numbers; memory 9 is not latest."""
    memories = {i: SimpleNamespace(memory_id=i, is_latest=i != "m9", is_formed=False) for i in IDS}
    topics = pl.DataFrame({"topic_id": list(members), "label": [f"topic {t}" for t in members]})
    rows = [{"topic_id": t, "memory_id": f"m{number}"} for t, numbers in members.items() for number in numbers]
    tables = {"topics": topics, "topic_memories": pl.DataFrame(rows)}
    return ScopeMemories(SCOPE, memories, tables, frozenset(looked_at))


def test_three_in_five_shared_memories_make_two_topics_one_proposal_and_the_larger_is_kept():
    (found,) = similar_topics(scope_with({"a": "01234", "b": "012345", "c": "678"}), frozenset())
    assert found.names == ("b", "a") and found.memory_ids == ("m0", "m1", "m2", "m3") and found.confidence == 0.83
    assert "topic b" in found.description and "5 memories" in found.description


def test_few_shared_memories_retired_ones_decided_pairs_and_old_memories_make_none():
    assert not list(similar_topics(scope_with({"a": "012", "b": "012"}), frozenset()))
    assert not list(similar_topics(scope_with({"a": "012345", "b": "456789"}), frozenset()))
    assert not list(similar_topics(scope_with({"a": "0129", "b": "0129"}), frozenset()))
    assert not list(similar_topics(scope_with({"a": "0123", "b": "0123"}), frozenset({("a", "b")})))
    assert not list(similar_topics(scope_with({"a": "0123", "b": "0123"}, looked_at=["m8"]), frozenset()))


def test_a_confirmed_pair_of_topics_is_one_node_and_undo_takes_it_back(tmp_path, shared_vectors):
    home, corpus = Home(tmp_path / "home", shared_vectors), write_chats(tmp_path / "corpus")
    build_home(home, corpus)
    tables = published(home).tables(["memories", "nodes"])
    scope, memory = tuple(tables["memories"].select("collection", "user_id", "project_id").row(0)), None
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
