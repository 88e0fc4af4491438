"""Cypher that counts and checks. One statement over all kinds: planning many takes longer than counting."""

from palimpsest.core.memory_units import REFLECTION
from palimpsest.neo4j_graph.model import CLOSED, CURRENT, EDGES, KEYS, NODE_LABELS, current_label, row_label

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
