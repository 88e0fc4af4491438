"""Invariant 5: the DuckDB file that readers see contains just what the tables contain."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from palimpsest.core.errors import first_line_of
from palimpsest.core.files import FORMAT
from palimpsest.core.ids import SCOPE
from palimpsest.index.graph_tables import linking_relations
from palimpsest.memories.recency import turn_order
from palimpsest_eval.gate.invariants import Tables, Violation, report

_NAME = "index"
_FORMAT = "SELECT value FROM meta WHERE key = 'format'"

_MEMORIES = """
SELECT m.memory_id, s.collection, s.user_id, s.project_id, m.document_id, m.uri, m.text, m.is_latest, m.superseded_by
FROM memories m JOIN scopes s ON m.row >= s.first_row AND m.row < s.first_row + s.size"""
_VECTOR_TABLES = "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'vectors%' ORDER BY table_name"
_VECTORS = "SELECT m.memory_id, count(*) FROM ({union}) v JOIN memories m ON m.row = v.row GROUP BY ALL"
_LINKS = """
SELECT l.relation_id, n.memory_id, o.memory_id, l.label
FROM links l JOIN memories n ON n.row = l.newer_row JOIN memories o ON o.row = l.older_row"""
_CROSSING = """
SELECT l.relation_id FROM links l JOIN scopes s ON s.scope = l.scope
WHERE NOT (l.newer_row BETWEEN s.first_row AND s.first_row + s.size - 1)
   OR NOT (l.older_row BETWEEN s.first_row AND s.first_row + s.size - 1)"""
_ENTITIES = """
SELECT e.entity_id, s.collection, s.user_id, s.project_id
FROM entities e JOIN scopes s ON s.scope = e.scope"""
_MENTIONS = """
SELECT m.memory_id, e.entity_id FROM mentions x
JOIN memories m ON m.row = x.row JOIN entities e ON e.entity = x.entity"""
_NODES = """
SELECT n.node_id, n.type, n.name, s.collection, s.user_id, s.project_id
FROM nodes n JOIN scopes s ON s.scope = n.scope"""
_EDGES = """
SELECT a.node_id, b.node_id, e.type FROM edges e
JOIN nodes a ON a.node = e.source AND a.scope = e.scope JOIN nodes b ON b.node = e.target AND b.scope = e.scope"""
_FACTS = """
SELECT f.fact_id, a.node_id, b.node_id, s.collection, s.user_id, s.project_id, len(f.rows)
FROM facts f JOIN scopes s ON s.scope = f.scope
JOIN nodes a ON a.node = f.subject AND a.scope = f.scope LEFT JOIN nodes b ON b.node = f.object AND b.scope = f.scope"""
_NODE_MEMORIES = """
SELECT n.node_id, m.memory_id FROM node_members x JOIN nodes n ON n.node = x.node
JOIN memories m ON m.row = x.row JOIN scopes s ON s.scope = n.scope AND m.row BETWEEN s.first_row
AND s.first_row + s.size - 1"""
_SENTENCES = """
SELECT m.memory_id, len(s.counts), coalesce(octet_length(s.vectors), 0) > 0
FROM sentences s JOIN memories m ON m.row = s.row WHERE len(s.counts) > 0"""
_FOLLOWING = """
SELECT m.memory_id, n.memory_id FROM following f
JOIN memories m ON m.row = f.row JOIN memories n ON n.row = f.next_row"""
# The postings of a scope are adjacent, so one range of them covers all its terms.
_POSTINGS = """
WITH ranges AS (SELECT scope, min(first) AS low, max(first + df) - 1 AS high FROM terms GROUP BY scope)
SELECT DISTINCT concat_ws('/', s.collection, s.user_id, nullif(s.project_id, ''))
FROM postings p JOIN ranges h ON p.rowid BETWEEN h.low AND h.high JOIN scopes s ON s.scope = h.scope
WHERE NOT (p.row BETWEEN s.first_row AND s.first_row + s.size - 1)"""
_UNMATCHED_TERMS = "SELECT 'postings' WHERE (SELECT count(*) FROM postings) <> (SELECT coalesce(sum(df), 0) FROM terms)"


def check_index(tables: Tables, path: Path) -> list[Violation]:
    """5: the index opens, and its memories, versions, vectors, relations, entities and nodes equal the tables."""
    import duckdb

    try:
        with duckdb.connect(str(path), read_only=True) as db:
            (found,) = db.execute(_FORMAT).fetchall() or [("none",)]
            if found[0] != str(FORMAT):
                message = f"format {found[0]}, readers of this version take {FORMAT}: run palimpsest build"
                return report(5, _NAME, message, [path.name])
            return _check(tables, lambda sql: db.execute(sql).fetchall())
    except (duckdb.Error, OSError) as e:
        return report(5, _NAME, f"{path.name} cannot be read ({first_line_of(e)})", [path.name])


def _check(tables: Tables, read: Any) -> list[Violation]:
    versions = tables["versions"].select("memory_id", "is_latest", "superseded_by")
    memories = (
        tables["memories"]
        .join(tables["documents"].select("document_id", "uri"), on="document_id", how="left")
        .join(versions, on="memory_id", how="left")
        .with_columns(pl.col("is_latest").fill_null(True))
    )
    relations = linking_relations(tables["relations"], tables["memories"])
    contexts = (
        tables["context_inputs"]
        .filter(pl.col("kind") == "sentence")
        .group_by("memory_id")
        .agg(pl.len(), pl.col("text_hash").is_not_null().any())
    )
    # Of each space one: `vectors`, `vectors_1` ...
    union = " UNION ALL ".join(f'SELECT row FROM "{name}"' for (name,) in read(_VECTOR_TABLES))
    expected: list[tuple[str, str, Iterable[tuple[Any, ...]]]] = [
        (
            "memories",
            _MEMORIES,
            memories.select(
                "memory_id", *SCOPE, "document_id", "uri", "text", "is_latest", "superseded_by"
            ).iter_rows(),
        ),
        ("vectors", _VECTORS.format(union=union), Counter(tables["embed_inputs"]["memory_id"]).items()),
        ("relations", _LINKS, relations.select("relation_id", "newer_id", "older_id", "label").iter_rows()),
        ("entities", _ENTITIES, tables["entities"].select("entity_id", *SCOPE).iter_rows()),
        ("mentions", _MENTIONS, tables["mentions"].select("memory_id", "entity_id").unique().iter_rows()),
        ("sentences", _SENTENCES, contexts.iter_rows()),
        ("turns", _FOLLOWING, turn_order(tables["memories"], tables["documents"]).iter_rows()),
        *_expected_graph(tables),
    ]
    found: list[Violation] = []
    for name, sql, rows in expected:
        want, have = Counter(rows), Counter(read(sql))
        missing, extra = (want - have).elements(), (have - want).elements()
        found += report(5, _NAME, f"{name}: {{n}} rows are not in the index, or differ there", (r[0] for r in missing))
        found += report(5, _NAME, f"{name}: {{n}} rows of the index are not in the tables", (r[0] for r in extra))
    queries = (
        (3, "relations: {n} of the index cross a scope", _CROSSING),
        (3, "words: the postings of {n} scopes reach into another", _POSTINGS),
        (5, "words: postings without a term, or terms without postings", _UNMATCHED_TERMS),
    )
    return found + [
        v for number, message, sql in queries for v in report(number, _NAME, message, (r[0] for r in read(sql)))
    ]


def _expected_graph(tables: Tables) -> list[tuple[str, str, Iterable[tuple[Any, ...]]]]:
    """Returns the rows of nodes, edges, facts and members of nodes as `_check` expects them."""
    nodes, facts = tables["nodes"], tables["facts"]
    members = [
        tables["mentions"].select("memory_id", node_id="entity_id"),
        tables["topic_memories"].select("memory_id", node_id="topic_id"),
        tables["node_memories"].select("memory_id", "node_id"),
    ]
    of_nodes = pl.concat(members).unique().join(nodes.select("node_id"), on="node_id")
    stated = facts.select("fact_id", "subject_id", "object_id", *SCOPE, pl.col("memory_ids").list.len())
    return [
        ("nodes", _NODES, nodes.select("node_id", "type", "name", *SCOPE).iter_rows()),
        ("edges", _EDGES, tables["edges"].select("source_id", "target_id", "type").iter_rows()),
        ("facts", _FACTS, stated.iter_rows()),
        ("nodes' memories", _NODE_MEMORIES, of_nodes.select("node_id", "memory_id").iter_rows()),
    ]
