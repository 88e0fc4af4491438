"""Decisions of people about nodes and edges, applied to the tables of a scope."""

import json

import polars as pl
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import entity_id
from palimpsest.nodes.node_decisions import decided_node_id
from palimpsest.nodes.node_tables import build_nodes
from palimpsest.store.decisions import append_made, append_undone, read_decisions
from palimpsest.store.graph_decisions import GraphDecision, NodeValues
from tests.nodes.made_nodes import SCOPE, Page, made

KEY = tuple(SCOPE.values())
PAGES = [Page("a.md", ["Rask said that Basin is the database.", "Rask went home."])]
NAMES = {"Rask": "person", "Basin": "name"}


def key(name):
    return entity_id(*KEY, name)


def applied(*decisions):
    """The nodes by name, and edges as (source, target, type), after decisions."""
    built = build_nodes(made(PAGES, NAMES), decisions)
    nodes = {row["name"]: row for row in built["nodes"].iter_rows(named=True)}
    return nodes, set(built["edges"].select("source_id", "target_id", "type").iter_rows()), built


def added(name="Ledger", at="2026-06-02T10:00:00+00:00", scope=KEY, **values):
    return GraphDecision("add_node", scope, decided_node_id(scope, name), values=NodeValues(name, **values), at=at)


def test_an_added_node_has_what_was_given_and_the_time_of_the_decision():
    decision = added(type="product", description="Where loans are.", aliases=("Book",), importance=0.8)
    nodes, _, _ = applied(decision)
    node = nodes["Ledger"]
    assert (node["type"], node["description"], node["aliases"]) == ("product", "Where loans are.", ["Book"])
    assert node["importance"] == 0.8 and node["created_at"].isoformat() == "2026-06-02T10:00:00+00:00"
    assert decision.decision_id in node["metadata"]


def test_an_edit_changes_what_is_given_and_keeps_the_old_name_as_an_alias():
    nodes, _, _ = applied(GraphDecision("edit_node", KEY, key("Basin"), values=NodeValues("Basin DB", "project")))
    node = nodes["Basin DB"]
    assert (node["type"], node["aliases"]) == ("project", ["Basin"])
    assert node["description"] == "Rask said that Basin is the database."


def test_properties_of_documents_are_metadata_and_decisions_change_them():
    pages = [
        Page("a.md", ["Basin is the database."], "Basin", {"status": "active", "ports": [1, 2], "note": "x" * 300})
    ]
    properties = (("owner", "Rask"), ("ports", ""), ("year", 2026.0))
    edit = GraphDecision("edit_node", KEY, key("Basin"), values=NodeValues(properties=properties))
    node, undecided = (
        {
            r["name"]: json.loads(r["metadata"])
            for r in build_nodes(made(pages, NAMES), d)["nodes"].iter_rows(named=True)
        }
        for d in ([edit], [])
    )
    assert undecided["Basin"]["properties"] == {"ports": [1, 2], "status": "active"}
    assert node["Basin"]["properties"] == {"owner": "Rask", "status": "active", "year": 2026.0}


def test_a_document_with_a_hidden_memory_states_no_properties():
    tables = made([Page("a.md", ["Basin is the database.", "A secret."], "Basin", {"status": "active"})], NAMES)
    hidden = pl.col("memory_id") == "m0.1"
    tables["memories"] = tables["memories"].with_columns(user_visible=~hidden)
    built = build_nodes(tables)["nodes"]
    assert "active" not in "".join(built["metadata"])


def test_a_merge_moves_memories_names_and_edges():
    tie = GraphDecision("add_edge", KEY, key("Basin"), key("Rask"), NodeValues(type="depends_on"))
    merge = GraphDecision("merge_nodes", KEY, decided_node_id(KEY, "Ledger"), key("Basin"))
    nodes, edges, built = applied(added(), tie, merge)
    assert "Basin" not in nodes and nodes["Ledger"]["aliases"] == ["Basin"] and nodes["Ledger"]["memory_count"] == 1
    assert (decided_node_id(KEY, "Ledger"), key("Rask"), "depends_on") in edges
    assert built["node_memories"].filter(node_id=decided_node_id(KEY, "Ledger"))["memory_id"].to_list() == ["m0.0"]


def test_a_deleted_node_takes_its_edges_along():
    tie = GraphDecision("add_edge", KEY, key("Rask"), key("Basin"), NodeValues(type="part_of", weight=0.5))
    nodes, edges, _ = applied(tie, GraphDecision("delete_node", KEY, key("Basin")))
    assert set(nodes) == {"Rask"} and not edges


@pytest.mark.parametrize(("type_", "left"), [(None, 0), ("part_of", 0), ("precedes", 1)])
def test_a_deleted_edge_is_of_one_type_or_of_any(type_, left):
    tie = GraphDecision("add_edge", KEY, key("Rask"), key("Basin"), NodeValues(type="part_of"))
    cut = GraphDecision("delete_edge", KEY, key("Rask"), key("Basin"), NodeValues(type=type_))
    assert len(applied(tie, cut)[1]) == left


def test_a_decision_about_a_node_that_is_gone_or_a_scope_without_memories_changes_nothing():
    plain = applied()[2]
    gone = [
        GraphDecision("edit_node", KEY, "gone", values=NodeValues(type="place")),
        GraphDecision("merge_nodes", KEY, key("Rask"), "gone"),
        GraphDecision("add_edge", KEY, key("Rask"), "gone", NodeValues(type="part_of")),
        added(scope=("notes", "ben", "")),
    ]
    after = applied(*gone)[2]
    assert all(plain[name].equals(after[name]) for name in plain)


def test_an_edge_never_leads_into_another_scope():
    pages = [*PAGES, Page("b.md", ["Tarn is there."], scope={"user_id": "ben"})]
    other = entity_id("notes", "ben", "", "Tarn")
    tie = GraphDecision("add_edge", KEY, key("Rask"), other, NodeValues(type="part_of"))
    assert build_nodes(made(pages, NAMES | {"Tarn": "name"}), [tie])["edges"].is_empty()


def test_an_undone_decision_does_not_apply_until_it_is_made_again(tmp_path):
    path, one, two = tmp_path / "decisions.jsonl", added(), added("Weir book")
    append_made(path, one, two)
    append_undone(path, one)
    assert [d.values.name for d in read_decisions(path).graph] == ["Weir book"]
    append_made(path, one)
    assert [d.values.name for d in read_decisions(path).graph] == ["Weir book", "Ledger"]
    assert read_decisions(path).graph_key("notes") and not read_decisions(path).graph_key("other")


@pytest.mark.parametrize(
    "line",
    [
        '{"kind": "graph", "target": "x", "action": "paint"}',
        '{"kind": "graph", "target": "x", "action": "add_node"}',
        '{"kind": "graph", "target": "x", "action": "edit_node", "collection": "c", "user_id": "u", "project_id": "",'
        ' "node_id": "n", "importance": 7}',
    ],
)
def test_a_line_that_is_no_decision_is_named(tmp_path, line):
    path = tmp_path / "decisions.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(PalimpsestError, match="line 1 is not a decision"):
        read_decisions(path)
