"""Cypher of the schema: every index (range, full text, vector) and constraint by name; and server capabilities."""

from palimpsest.core.memory_types import REFLECTION
from palimpsest.neo4j_graph.model import (
    CLOSED,
    CURRENT,
    DIMENSIONS,
    EDGES,
    KEYS,
    NODE_LABELS,
    TYPES,
    VectorSpace,
    current_label,
    row_label,
)

SET_PASSWORD = "ALTER CURRENT USER SET PASSWORD FROM $old TO $new"  # noqa: S105
COMPONENTS = "CALL dbms.components() YIELD name, versions, edition RETURN name, versions, edition"
PROBE_CYPHER_25 = "CYPHER 25 RETURN toFloatList([1.0]) AS list"
PROBE_SEARCH = """
CYPHER 25 EXPLAIN MATCH (m:PalimpsestProbe)
SEARCH m IN (VECTOR INDEX palimpsest_probe FOR $vector
  WHERE m.user_id = $user AND m.is_latest = true LIMIT 1) SCORE AS score
RETURN score"""


def _vector_options(dimensions: int) -> str:
    return f"""
OPTIONS {{indexConfig: {{`vector.dimensions`: {dimensions:d}, `vector.similarity_function`: 'cosine'}}}}"""


PROBE_INDEX = f"""
CYPHER 25 CREATE VECTOR INDEX palimpsest_probe IF NOT EXISTS FOR (m:PalimpsestProbe) ON m.embedding
WITH [m.user_id, m.is_latest]{_vector_options(DIMENSIONS)}"""
MIGRATIONS_APPLIED = "MATCH (m:PalimpsestMigration) RETURN m.number AS number ORDER BY number"
RECORD_MIGRATION = """
MERGE (m:PalimpsestMigration {number: $number}) ON CREATE SET m.name = $name, m.applied_at = datetime()"""
CREATE_MIGRATION_KEY = """
CREATE CONSTRAINT palimpsest_migration IF NOT EXISTS FOR (m:PalimpsestMigration) REQUIRE m.number IS UNIQUE"""

KEY_CONSTRAINTS = {
    f"palimpsest_{kind.lower()}_key": f"FOR (n:{label}) REQUIRE ({keys}) IS UNIQUE"
    for kind, label, keys in (
        *((kind, row_label(kind), f"n.home_id, n.{key}, n.since") for kind, key in KEYS.items()),
        ("Home", "PalimpsestHome", "n.home_id"),
        ("Build", "PalimpsestBuild", "n.home_id, n.number"),
        ("Load", "PalimpsestLoad", "n.home_id"),
        ("LoadLock", "PalimpsestLoadLock", "n.home_id"),
    )
}
"""Constraints by name; each brings an index of the same name. The same for the range and full-text indexes below."""

RANGE_INDEXES = {
    "palimpsest_memory_scope": "FOR (n:PalimpsestMemoryRow) "
    "ON (n.home_id, n.collection, n.user_id, n.project_id, n.is_latest)",
    "palimpsest_node_scope": "FOR (n:PalimpsestNodeRow) ON (n.home_id, n.collection, n.user_id, n.project_id)",
    "palimpsest_memory_id": "FOR (n:PalimpsestMemory) ON (n.memory_id)",
    "palimpsest_entity_name": "FOR (n:PalimpsestEntity) ON (n.name)",
    "palimpsest_node_type": "FOR (n:PalimpsestNode) ON (n.type, n.importance)",
    "palimpsest_node_importance": "FOR (n:PalimpsestNode) ON (n.importance)",
    "palimpsest_document_uri": "FOR (n:PalimpsestDocument) ON (n.uri)",
    **{f"palimpsest_{t.lower()}_closed": f"FOR ()-[r:{t}]-() ON (r.home_id, r.until)" for t in (*TYPES, CLOSED)},
}
_EVENTUALLY = "OPTIONS {indexConfig: {`fulltext.eventually_consistent`: true}}"
FULL_TEXT_INDEXES = {
    "palimpsest_memory_text": f"FOR (n:PalimpsestMemory) ON EACH [n.text, n.title] {_EVENTUALLY}",
    "palimpsest_node_text": f"FOR (n:PalimpsestNode) ON EACH [n.name, n.aliases, n.description] {_EVENTUALLY}",
}
UNUSED_INDEXES = ("palimpsest_window_memory", "palimpsest_names")
UNUSED_KEYS = ("palimpsest_entity_key", "palimpsest_topic_key")
"""Indexes and constraints of earlier versions that no statement uses."""

CREATE_KEYS = tuple(f"CREATE CONSTRAINT {name} IF NOT EXISTS {what}" for name, what in KEY_CONSTRAINTS.items())
CREATE_RANGES = tuple(f"CREATE INDEX {name} IF NOT EXISTS {what}" for name, what in RANGE_INDEXES.items())
CREATE_FULL_TEXT = tuple(
    f"CREATE FULLTEXT INDEX {name} IF NOT EXISTS {what}" for name, what in FULL_TEXT_INDEXES.items()
)
DROP_UNUSED = (
    *(f"DROP CONSTRAINT {name} IF EXISTS" for name in UNUSED_KEYS),
    *(f"DROP INDEX {name} IF EXISTS" for name in UNUSED_INDEXES),
)

INDEX_STATES = """
SHOW INDEXES YIELD name, type, state, labelsOrTypes, properties, options
RETURN name, type, state, labelsOrTypes, properties, options"""


def create_vector_index(space: VectorSpace) -> str:
    """Returns the DDL of a vector index."""
    options = _vector_options(space.dimensions)
    return f"""
CYPHER 25 CREATE VECTOR INDEX {space.index} IF NOT EXISTS FOR (n:{space.label}) ON n.embedding
WITH [n.home_id, n.collection, n.user_id, n.project_id, n.is_latest, n.since, n.until]{options}"""


def drop_index(name: str) -> str:
    """Returns the DDL that drops an index of this project; the name comes from the server's own list."""
    return f"DROP INDEX {name} IF EXISTS"


# Cypher that counts and checks. One statement over all kinds: planning many takes longer than counting.

COUNT_NODES = "\nUNION ALL\n".join(
    f"MATCH (n:{row_label(kind)} {{home_id: $home}}) "
    f"WHERE n.{key} IS NOT NULL AND n.since <= $number AND n.until > $number RETURN '{kind}' AS name, count(*) AS n"
    for kind, key in KEYS.items()
)
_VISIBLE = """a.since <= $number AND a.until > $number AND b.since <= $number AND b.until > $number
  AND r.since <= $number AND (r.until IS NULL OR r.until > $number)"""


def _aggregate_edges(aggregate: str) -> str:
    return "\nUNION ALL\n".join(
        f"""MATCH (a:{row_label(source)} {{home_id: $home}})-[r]->(b) WHERE a.{KEYS[source]} IS NOT NULL
  AND NOT r:{CLOSED} AND {_VISIBLE}
WITH type(r) AS type, labels(b) AS ends, {aggregate} AS n RETURN '{source}' AS source, type, ends, n"""
        for source in sorted({e.source for e in EDGES.values()})
    )


COUNT_EDGES = _aggregate_edges("count(*)")
COUNT_CROSSING_EDGES = _aggregate_edges("""sum(
  CASE WHEN a.home_id <> b.home_id OR a.collection <> b.collection OR a.user_id <> b.user_id
    OR a.project_id <> b.project_id THEN 1 ELSE 0 END)""")
COUNT_CURRENT = "\nUNION ALL\n".join(
    f"MATCH (n:{current_label(kind)} {{home_id: $home}}) RETURN '{kind}' AS name, count(*) AS n" for kind in CURRENT
)
COUNT_MISLABELED = "\nUNION ALL\n".join(
    f"MATCH (n:{current_label('Node')} {{home_id: $home}}) WHERE (n.{key} IS NOT NULL) <> (n:{label}) "
    f"RETURN '{label}' AS label, count(*) AS n"
    for key, label in NODE_LABELS.items()
)
COUNT_STALE = f"""
MATCH (n:{"|".join(map(current_label, CURRENT))} {{home_id: $home}})-[r]->(o) WHERE type(r) <> '{CLOSED}'
  AND (r.until <= $number OR r.since > $number OR o.until <= $number OR o.since > $number)
RETURN count(*) AS n"""
# What was in a source that is gone is neither, and so is what was formed of it: nothing took its place.
CHAINS_WITHOUT_ONE_LATEST = f"""
MATCH (newest:PalimpsestMemoryRow {{home_id: $home}}) WHERE newest.memory_id IS NOT NULL
  AND newest.since <= $number AND newest.until > $number AND NOT newest.is_latest
  AND newest.superseded_by IS NULL AND newest.unit <> '{REFLECTION}'
  AND EXISTS {{ (newest)-[:FROM]->(:PalimpsestDocumentRow)<-[:REVISION_OF]-(v:PalimpsestRevisionRow)
    WHERE v.is_current AND v.since <= $number AND v.until > $number AND newest.memory_id IN v.memory_ids }}
RETURN newest.memory_id AS id ORDER BY id LIMIT 5"""
RETIRED_AND_LATEST = """
MATCH (newer:PalimpsestMemoryRow {home_id: $home})-[r:SUPERSEDES]->(older:PalimpsestMemoryRow)
WHERE newer.memory_id IS NOT NULL AND newer.since <= $number AND newer.until > $number
  AND older.since <= $number AND older.until > $number
  AND r.since <= $number AND (r.until IS NULL OR r.until > $number) AND older.is_latest
RETURN older.memory_id AS id ORDER BY id LIMIT 5"""
