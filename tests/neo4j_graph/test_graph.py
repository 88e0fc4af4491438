"""The graph on a server: as the embedded index has it."""

from pathlib import Path

import polars as pl
import pytest

from palimpsest.neo4j_graph.loader import residue
from palimpsest.neo4j_graph.neo4j_backend import Neo4jBackend
from palimpsest.neo4j_graph.published_graph import check_graph
from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.reader import Reader
from palimpsest.query.request.types import Scope
from palimpsest.query.scope.graph_reads import GraphScope
from tests.neo4j_graph.made import Made, fresh_home, made_of, shown, vectors
from tests.query.graphed import graph_tables

ANA, BEN = Scope("notes", "ana"), Scope("notes", "ben")
NODES = ["ana:Ida Moreau", "ana:Corvid", "ana:Ghent", "ana:city", "ana:Basin", "ben:Ida", "unknown"]
MEMORIES = ["m1", "m2", "m3", "m4", "m5", "m6", "unknown"]
TYPES = ("person", "place", "category")


def made(folder: Path, build_id: str, **tables: pl.DataFrame) -> Made:
    """Returns a build of `graph_tables`, some of them replaced; one fact has a predicate of the vocabulary."""
    known = pl.when(pl.col("predicate") == "lives in").then(pl.lit("lives_in")).otherwise("predicate")
    frames = graph_tables()
    frames |= {"facts": frames["facts"].with_columns(predicate=known)} | tables
    return made_of(folder, frames, build_id)


def everything(graph: GraphScope | None) -> list[object]:
    """Returns the answer of every read."""
    assert graph is not None
    vector = vectors(["5" * 32])[0]
    return [
        graph.nodes(NODES),
        graph.nodes([]),
        graph.nodes_named(["ida", "ida moreau", "cities", "nobody"]),
        graph.nodes_with_word(["moreau", "cities"]),
        *(graph.nodes_of_type(types, n) for types in ((), ("person",), TYPES) for n in (1, 20)),
        *(graph.nearest_nodes(vector, 3, types) for types in ((), TYPES, ("event",))),
        graph.node_cosines(vector, NODES),
        *(graph.edges_of(NODES, types) for types in ((), ("part_of",), ("precedes",))),
        *(graph.edges_of([i]) for i in NODES),
        *(graph.facts_of([i]) for i in NODES),
        graph.facts_of(NODES),
        *(graph.facts_of(NODES[n:], within=True) for n in range(len(NODES))),
        *(graph.edges_of(NODES[n:], within=True) for n in range(len(NODES))),
        *(graph.facts_of_memories([i]) for i in MEMORIES),
        graph.facts_of_memories(MEMORIES),
        {node: list(members.items()) for node, members in graph.members_of(NODES).items()},
        graph.nodes_of_memories(MEMORIES),
        *(graph.links_of(NODES, types) for types in ((), ("part_of",), ("works_for", "precedes"))),
        *(graph.links_of([i]) for i in NODES),
        *(graph.named_together(NODES, n, memories) for n, memories in ((1, 1), (8, 3))),
        graph.links_of([]),
        graph.named_together([], 8, 3),
    ]


def answers(reader: Reader) -> list[object]:
    """Returns what the commands of group `graph` show."""
    graph = reader.graph(ANA)
    found = [
        graph.relations("How does Ida relate to Ghent?"),
        graph.relations("What connects Ida with Bruges?"),
        graph.timeline("Where has Ida worked, and what changed?"),
        graph.node("Corvid"),
        graph.neighbors("Bruges", 2),
        graph.neighbors("Ida", 3, ["part_of"]),
        graph.subgraph(["m1", "m5"]),
    ]
    return [answer.to_json() for answer in found]


def test_both_backends_read_the_same_graph_and_answer_alike_and_people_see_typed_facts(graph, tmp_path):
    build, home = made(tmp_path, "000001"), fresh_home()
    build.load(home, graph)
    assert check_graph(graph, home) == []
    duck, neo = DuckDBBackend(build.index), Neo4jBackend(home, graph)
    for scope in (ANA, BEN):
        for expected, found in zip(everything(duck.graph(scope)), everything(neo.graph(scope)), strict=True):
            assert found == expected
    assert neo.graph(Scope("notes", "nobody")) is None
    expected, found = (answers(Reader(backend)) for backend in (duck, neo))
    assert found == expected and "Zorro" not in repr(found)
    lives = """
MATCH (a:PalimpsestEntity {home_id: $home})-[f:LIVES_IN]->(b:PalimpsestEntity)
RETURN a.name AS who, b.name AS place, f.valid_from.year AS year, f.is_latest AS latest ORDER BY who"""
    found = [tuple(r.values()) for r in graph.read(lives, home=home)]
    assert found == [("Ida", "Paris", None, True), ("Ida Moreau", "Ghent", 2026, True)]
    generic = "MATCH (:PalimpsestNode {home_id: $home})-[f:FACT]->(:PalimpsestNode) RETURN f.fact_id AS id ORDER BY id"
    assert [r["id"] for r in graph.read(generic, home=home)] == ["f1", "f2", "f3", "f4", "f6"]
    stated = """
MATCH (m:PalimpsestMemory {home_id: $home})-[f:STATES]->(n:PalimpsestNode) WHERE f.value IS NOT NULL
RETURN m.memory_id AS memory, n.name AS name, f.predicate AS predicate, f.value AS value"""
    assert [tuple(r.values()) for r in graph.read(stated, home=home)] == [("m5", "Ida Moreau", "is", "ill")]
    types = graph.read("CALL db.relationshipTypes() YIELD relationshipType AS t RETURN collect(t) AS t")[0]["t"]
    assert not {"WORKS AT", "HAS", "IS"} & set(types)  # words of documents make no types


def changed(tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Returns the tables of a build in which Ida matters more, and neither lives in Ghent nor Bruges in a city."""
    is_ida = pl.col("node_id") == "ana:Ida Moreau"
    importance = pl.when(is_ida).then(pl.lit(0.9)).otherwise("importance")
    description = pl.when(is_ida).then(pl.lit("An engineer at Corvid.")).otherwise("description")
    return {
        "nodes": tables["nodes"].with_columns(importance=importance, description=description),
        "facts": tables["facts"].filter(pl.col("fact_id") != "f1"),
        "edges": tables["edges"].filter(pl.col("source_id") != "ana:Bruges"),
    }


@pytest.mark.slow
def test_a_reader_goes_on_with_the_graph_of_the_build_that_it_opened(graph, tmp_path):
    home, first = fresh_home(), made(tmp_path, "000001")
    first.load(home, graph)
    before = Neo4jBackend(home, graph, cache_bytes=0)
    expected = everything(before.graph(ANA))
    second = made(tmp_path, "000002", **changed(first.tables))
    second.load(home, graph)
    assert everything(before.graph(ANA)) == expected
    after = before.renewed().graph(ANA)
    assert everything(after) == everything(DuckDBBackend(second.index).graph(ANA))
    first.load(home, graph)
    assert everything(before.renewed().graph(ANA)) == expected and check_graph(graph, home) == []


@pytest.mark.slow
def test_what_changes_with_every_memory_of_a_node_is_one_write_and_its_relationships_stay(graph, tmp_path):
    home, first = fresh_home(), made(tmp_path, "000001")
    first.load(home, graph)
    nodes = changed(first.tables)["nodes"]
    second = made(tmp_path, "000002", nodes=nodes)
    assert second.load(home, graph).writes == 1
    ida = "MATCH (n:PalimpsestEntity:PalimpsestNode {home_id: $home, name: 'Ida Moreau'}) RETURN n.importance AS i"
    assert [r["i"] for r in graph.read(ida, home=home)] == [0.9]
    other = fresh_home()
    second.load(other, graph)
    assert shown(graph, home) == shown(graph, other)


def test_a_delete_leaves_no_fact_node_or_edge_of_what_it_took(graph, tmp_path):
    home, first = fresh_home(), made(tmp_path, "000001", nodes=changed(graph_tables())["nodes"])
    first.load(home, graph)
    probes = ['"f4"', '"m4"', "Bruges", "An engineer"]
    assert {"Memory", "Node", "relationships"} <= set(residue(graph, home, probes))
    is_left = pl.col("memory_id") != "m4"
    of_others = ~pl.col("memory_ids").list.contains("m4")
    tables = {n: f.filter(is_left) if "memory_id" in f.columns else f for n, f in first.tables.items()}
    tables |= {n: tables[n].filter(of_others) for n in ("facts", "edges")}
    tables["nodes"] = graph_tables()["nodes"].filter(pl.col("name") != "Bruges")
    tables["entities"] = tables["entities"].filter(pl.col("name") != "Bruges")
    tables["documents"] = tables["documents"].filter(pl.col("document_id") != "d-m4")
    made(tmp_path, "000002", **tables).load(home, graph, keep_previous=False)
    assert residue(graph, home, probes) == [] and check_graph(graph, home) == []


def test_entities_and_topics_that_an_earlier_version_loaded_are_nodes_after_the_next_load(graph, tmp_path):
    home, build = fresh_home(), made(tmp_path, "000001")
    build.load(home, graph)
    expected = shown(graph, home)
    for kind, key in (("Entity", "entity_id"), ("Topic", "topic_id")):
        graph.write(
            f"MATCH (n:PalimpsestNodeRow {{home_id: $home}}) WHERE n.{key} IS NOT NULL "
            f"SET n:Palimpsest{kind}Row, n.key = n.key - 1 REMOVE n:PalimpsestNodeRow:PalimpsestNode, n.node_id",
            home=home,
        )
    graph.write("MATCH (b:PalimpsestBuild {home_id: $home}) SET b.digest = 'former', b.format = 3", home=home)
    build.load(home, graph)
    assert shown(graph, home) == expected and check_graph(graph, home) == []
    former = "MATCH (n:PalimpsestEntityRow|PalimpsestTopicRow {home_id: $home}) RETURN count(n) AS n"
    assert graph.read(former, home=home)[0]["n"] == 0
