"""Cypher of queries: each reads one scope of one load number, and returns whether that number is still kept."""

from palimpsest.neo4j_graph.model import CLOSED, DETAILS, NODE_EDGES, VectorSpace
from palimpsest.query.request.types import MEMORY_TIMES, STORED_FIELDS

_VISIBLE = "m.since <= $number AND m.until > $number"
SCOPE = "{home_id: $home, collection: $collection, user_id: $user, project_id: $project}"
INSIDE = "{0}.collection = $collection AND {0}.user_id = $user AND {0}.project_id = $project"


# Numbers start again in a home that was erased, or on a new server: `begun` is another one then.
_KEPT = "h.oldest <= $number AND coalesce(h.begun, '') = $begun"


def with_kept(found: str) -> str:
    """Ends a read: collecting is a barrier, so that the number is looked up only after everything was read."""
    return f"""WITH collect({found}) AS found
OPTIONAL MATCH (h:PalimpsestHome {{home_id: $home}}) RETURN found, coalesce({_KEPT}, false) AS kept"""


SERVED = """
MATCH (h:PalimpsestHome {home_id: $home}) WHERE h.published > 0
MATCH (b:PalimpsestBuild {home_id: $home, number: h.published})
RETURN b.number AS number, b.build_id AS build_id, b.collections AS collections, b.scopes AS scopes,
  b.vector_index AS vector_index, b.format AS format, coalesce(h.begun, '') AS begun"""
SHOWN_LOAD = """
MATCH (h:PalimpsestHome {home_id: $home}) WHERE h.published > 0
RETURN h.published AS number, coalesce(h.begun, '') AS begun"""
STILL_KEPT = f"MATCH (h:PalimpsestHome {{home_id: $home}}) RETURN {_KEPT} AS kept"
SCOPE_STATS = """
MATCH (s:PalimpsestScopeStatsRow {home_id: $home, scope_id: $scope_id}) WHERE s.since <= $number AND s.until > $number
RETURN s.data AS data, s.buckets AS buckets"""
POSTINGS = """
MATCH (p:PalimpsestPostingsRow {home_id: $home})
WHERE p.postings_id IN $ids AND p.since <= $number AND p.until > $number
""" + with_kept("p.data")
BLOCKS = """
MATCH (b:PalimpsestVectorBlockRow {home_id: $home})
WHERE b.block_id IN $ids AND b.since <= $number AND b.until > $number
RETURN b.block_id AS id, b.data AS data"""
_ARRAYS = """
MATCH (a:PalimpsestScopeArraysRow {home_id: $home})
WHERE a.arrays_id IN $ids AND a.since <= $number AND a.until > $number
"""
PART = _ARRAYS + "RETURN a.data AS data"
SENTENCES = _ARRAYS + with_kept("[a.arrays_id, a.data]")
OWN_CLOCK = "m.observed_at + duration({minutes: coalesce(m.utc_offset, 0)})"
"""When a memory was observed by its speaker's own clock, as if that were UTC."""
CONDITIONS = {
    "session": "m.session_id = $session",
    "types": "m.type IN $types",
    "tags": "any(tag IN m.tags WHERE tag IN $tags)",
    "since": "{observed_at} >= $observed_since",
    "until": "{observed_at} <= $observed_until",
    # A memory that was retired on an unknown day is left out, and one without a date before the home knew it.
    "as_of": "(coalesce(m.valid_from, m.known_from) IS NULL OR coalesce(m.valid_from, m.known_from) <= $as_of) AND "
    "(m.valid_until > $as_of OR (m.valid_until IS NULL AND m.is_latest))",
    "now": "(m.valid_from IS NULL OR m.valid_from <= $now) AND (m.valid_until IS NULL OR m.valid_until > $now)",
    "clock": "(m.retention_until IS NULL OR m.retention_until > $clock)",
}
"""Each filter's condition; the parameter has the filter's name, except where that name means a load number."""
LEFT_OUT = {
    "hidden": "(m.user_visible IS NULL OR m.user_visible = true)",
    "pii": "(m.pii IS NULL OR m.pii = false)",
}
LATEST = "m.is_latest = true"


def candidates(conditions: tuple[str, ...]) -> str:
    """Returns the statement that finds the ids of a scope's memories that pass some of `CONDITIONS`."""
    where = " AND ".join((_VISIBLE, "m.is_latest IS NOT NULL", *conditions))
    return f"MATCH (m:PalimpsestMemoryRow {SCOPE}) WHERE {where} {with_kept('m.memory_id')}"


_COSINES = """
WITH m, CASE WHEN m.windows = 0 THEN [] ELSE
  COLLECT { MATCH (w:PalimpsestWindowRow)-[:WINDOW_OF|PALIMPSEST_CLOSED]->(m)
    RETURN vector.similarity.cosine(w.embedding, $vector) } END AS others
WITH m.memory_id AS id, reduce(best = vector.similarity.cosine(m.embedding, $vector), s IN others |
  CASE WHEN s > best THEN s ELSE best END) * 2 - 1 AS cosine
""" + with_kept("[id, cosine]")


def nearest(space: VectorSpace, conditions: tuple[str, ...]) -> str:
    """Returns the statement that takes candidates from the vector index, adds given ones, and scores all exactly.

    The index alone finds about 0.7 of the true best five: it proposes `$wide`, and exact cosines decide.
    """
    latest = "AND hit.is_latest = true" if LATEST in conditions else ""
    where = " AND ".join((_VISIBLE, *conditions))
    return f"""CYPHER 25
CALL () {{
  MATCH (hit:{space.label})
  SEARCH hit IN (VECTOR INDEX {space.index} FOR $vector WHERE hit.home_id = $home
    AND hit.collection = $collection AND hit.user_id = $user AND hit.project_id = $project {latest}
    AND hit.since <= $number AND hit.until > $number LIMIT $wide) SCORE AS score
  RETURN hit.memory_id AS wanted
  UNION
  UNWIND $ids AS wanted RETURN wanted
}}
WITH DISTINCT wanted
MATCH (m:PalimpsestMemoryRow {{home_id: $home, memory_id: wanted}})
WHERE {INSIDE.format("m")} AND {where}
{_COSINES}"""


COSINES = f"""CYPHER 25
UNWIND $ids AS wanted
MATCH (m:PalimpsestMemoryRow {{home_id: $home, memory_id: wanted}})
WHERE {INSIDE.format("m")} AND {_VISIBLE}
{_COSINES}"""
_FROM = f"""
UNWIND $ids AS wanted
MATCH (s:PalimpsestMemoryRow {{home_id: $home, memory_id: wanted}})
WHERE {INSIDE.format("s")} AND s.since <= $number AND s.until > $number"""
LIVE = "{0}.since <= $number AND ({0}.until IS NULL OR {0}.until > $number)"
PLACE = ("document_id", "uri", "document_title", "ordinal", "page", "char_start", "char_end")
"""Fields of a memory that its document's revision has, in the order in which MEMORIES returns them after the id."""
# The driver takes longer to make a time with a zone than the server to find the memory: times are microseconds.
_FIELDS = ", ".join(
    f"{name}: s.{name}.epochSeconds * 1000000 + s.{name}.microsecond" if name in MEMORY_TIMES else f".{name}"
    for name in STORED_FIELDS
    if name not in PLACE
)
# A revision's list of memories is searched once for all that are wanted of it; one whose memories are all in another
# version has none.
MEMORIES = f"""{_FROM}
OPTIONAL MATCH (s)-[f:FROM|{CLOSED}]->(d:PalimpsestDocumentRow)
WHERE {LIVE.format("f")} AND d.since <= $number AND d.until > $number
WITH d, collect(s {{{_FIELDS}}}) AS memories, collect(s.memory_id) AS wanted
OPTIONAL MATCH (d)<-[:REVISION_OF|{CLOSED}]-(v:PalimpsestRevisionRow)
WHERE v.since <= $number AND v.until > $number
WITH memories, collect([i IN range(0, coalesce(size(v.memory_ids), 0) - 1) WHERE v.memory_ids[i] IN wanted |
  [v.memory_ids[i], v.document_id, d.uri, v.title, v.ordinals[i], v.pages[i], v.starts[i], v.ends[i]]]) AS revisions
{with_kept("[memories, revisions]")}"""
OBSERVED = f"""
MATCH (m:PalimpsestMemoryRow {SCOPE}) WHERE {_VISIBLE} AND m.is_latest IS NOT NULL AND m.observed_at IS NOT NULL
WITH [min(m.observed_at), max(m.observed_at)] AS both
{with_kept("both")}"""


_VISIBLE_ALIAS = "{0}.since <= $number AND {0}.until > $number"

# Cypher that reads the graph of a scope: nodes, edges between them, facts, and the memories of nodes.
#
# A relationship that was closed since is of type `PALIMPSEST_CLOSED` for readers of the build before, and `was` of the
# type it had; where a load is running there are both, so that a row may come twice.

_TYPE = "coalesce(r.was, type(r))"
_KNOWN = f"{_VISIBLE_ALIAS} AND {INSIDE}"
_NODES = f"MATCH (n:PalimpsestNodeRow {SCOPE}) WHERE {_VISIBLE_ALIAS.format('n')}"
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
