"""Properties of the graph's rows, without a server."""

from pathlib import Path

import polars as pl

from palimpsest.neo4j_graph.graph_vectors import GraphVectors
from palimpsest.neo4j_graph.rows.graph_rows import graph_rows
from tests.neo4j_graph.made import MODEL, make, vectors


def test_memories_have_their_trust_and_relations_their_conflict(tmp_path: Path) -> None:
    made = make(tmp_path, "000001", count=4, edited=(1, 2))
    tables = made.tables | {
        "memories": made.tables["memories"].with_columns(trust=pl.lit(0.2)),
        "relations": made.tables["relations"].with_columns(
            conflict=pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("dynamic"))
        ),
    }
    rows = graph_rows(tables, GraphVectors(vectors, MODEL), made.index)
    assert set(rows.nodes["Memory"]["trust"]) == {0.2}
    assert sorted(rows.edges["Memory-UPDATES-Memory"]["conflict"], key=str) == [None, "dynamic"]
