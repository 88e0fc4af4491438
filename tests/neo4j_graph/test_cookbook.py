"""Each query of docs/neo4j.md runs on a loaded server and finds what the page states."""

import datetime as dt
import re
from pathlib import Path

import polars as pl

from palimpsest.index.write_index import write_index
from palimpsest.store.tables import conform
from tests.neo4j_graph.made import Made, fresh_home, make, memory_id, vectors

PAGE = Path(__file__).parents[2] / "docs" / "neo4j.md"
BLOCK = re.compile(r"^(<!-- finds nothing -->\n\n)?```cypher\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SCOPE = {"collection": "made", "user_id": "ann", "project_id": ""}


def with_topics(folder: Path) -> Made:
    """Returns a build that has rows of everything that the page queries."""
    made = make(folder, "000001", count=30, edited=(4, 6))
    topics = pl.DataFrame([{"topic_id": f"t{i}", **SCOPE, "label": f"topic {i}"} for i in range(2)])
    topic = {"topic_id": "t0", **SCOPE, "relevance": 0.5}
    topic_memories = pl.DataFrame([{"memory_id": memory_id(2 * i), **topic} for i in (0, 1)])
    edges = {**SCOPE, "source_id": "t0", "target_id": "t1", "type": "subtopic_of", "weight": 1.0}
    mentions, entities = made.tables["mentions"], made.tables["entities"]
    second = mentions.filter(memory_id=memory_id(0)).with_columns(entity_id=pl.lit("ann1"))
    about = {"importance": 0.5, "memory_count": 2, "description": "What the notes are about."}
    nodes = [
        *entities.filter(user_id="ann").select("name", "type", "aliases", *SCOPE, node_id="entity_id").to_dicts(),
        *({"node_id": f"t{i}", "name": f"topic {i}", "type": "topic", **SCOPE} for i in range(2)),
        {"node_id": "p0", "name": "Harbor", "type": "project", **SCOPE},
    ]
    stated = {**SCOPE, "subject_id": "ann0", "is_latest": True, "is_negated": False, "modality": "stated"}
    since = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    facts = [
        {"fact_id": "f0", "predicate": "leads", "object_id": "ann1", "memory_ids": [memory_id(0)], **stated},
        {"fact_id": "f1", "predicate": "costs", "value": "40 euros", "memory_ids": [memory_id(1)], **stated},
    ]
    pair = {**SCOPE, "labeler": "offline", "confidence": 0.6, "likelihood": 0.5}
    relations = [
        pair | {"relation_id": "r0", "newer_id": memory_id(2), "older_id": memory_id(0), "label": "NONE"},
        pair | {"relation_id": "r1", "newer_id": memory_id(10), "older_id": memory_id(8), "label": "UPDATE"},
    ]
    consequences = [{"consequence": "disputed"}, {"consequence": "superseded", "part": "[[0, 6]]"}]
    relations = [r | c for r, c in zip(relations, consequences, strict=True)]
    node_memories = pl.DataFrame([{"node_id": "p0", "memory_id": memory_id(0), **SCOPE, "relevance": 1.0}])
    tables = made.tables | {
        "topics": conform("topics", topics),
        "topic_memories": conform("topic_memories", topic_memories),
        "mentions": pl.concat([mentions, second]),
        "relations": pl.concat(
            [made.tables["relations"], conform("relations", pl.DataFrame(relations, infer_schema_length=None))]
        ),
        "nodes": conform("nodes", pl.DataFrame([node | about for node in nodes], infer_schema_length=None)),
        "node_memories": conform("node_memories", node_memories),
        "edges": conform("edges", pl.DataFrame([edges])),
        "facts": conform("facts", pl.DataFrame([f | {"valid_from": since} for f in facts], infer_schema_length=None)),
    }
    index = folder / "topics.duckdb"
    write_index(tables, vectors, index, {"build_id": "000001", "collections": {"made": {}}})
    return Made(tables, index, "000001")


def test_every_recipe_runs_and_finds_rows_where_it_says_so(graph, tmp_path):
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
        "other": "Entity 1",
        "type": "project",
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
