"""Nodes and edges of whole scopes: descriptions, categories, projects, events, what relates them, and their bounds."""

import json
import random

import polars as pl
import pytest

from palimpsest.core.ids import entity_id
from palimpsest.nodes.node_tables import build_nodes, importance
from palimpsest.store.graph_decisions import EDGE_TYPES, NODE_TYPES
from palimpsest.store.tables import conform, empty
from tests.nodes.made_nodes import SCOPE, Page, edges_of, fact, made, nodes_of
from tests.query.made import at, rows

CUSTOMERS = [
    Page("customers/aldmoor.md", ["Aldmoor runs nine pumps."], title="Aldmoor"),
    Page("customers/calder.md", ["Calder pays late."], title="Calder"),
    Page("notes/a.md", ["Esker is a customer since 2014."]),
]
NAMES = {"Aldmoor": "title", "Calder": "title", "Esker": "name"}


def test_a_node_is_described_by_the_sentence_that_defines_it():
    texts = ["I saw Basin again.", "Basin is the database of the lab. It is slow.", "In May Basin grew."]
    node = nodes_of(made([Page("a.md", texts)], {"Basin": "name"}))["Basin"]
    assert node["description"] == "Basin is the database of the lab."
    assert json.loads(node["metadata"])["description_memory_id"] == "m0.1"


@pytest.mark.parametrize(
    "columns", [{"user_visible": False}, {"pii": True}, {"retention_until": at("2027-01-01")}], ids=str
)
def test_a_memory_that_not_all_may_read_for_good_describes_nothing_and_makes_no_event(columns):
    tables = made([Page("a.md", ["Basin is the database of the lab."])], {"Basin": "name"})
    hidden = [pl.lit(value).alias(name) for name, value in columns.items()]
    tables["memories"] = tables["memories"].with_columns(hidden)
    assert nodes_of(tables)["Basin"]["description"] is None
    tables = dated()
    tables["memories"] = tables["memories"].with_columns(hidden)
    assert {row["type"] for row in nodes_of(tables).values()} == {"organisation"}


def test_a_retired_memory_describes_a_node_only_where_no_latest_one_does():
    tables = made([Page("a.md", ["Ott is the clerk.", "Ott is the mayor."])], {"Ott": "person"})
    retired = pl.col("memory_id") == "m0.1"
    tables["versions"] = tables["versions"].with_columns(is_latest=~retired)
    assert nodes_of(tables)["Ott"]["description"] == "Ott is the clerk."


def test_a_category_has_what_folders_and_texts_put_into_it():
    tables = made(CUSTOMERS, NAMES)
    node = nodes_of(tables)["customers"]
    assert (node["type"], node["description"]) == ("category", "customers: Aldmoor, Calder, Esker")
    assert {(n, "part_of", "customers") for n in NAMES} <= edges_of(tables)


def test_metadata_puts_what_a_document_is_about_into_a_category():
    pages = [
        Page(f"{n}.md", [f"{n} turns."], title=n, metadata={"category": "Gauges"}) for n in ("Vant float", "Marl disc")
    ]
    nodes = nodes_of(made(pages, {"Vant float": "title", "Marl disc": "title"}))
    assert nodes["gauges"]["type"] == "category"


SCHOOLS = {"Harbour School": "title", "Moor School": "title"}


def test_one_member_makes_no_category():
    assert "customers" not in nodes_of(made(CUSTOMERS[:1], NAMES))


def test_a_project_of_a_scope_and_a_goal_are_project_nodes():
    pages = [
        Page("a.md", ["The roof leaks."], scope={"project_id": "annex"}),
        Page("b.md", ["My goal is to run ten kilometres."]),
    ]
    nodes = nodes_of(made(pages, {}))
    assert nodes["annex"]["type"] == nodes["run ten kilometres"]["type"] == "project"


def test_a_goal_is_linked_to_the_category_it_names_and_its_milestones_are_part_of_it():
    goal = "My goal is to reopen Harbour School."
    schools = [Page(f"schools/{n}.md", [f"{n} stands."], title=n) for n in ("Harbour School", "Moor School")]
    page = Page("a.md", [goal, "Harbour School was repaired in 1950."])
    edges = edges_of(with_event(made([page, *schools], SCHOOLS), "m0.1"))
    assert ("reopen Harbour School", "related_to", "schools") in {*edges, *((b, t, a) for a, t, b in edges)}
    assert ("Harbour School was repaired in 1950", "part_of", "reopen Harbour School") in edges


def test_an_event_is_part_of_the_project_whose_memory_states_it():
    annex = {"project_id": "annex"}
    page = Page("a.md", ["Harbour School was repaired in 1950."], scope=annex)
    tables = with_event(made([page], {"Harbour School": "title"}), "m0.0", annex)
    assert ("Harbour School was repaired in 1950", "part_of", "annex") in edges_of(tables)


def with_event(tables, memory_id, scope=SCOPE):
    """Adds the fact that dates the repair of Harbour School in a memory."""
    scope = SCOPE | scope
    stated = fact("Harbour School", "be_repair_in", value="1950", memory_id=memory_id)
    stated |= scope | {"subject_id": entity_id(*scope.values(), "Harbour School")}
    clause = {k: v for k, v in stated.items() if k not in ("fact_id", "memory_ids")}
    clause |= {"memory_id": memory_id, "char_start": 0, "char_end": 36}
    return tables | {"facts": rows("facts", stated), "clause_facts": rows("clause_facts", clause)}


def dated():
    texts = ["Harbour School was founded in 1907.", "Harbour School was rebuilt in 1950."]
    facts = [
        fact("Harbour School", "be_found_in", value="1907", memory_id="m0.0"),
        fact("Harbour School", "be_rebuild_in", value="1950", memory_id="m0.1"),
    ]
    clauses = [
        {k: v for k, v in f.items() if k not in ("fact_id", "memory_ids")}
        | {"memory_id": f["memory_ids"][0], "char_start": 0, "char_end": len(text)}
        for f, text in zip(facts, texts, strict=True)
    ]
    return made(
        [Page("a.md", texts)],
        {"Harbour School": "name"},
        facts=rows("facts", *facts),
        clause_facts=rows("clause_facts", *clauses),
    )


def test_dated_facts_are_events_in_order_and_part_of_their_subject():
    founded, rebuilt = "Harbour School was founded in 1907", "Harbour School was rebuilt in 1950"
    edges = edges_of(dated())
    assert nodes_of(dated())[founded]["type"] == "event"
    assert {(founded, "precedes", rebuilt), (founded, "part_of", "Harbour School")} <= edges


def test_facts_between_entities_are_edges_by_their_predicate():
    facts = [fact("Rask", "uses", "Basin"), fact("Rask", "located_in", "Brakel"), fact("Rask", "visit", "Basin")]
    facts.append(fact("Basin", "depends_on", "Brakel") | {"is_negated": True})
    tables = made(
        [Page("a.md", ["Rask in Brakel uses Basin."])],
        dict.fromkeys(("Rask", "Basin", "Brakel"), "name"),
        facts=rows("facts", *facts),
    )
    edges = {(s, t, o) for s, t, o in edges_of(tables) if t != "related_to"}
    assert edges == {("Rask", "depends_on", "Basin"), ("Rask", "part_of", "Brakel")}


def test_a_document_that_extends_another_depends_on_it():
    pages = [Page("a.md", ["Tarn is."], title="Tarn Mill"), Page("b.md", ["Skell is."], title="Skell Mill")]
    stated = {"newer_uri": "b.md", "older_uri": "a.md", "label": "EXTEND", **SCOPE}
    tables = made(
        pages, {"Tarn Mill": "title", "Skell Mill": "title"}, document_relations=rows("document_relations", stated)
    )
    assert ("Skell Mill", "depends_on", "Tarn Mill") in edges_of(tables)


def test_no_edge_and_no_category_crosses_a_scope():
    other = [Page(p.uri, p.sentences, p.title, scope={"user_id": "ben"}) for p in CUSTOMERS]
    alone = build_nodes(made(CUSTOMERS, NAMES))
    both = build_nodes(made([*CUSTOMERS, *other], NAMES))
    for name in ("nodes", "edges"):
        assert both[name].filter(user_id="ana").equals(alone[name])
    scope_of = dict(both["nodes"].select("node_id", "user_id").iter_rows())
    for source, target, user in both["edges"].select("source_id", "target_id", "user_id").iter_rows():
        assert scope_of[source] == scope_of[target] == user


def test_importance_grows_with_what_is_known_and_stays_below_one():
    frame = pl.DataFrame(
        {"type": ["place", "place", "topic"], "memory_count": [10, 1000, 50], "facts": [0, 50, 0], "members": [0, 0, 0]}
    )
    unstated = frame.with_columns(stated=pl.lit(None, pl.Float64))
    assert importance(unstated).to_list() == [0.5, 0.991, 0.5]
    assert importance(frame.with_columns(stated=pl.Series([0.9, None, 0.1]))).to_list() == [0.7, 0.991, 0.3]


def test_what_a_model_takes_an_entity_for_counts_as_evidence_and_for_its_importance():
    tables = made([Page("a.md", ["Varn opened.", "Varn closed."])], {"Varn": "name"})
    row = {**SCOPE, "entity_id": tables["entities"]["entity_id"][0], "type": "product", "importance": 1.0}
    stated = conform("stated_entities", pl.DataFrame([row | {"memory_id": m} for m in ("m0.0", "m0.1")]))
    before, after = (nodes_of(t)["Varn"] for t in (tables, tables | {"stated_entities": stated}))
    assert (before["type"], after["type"]) == ("concept", "product") and after["importance"] > before["importance"]


@pytest.mark.parametrize("seed", range(25))
def test_nodes_depend_on_no_order_and_keep_their_bounds(seed):
    order = random.Random(seed)
    tables = dated() if seed % 2 else made(CUSTOMERS, NAMES)
    shuffled = {
        name: frame.sample(fraction=1.0, shuffle=True, seed=order.randrange(9)) for name, frame in tables.items()
    }
    first, second = build_nodes(tables), build_nodes(shuffled)
    assert all(first[name].equals(second[name]) for name in first)
    nodes, edges = first["nodes"], first["edges"]
    assert set(nodes["type"]) <= set(NODE_TYPES) and set(edges["type"]) <= set(EDGE_TYPES)
    assert nodes["importance"].is_between(0, 1).all() and edges["weight"].is_between(0, 1).all()
    assert not edges.select("source_id", "target_id", "type").is_duplicated().any()


def test_a_topic_that_is_an_entity_is_one_node_with_the_memories_of_both():
    basin = entity_id("notes", "ana", "", "Basin")
    topics = [{"topic_id": i, "label": label, **SCOPE} for i, label in ((basin, "basin"), ("t1", "lab"))]
    members = [
        {"topic_id": t, "memory_id": m, "relevance": 0.5, **SCOPE} for t in (basin, "t1") for m in ("m0.0", "m0.1")
    ]
    pages = [Page("a.md", ["Basin is the database of the lab.", "It grew."])]
    tables = made(
        pages, {"Basin": "name"}, topics=rows("topics", *topics), topic_memories=rows("topic_memories", *members)
    )
    nodes = build_nodes(tables)["nodes"]
    assert sorted(nodes.select("name", "memory_count").rows()) == [("Basin", 2), ("lab", 2)]
    assert nodes.filter(node_id=basin)["type"][0] != "topic"


def test_empty_tables_make_empty_tables():
    built = build_nodes(made([], {}))
    assert all(built[name].equals(conform(name, empty(name))) for name in built)
