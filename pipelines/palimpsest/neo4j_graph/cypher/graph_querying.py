"""Cypher that reads the graph of a scope: nodes, edges between them, facts, and the memories of nodes.

A relationship that was closed since is of type `PALIMPSEST_CLOSED` for readers of the build before, and `was` of the
type it had; where a load is running there are both, so that a row may come twice.
"""

from palimpsest.neo4j_graph.cypher.querying import INSIDE, LIVE, SCOPE, with_kept
from palimpsest.neo4j_graph.model import CLOSED, DETAILS, NODE_EDGES

_VISIBLE = "{0}.since <= $number AND {0}.until > $number"
_TYPE = "coalesce(r.was, type(r))"
_KNOWN = f"{_VISIBLE} AND {INSIDE}"
_NODES = f"MATCH (n:PalimpsestNodeRow {SCOPE}) WHERE {_VISIBLE.format('n')}"
_WANTED = f"""
UNWIND $ids AS wanted
MATCH (n:PalimpsestNodeRow {{home_id: $home, node_id: wanted}}) WHERE {_KNOWN.format("n")}"""
_OF_MEMORY = f"""
UNWIND $ids AS wanted
MATCH (m:PalimpsestMemoryRow {{home_id: $home, memory_id: wanted}}) WHERE {_KNOWN.format("m")}"""
_IS_OLD = "coalesce(n.changed_in, n.since) <= $number"
_FACT = """r {.fact_id, .predicate, .value, .is_negated, .modality, .valid_from, .valid_until, .is_latest, .memory_ids,
  .confidence}"""


def _detail(name: str) -> str:
    return f"CASE WHEN {_IS_OLD} THEN n.{name} ELSE n.was_{name} END"


NODES = f"""{_WANTED}
WITH n {{.node_id, .type, .name, .aliases, {", ".join(f"{d}: {_detail(d)}" for d in DETAILS if d != "vector")}}} AS node
{with_kept("node")}"""
NAMED = f"""{_NODES} AND any(name IN n.names WHERE name IN $names)
UNWIND [name IN n.names WHERE name IN $names] AS name
WITH [name, n.node_id] AS both ORDER BY both
{with_kept("both")}"""
WITH_WORD = NAMED.replace("n.names", "n.words")
OF_TYPE = f"""{_NODES} AND (size($types) = 0 OR n.type IN $types)
WITH n.node_id AS id, coalesce({_detail("importance")}, 0.0) AS importance ORDER BY importance DESC, id LIMIT $n
{with_kept("id")}"""
VECTORS = f"""{_NODES}
WITH n.node_id AS id, n.type AS type, {_detail("vector")} AS vector WHERE vector IS NOT NULL
RETURN id, type, vector ORDER BY id"""
_EDGES = f"""{_WANTED}
MATCH (n)-[r:{"|".join((*NODE_EDGES, CLOSED))}]-(o:PalimpsestNodeRow)
WHERE {_TYPE} IN $types AND {LIVE.format("r")} AND {_KNOWN.format("o")}"""
EDGES_OF = f"""{_EDGES} AND (NOT $within OR o.node_id IN $ids)
WITH DISTINCT {{source_id: startNode(r).node_id, target_id: endNode(r).node_id, type: {_TYPE}, weight: r.weight,
  provenance: r.provenance, memory_ids: r.memory_ids, created_at: r.created_at, updated_at: r.updated_at}} AS edge
{with_kept("edge")}"""
FACTS_OF = f"""{_WANTED}
CALL (n) {{
  MATCH (n)<-[r:STATES|{CLOSED}]-(m:PalimpsestMemoryRow)
  WHERE {_TYPE} = 'STATES' AND {LIVE.format("r")} AND {_KNOWN.format("m")}
    AND (NOT $within OR r.object_id IS NULL OR r.object_id IN $ids)
  RETURN {_FACT} AS fact, n.node_id AS subject, r.object_id AS object
  UNION
  MATCH (n)<-[r:FACT|{CLOSED}]-(s:PalimpsestNodeRow)
  WHERE {_TYPE} = 'FACT' AND {LIVE.format("r")} AND {_KNOWN.format("s")} AND (NOT $within OR s.node_id IN $ids)
  RETURN {_FACT} AS fact, s.node_id AS subject, n.node_id AS object
}}
WITH DISTINCT fact, subject, object
{with_kept("[fact, subject, object]")}"""
FACTS_OF_MEMORIES = f"""{_OF_MEMORY}
MATCH (m)-[r:STATES|{CLOSED}]->(s:PalimpsestNodeRow)
WHERE {_TYPE} = 'STATES' AND {LIVE.format("r")} AND {_KNOWN.format("s")}
WITH DISTINCT {_FACT} AS fact, s.node_id AS subject, r.object_id AS object
{with_kept("[fact, subject, object]")}"""
_MEMBERSHIP = f"""{_TYPE} IN ['MENTIONS', 'ABOUT'] AND {LIVE.format("r")}"""
_MEMBERS = f"""{_WANTED}
MATCH (n)<-[r:MENTIONS|ABOUT|{CLOSED}]-(m:PalimpsestMemoryRow) WHERE {_MEMBERSHIP} AND {_KNOWN.format("m")}"""
MEMBERS_OF = f"""{_MEMBERS}
WITH n.node_id AS node, m.memory_id AS memory, max(coalesce(r.relevance, 1.0)) AS relevance ORDER BY node, memory
{with_kept("[node, memory, relevance]")}"""
NODES_OF_MEMORIES = f"""{_OF_MEMORY}
MATCH (m)-[r:MENTIONS|ABOUT|{CLOSED}]->(n:PalimpsestNodeRow) WHERE {_MEMBERSHIP} AND {_KNOWN.format("n")}
WITH DISTINCT m.memory_id AS memory, n.node_id AS node ORDER BY memory, node
{with_kept("[memory, node]")}"""
EDGE_ENDS = f"""{_EDGES}
WITH DISTINCT startNode(r).node_id AS source, endNode(r).node_id AS target, {_TYPE} AS type
ORDER BY source, target, type
{with_kept("[source, target]")}"""
FACT_ENDS = f"""{_WANTED}
MATCH (n)-[r:FACT|{CLOSED}]-(o:PalimpsestNodeRow)
WHERE {_TYPE} = 'FACT' AND {LIVE.format("r")} AND {_KNOWN.format("o")}
  AND (size($predicates) = 0 OR r.predicate IN $predicates)
WITH DISTINCT r.fact_id AS fact, startNode(r).node_id AS subject, endNode(r).node_id AS object ORDER BY fact
{with_kept("[subject, object]")}"""
NAMED_TOGETHER = f"""{_MEMBERS}
WITH n, collect(DISTINCT m) AS mine
UNWIND mine AS m
MATCH (m)-[r:MENTIONS|ABOUT|{CLOSED}]->(o:PalimpsestNodeRow) WHERE {_MEMBERSHIP} AND {_KNOWN.format("o")} AND o <> n
WITH n, size(mine) AS size, o, collect(DISTINCT m.memory_id) AS shared
ORDER BY n.node_id, size(shared) DESC, o.node_id
WITH n.node_id AS node, size, collect([o.node_id, shared])[..$n] AS best
UNWIND best AS pair
WITH node, pair[0] AS other, toFloat(size(pair[1])) / size AS share,
  COLLECT {{ UNWIND pair[1] AS id RETURN id ORDER BY id LIMIT $memories }} AS cited
{with_kept("[node, other, share, cited]")}"""
