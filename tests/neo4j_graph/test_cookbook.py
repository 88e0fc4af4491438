"""Each query of docs/neo4j.md runs on a loaded server and finds what the page states."""

import datetime as dt
import re
from pathlib import Path

import polars as pl

from palimpsest.index.write_index import write_index
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.store.tables import conform
from tests.neo4j_graph.made import Made, fresh_home, make, memory_id, vectors

PAGE = Path(__file__).parents[2] / "docs" / "neo4j.md"
BLOCK = re.compile(r"^```cypher( none)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SCOPE = {"collection": "made", "user_id": "ann", "project_id": ""}


def with_topics(folder: Path) -> Made:
    """Returns a build that has rows of everything that the page queries."""
    made = make(folder, "000001", count=30, edited=(4, 6))
    topics = pl.DataFrame([{"topic_id": f"t{i}", **SCOPE, "label": f"topic {i}"} for i in range(2)])
    topic = {"topic_id": "t0", **SCOPE, "relevance": 0.5}
    topic_memories = pl.DataFrame([{"memory_id": memory_id(2 * i), **topic} for i in (0, 1)])
    edges = pl.DataFrame([{"source_id": "t0", "target_id": "t1", **SCOPE, "kind": "subtopic_of", "weight": 1.0}])
    mentions = made.tables["mentions"]
    second = mentions.filter(memory_id=memory_id(0)).with_columns(entity_id=pl.lit("ann1"))
    tables = made.tables | {
        "topics": conform("topics", topics),
        "topic_memories": conform("topic_memories", topic_memories),
        "topic_edges": conform("topic_edges", edges),
        "mentions": pl.concat([mentions, second]),
    }
    index = folder / "topics.duckdb"
    write_index(tables, vectors, index, {"build_id": "000001", "collections": {"made": {}}})
    return Made(tables, index, "000001")


def test_every_recipe_runs_and_finds_rows_where_it_says_so(graph: Connection, tmp_path: Path) -> None:
    made, home = with_topics(tmp_path), fresh_home()
    made.load(home, graph)
    graph.read("CALL db.index.fulltext.awaitEventuallyConsistentIndexRefresh()")
    parameters = {
        "user": "ann",
        "memory": memory_id(0),
        "superseded": memory_id(4),
        "name": "Entity 0",
        "topic": "topic 0",
        "uri": "turns.jsonl",
        "words": "note",
        "day": dt.datetime(2026, 2, 1, tzinfo=dt.UTC),
        "home": home,
        "collection": "made",
        "project": "",
        "vector": vectors(["1" * 32])[0].tolist(),
    }
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= 12
    for none, recipe in blocks:
        found = graph.read(recipe, **parameters)
        assert bool(found) != bool(none), recipe
