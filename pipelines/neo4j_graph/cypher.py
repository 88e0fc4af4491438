"""Cypher of the schema, of loading, checking and querying. Values are parameters; labels and types come from `model`.

A row (node or relationship) belongs to a home and shows in the loads `since <= n < until`; a relationship has `until`
only once it was closed, and shows only where both of its ends do. What moves the labels that people write is in
`current`, what an earlier version left in `legacy`.
"""

from palimpsest.neo4j_graph.current import (
    COPY_OF_EDGE,
    COPY_OF_NODE,
    FORGET_COPIES_OF_NODE,
    FORGET_COPY_OF_EDGE,
)
from palimpsest.neo4j_graph.graph_model import (
    CLOSED,
    DIMENSIONS,
    EDGES,
    KEYS,
    READ_BY_BACKEND,
    TYPES,
    Edge,
    VectorSpace,
    current_label,
    row_label,
)

# Server and schema
SET_PASSWORD = "ALTER CURRENT USER SET PASSWORD FROM $old TO $new"  # noqa: S105
COMPONENTS = "CALL dbms.components() YIELD name, versions, edition RETURN name, versions, edition"
PROBE_CYPHER_25 = "CYPHER 25 RETURN toFloatList([1.0]) AS told"
PROBE_SEARCH = """
CYPHER 25 EXPLAIN MATCH (m:PalimpsestProbe)
SEARCH m IN (VECTOR INDEX palimpsest_probe FOR $vector
  WHERE m.user_id = $user AND m.is_latest = true LIMIT 1) SCORE AS score
RETURN score"""
PROBE_INDEX = f"""
CYPHER 25 CREATE VECTOR INDEX palimpsest_probe IF NOT EXISTS FOR (m:PalimpsestProbe) ON m.embedding
WITH [m.user_id, m.is_latest]
OPTIONS {{indexConfig: {{`vector.dimensions`: {DIMENSIONS}, `vector.similarity_function`: 'cosine'}}}}"""
MIGRATIONS_APPLIED = "MATCH (m:PalimpsestMigration) RETURN m.number AS number ORDER BY number"
RECORD_MIGRATION = """
MERGE (m:PalimpsestMigration {number: $number}) ON CREATE SET m.name = $name, m.applied_at = datetime()"""
CREATE_MIGRATION_KEY = """
CREATE CONSTRAINT palimpsest_migration IF NOT EXISTS FOR (m:PalimpsestMigration) REQUIRE m.number IS UNIQUE"""
CREATE_KEYS = tuple(
    f"CREATE CONSTRAINT palimpsest_{kind.lower()}_key IF NOT EXISTS FOR (n:{label}) REQUIRE ({keys}) IS UNIQUE"
    for kind, label, keys in (
        *((kind, row_label(kind), f"n.home_id, n.{key}, n.since") for kind, key in KEYS.items()),
        ("Home", "PalimpsestHome", "n.home_id"),
        ("Build", "PalimpsestBuild", "n.home_id, n.number"),
        ("Load", "PalimpsestLoad", "n.home_id"),
        ("LoadLock", "PalimpsestLoadLock", "n.home_id"),
    )
)
CREATE_RANGES = tuple(
    f"CREATE INDEX palimpsest_{name} IF NOT EXISTS FOR {what}"
    for name, what in (
        ("memory_scope", "(n:PalimpsestMemoryRow) ON (n.home_id, n.collection, n.user_id, n.project_id, n.is_latest)"),
        ("window_memory", "(n:PalimpsestWindowRow) ON (n.home_id, n.memory_id)"),
        ("memory_id", "(n:PalimpsestMemory) ON (n.memory_id)"),
        ("entity_name", "(n:PalimpsestEntity) ON (n.name)"),
        ("document_uri", "(n:PalimpsestDocument) ON (n.uri)"),
        *((f"{t.lower()}_closed", f"()-[r:{t}]-() ON (r.home_id, r.until)") for t in (*TYPES, CLOSED)),
    )
)
CREATE_FULL_TEXT = (
    "CREATE FULLTEXT INDEX palimpsest_memory_text IF NOT EXISTS FOR (n:PalimpsestMemory) ON EACH [n.text, n.title] "
    "OPTIONS {indexConfig: {`fulltext.eventually_consistent`: true}}",
    "CREATE FULLTEXT INDEX palimpsest_names IF NOT EXISTS FOR (n:PalimpsestEntity|PalimpsestTopic) "
    "ON EACH [n.name, n.aliases, n.label] OPTIONS {indexConfig: {`fulltext.eventually_consistent`: true}}",
)
INDEX_STATES = """
SHOW INDEXES YIELD name, type, state, labelsOrTypes, properties, options, populationPercent
RETURN name, type, state, labelsOrTypes, properties, options, populationPercent"""
AWAIT_INDEX = "CALL db.awaitIndex($name, $seconds)"


def create_vector_index(space: VectorSpace) -> str:
    """Returns the DDL of a vector index."""
    return f"""
CYPHER 25 CREATE VECTOR INDEX {space.index} IF NOT EXISTS FOR (n:{space.label}) ON n.embedding
WITH [n.home_id, n.collection, n.user_id, n.project_id, n.is_latest, n.since, n.until]
OPTIONS {{indexConfig: {{`vector.dimensions`: {DIMENSIONS}, `vector.similarity_function`: 'cosine'}}}}"""


def drop_index(name: str) -> str:
    """Returns the DDL that drops an index of ours; the name comes from the server's own list."""
    return f"DROP INDEX {name} IF EXISTS"


# Loading
HOME = "MATCH (h:PalimpsestHome {home_id: $home}) RETURN h.published AS published, h.oldest AS oldest"
BUILD = "MATCH (b:PalimpsestBuild {home_id: $home, number: $number}) RETURN properties(b) AS told"
TAKE_LOCK = """
MERGE (k:PalimpsestLoadLock {home_id: $home}) SET k.token = $token"""
BEGIN_LOAD = """
MERGE (h:PalimpsestHome {home_id: $home}) ON CREATE SET h.published = 0, h.oldest = 0, h.begun = randomUUID()
WITH h, EXISTS { (:PalimpsestLoad {home_id: $home}) } AS cut_short
MERGE (l:PalimpsestLoad {home_id: $home}) SET l.token = $token, l.batch = 0, l.number = h.published + 1
RETURN h.published AS published, h.oldest AS oldest, cut_short, h.measured_on IS NOT NULL AS measured"""
# A batch that was committed but not heard of is tried again: it must not be applied twice, nor once a later load began.
_ONCE = """
MATCH (l:PalimpsestLoad {home_id: $home, token: $token}) WHERE l.batch < $batch SET l.batch = $batch WITH l """
BATCH_DONE = "MATCH (l:PalimpsestLoad {home_id: $home, token: $token}) RETURN l.batch >= $batch AS done"
_COUNTED = " RETURN count(*) AS n"
FLIP = """
MATCH (l:PalimpsestLoad {home_id: $home, token: $token, number: $number})
MATCH (h:PalimpsestHome {home_id: $home}) WHERE h.published = $number - 1
SET h.published = $number, h.oldest = $oldest
CREATE (b:PalimpsestBuild {home_id: $home, number: $number})
SET b += $told, b.published_at = datetime()
RETURN count(*) AS n"""
RENAME_BUILD = "MATCH (b:PalimpsestBuild {home_id: $home, number: $number}) SET b += $told"
DROP_BUILDS = "MATCH (b:PalimpsestBuild {home_id: $home}) WHERE b.number < $oldest DELETE b"
RAISE_OLDEST = "MATCH (h:PalimpsestHome {home_id: $home}) WHERE h.oldest < $oldest SET h.oldest = $oldest"
END_LOAD = "MATCH (l:PalimpsestLoad {home_id: $home, token: $token}) DELETE l"

LIST_NODES = {
    label: f"""
MATCH (n:{row_label(label)} {{home_id: $home}})
WHERE n.{key} IS NOT NULL AND n.since IS NOT NULL AND n.until > $published
RETURN n.{key} AS id, n.key AS key, n.since AS since, n.until AS until"""
    for label, key in KEYS.items()
}

IS_EMPTY = (
    "RETURN NOT ("
    + " OR ".join(
        f"EXISTS {{ MATCH (n:{row_label(kind)} {{home_id: $home}}) WHERE n.{key} IS NOT NULL AND n.since IS NOT NULL }}"
        for kind, key in KEYS.items()
    )
    + ") AS empty"
)


def create_nodes(kind: str, current: bool) -> str:
    """Returns the statement that makes nodes of a kind; `current` gives them the label that people write at once."""
    return f"""CYPHER 25 {_ONCE} UNWIND $rows AS row
CREATE (n:{_labels(kind, current)} {{home_id: $home, since: $number, until: $open}}) SET n += row{_COUNTED}"""


def _labels(kind: str, current: bool) -> str:
    return f"{row_label(kind)}:{current_label(kind)}" if current else row_label(kind)


def create_vector_nodes(kind: str, vectors: str, current: bool) -> str:
    """Returns the statement that makes nodes with vectors: a VECTOR parameter is fast, a list is what can be stored."""
    return f"""CYPHER 25 {_ONCE} UNWIND $rows AS row
CREATE (n:{_labels(kind, current)}:{vectors} {{home_id: $home, since: $number, until: $open}})
SET n += row.told, n.embedding = toFloatList(row.vector){_COUNTED}"""


_UNTIL = {
    label: f"""{_ONCE} UNWIND $rows AS row
MATCH (n:{row_label(label)} {{home_id: $home, {key}: row.id, since: row.since}}) SET n.until = $until"""
    for label, key in KEYS.items()
}
CLOSE_NODES = {kind: statement + COPY_OF_NODE for kind, statement in _UNTIL.items()}
REOPEN_NODES = {kind: statement + FORGET_COPIES_OF_NODE for kind, statement in _UNTIL.items()}
DELETE_NODES = {
    label: f"""{_ONCE} UNWIND $rows AS row
MATCH (n:{row_label(label)} {{home_id: $home, {key}: row.id, since: row.since}})
WITH n, COUNT {{ (n)--() }} AS edges DETACH DELETE n RETURN sum(1 + edges) AS n"""
    for label, key in KEYS.items()
}
SWEEP_NODES = {
    label: f"""
MATCH (n:{row_label(label)} {{home_id: $home}})
WHERE n.{key} IS NOT NULL AND n.since IS NOT NULL AND n.until <= $oldest
WITH n LIMIT $limit WITH n, COUNT {{ (n)--() }} AS edges DETACH DELETE n
RETURN sum(1 + edges) AS n, count(*) AS nodes"""
    for label, key in KEYS.items()
}
SWEEP_EDGES = {
    t: f"""
MATCH ()-[r:{t}]->() WHERE r.home_id = $home AND r.until <= $oldest
WITH r LIMIT $limit DELETE r RETURN count(*) AS n"""
    for t in (*TYPES, CLOSED)
}


def _ends(e: Edge, source: str = "", target: str = "", relation: str = "r") -> str:
    return f"(a:{row_label(e.source)}{source})-[{relation}:{e.type}]->(b:{row_label(e.target)}{target})"


def _at_anchor(e: Edge, condition: str) -> tuple[str, str]:
    return (condition, "") if e.anchor == "source" else ("", condition)


def _anchor(e: Edge) -> tuple[str, str]:
    return ("a", KEYS[e.source]) if e.anchor == "source" else ("b", KEYS[e.target])


LIST_EDGES = {
    name: f"""
MATCH {_ends(e, *_at_anchor(e, " {home_id: $home}"))}
WHERE {_anchor(e)[0]}.{_anchor(e)[1]} IS NOT NULL AND {_anchor(e)[0]}.since IS NOT NULL
  AND a.until > $number AND b.until > $number AND (r.until IS NULL OR r.until > $published)
RETURN {_anchor(e)[0]}.{_anchor(e)[1]} AS id, r.key AS key, r.since AS since, r.until AS until"""
    for name, e in EDGES.items()
}
CREATE_EDGES = {
    name: f"""{_ONCE} UNWIND $rows AS row
MATCH (a:{row_label(e.source)} {{home_id: $home, {KEYS[e.source]}: row.a}})
WHERE a.since <= $number AND a.until > $number
MATCH (b:{row_label(e.target)} {{home_id: $home, {KEYS[e.target]}: row.b}})
WHERE b.since <= $number AND b.until > $number
CREATE (a)-[r:{e.type} {{since: $number}}]->(b) SET r += row.told{_COUNTED}"""
    for name, e in EDGES.items()
}
_MATCH_EDGE = {
    name: f"""UNWIND $rows AS row
MATCH {_ends(e, *_at_anchor(e, f" {{home_id: $home, {_anchor(e)[1]}: row.id}}"))}
WHERE {_anchor(e)[0]}.since <= $number AND {_anchor(e)[0]}.until > $number
  AND r.key = row.key AND r.since = row.since"""
    for name, e in EDGES.items()
}
_IS_READ = {name: e.type in READ_BY_BACKEND for name, e in EDGES.items()}
CLOSE_EDGES = {
    n: f"{_ONCE} {m} SET r.until = $number, r.home_id = $home{COPY_OF_EDGE if _IS_READ[n] else ''}{_COUNTED}"
    for n, m in _MATCH_EDGE.items()
}
REOPEN_EDGES = {
    n: f"{_ONCE} {m} REMOVE r.until, r.home_id{FORGET_COPY_OF_EDGE if _IS_READ[n] else ''}{_COUNTED}"
    for n, m in _MATCH_EDGE.items()
}
DELETE_EDGES = {n: f"{_ONCE} {m} DELETE r{_COUNTED}" for n, m in _MATCH_EDGE.items()}

# Counting and checking: one statement each, for making a plan takes longer than counting
COUNT_NODES = "\nUNION ALL\n".join(
    f"MATCH (n:{row_label(label)} {{home_id: $home}}) "
    f"WHERE n.{key} IS NOT NULL AND n.since <= $number AND n.until > $number RETURN '{label}' AS name, count(*) AS n"
    for label, key in KEYS.items()
)
_SHOWN = """a.since <= $number AND a.until > $number AND b.since <= $number AND b.until > $number
  AND r.since <= $number AND (r.until IS NULL OR r.until > $number)"""


def _over_edges(told: str) -> str:
    return "\nUNION ALL\n".join(
        f"""MATCH (a:{row_label(source)} {{home_id: $home}})-[r]->(b) WHERE a.{KEYS[source]} IS NOT NULL AND {_SHOWN}
WITH type(r) AS type, labels(b) AS ends, {told} AS n RETURN '{source}' AS source, type, ends, n"""
        for source in sorted({e.source for e in EDGES.values()})
    )


COUNT_EDGES = _over_edges("count(*)")
CROSSING = _over_edges("""sum(
  CASE WHEN a.home_id <> b.home_id OR a.collection <> b.collection OR a.user_id <> b.user_id
    OR a.project_id <> b.project_id THEN 1 ELSE 0 END)""")
CHAINS_WITHOUT_ONE_LATEST = """
MATCH (newest:PalimpsestMemoryRow {home_id: $home}) WHERE newest.memory_id IS NOT NULL
  AND newest.since <= $number AND newest.until > $number AND NOT newest.is_latest
  AND newest.superseded_by IS NULL
RETURN newest.memory_id AS id ORDER BY id LIMIT 5"""
RETIRED_AND_LATEST = """
MATCH (newer:PalimpsestMemoryRow {home_id: $home})-[r:SUPERSEDES]->(older:PalimpsestMemoryRow)
WHERE newer.memory_id IS NOT NULL AND newer.since <= $number AND newer.until > $number
  AND older.since <= $number AND older.until > $number
  AND r.since <= $number AND (r.until IS NULL OR r.until > $number) AND older.is_latest
RETURN older.memory_id AS id ORDER BY id LIMIT 5"""

# Measuring: a home whose measuring process died is nobody's
MARK_MEASURED = """
MERGE (h:PalimpsestHome {home_id: $home}) ON CREATE SET h.published = 0, h.oldest = 0
SET h.measured_on = $host, h.measured_by = $pid, h.measured_since = $began"""
MEASURED = """
MATCH (h:PalimpsestHome) WHERE h.measured_on = $host
RETURN h.home_id AS id, h.measured_by AS pid, h.measured_since AS began ORDER BY id"""

# Queries
_VISIBLE = "m.since <= $number AND m.until > $number"
_SCOPE = "{home_id: $home, collection: $collection, user_id: $user, project_id: $project}"
_INSIDE = "{0}.collection = $collection AND {0}.user_id = $user AND {0}.project_id = $project"


# Numbers begin again in a home that was erased, or on a new server: what began then is another `begun`.
_KEPT = "h.oldest <= $number AND coalesce(h.begun, '') = $begun"


def _while_kept(found: str) -> str:
    """Ends a read: collecting is a barrier, so that whether the number is kept is looked up after all was read."""
    return f"""WITH collect({found}) AS found
OPTIONAL MATCH (h:PalimpsestHome {{home_id: $home}}) RETURN found, coalesce({_KEPT}, false) AS kept"""


SERVED = """
MATCH (h:PalimpsestHome {home_id: $home}) WHERE h.published > 0
MATCH (b:PalimpsestBuild {home_id: $home, number: h.published})
RETURN b.number AS number, b.build_id AS build_id, b.collections AS collections, b.scopes AS scopes,
  b.vector_index AS vector_index, coalesce(h.begun, '') AS begun"""
STILL_KEPT = f"MATCH (h:PalimpsestHome {{home_id: $home}}) RETURN {_KEPT} AS kept"
SCOPE_STATS = """
MATCH (s:PalimpsestScopeStatsRow {home_id: $home, scope_id: $scope_id}) WHERE s.since <= $number AND s.until > $number
RETURN s.data AS data, s.buckets AS buckets"""
POSTINGS = """
MATCH (p:PalimpsestPostingsRow {home_id: $home})
WHERE p.postings_id IN $ids AND p.since <= $number AND p.until > $number
RETURN p.postings_id AS id, p.data AS data"""
BLOCKS = """
MATCH (b:PalimpsestVectorBlockRow {home_id: $home})
WHERE b.block_id IN $ids AND b.since <= $number AND b.until > $number
RETURN b.block_id AS id, b.data AS data"""
ARRAYS = """
MATCH (a:PalimpsestScopeArraysRow {home_id: $home})
WHERE a.arrays_id IN $ids AND a.since <= $number AND a.until > $number
RETURN a.arrays_id AS id, a.data AS data"""
# Each filter's condition; its value is bound under the filter's name, but for those whose name means a load number.
CONDITIONS = {
    "session": "m.session_id = $session",
    "type": "m.type = $type",
    "tag": "$tag IN m.tags",
    "since": "m.observed_at >= $observed_since",
    "until": "m.observed_at <= $observed_until",
    # What was retired on a day that nobody knows is not offered as what held then; nor is what has no date before the
    # home knew it.
    "as_of": "(coalesce(m.valid_from, m.known_from) IS NULL OR coalesce(m.valid_from, m.known_from) <= $as_of) AND "
    "(m.valid_until > $as_of OR (m.valid_until IS NULL AND m.is_latest))",
    "now": "(m.valid_from IS NULL OR m.valid_from <= $now) AND (m.valid_until IS NULL OR m.valid_until > $now)",
    "clock": "(m.retention_until IS NULL OR m.retention_until > $clock)",
}
LEFT_OUT = {
    "hidden": "(m.user_visible IS NULL OR m.user_visible = true)",
    "pii": "(m.pii IS NULL OR m.pii = false)",
}
LATEST = "m.is_latest = true"


def candidates(conditions: tuple[str, ...]) -> str:
    """Returns the statement that finds the ids of a scope's memories that pass some of `CONDITIONS`."""
    told = " AND ".join((_VISIBLE, "m.is_latest IS NOT NULL", *conditions))
    return f"MATCH (m:PalimpsestMemoryRow {_SCOPE}) WHERE {told} {_while_kept('m.memory_id')}"


_COSINES = """
WITH m, CASE WHEN m.windows = 0 THEN [] ELSE
  COLLECT { MATCH (w:PalimpsestWindowRow)-[:WINDOW_OF|PALIMPSEST_CLOSED]->(m)
    RETURN vector.similarity.cosine(w.embedding, $vector) } END AS others
WITH m.memory_id AS id, reduce(best = vector.similarity.cosine(m.embedding, $vector), s IN others |
  CASE WHEN s > best THEN s ELSE best END) * 2 - 1 AS cosine
""" + _while_kept("[id, cosine]")


def nearest(space: VectorSpace, conditions: tuple[str, ...]) -> str:
    """Returns the statement that asks the vector index for candidates, adds given ones, and scores all exactly.

    The index alone finds some .7 of the true best five: it proposes `$wide`, and their vectors decide.
    """
    latest = "AND hit.is_latest = true" if LATEST in conditions else ""
    told = " AND ".join((_VISIBLE, *conditions))
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
WHERE {_INSIDE.format("m")} AND {told}
{_COSINES}"""


COSINES = f"""CYPHER 25
UNWIND $ids AS wanted
MATCH (m:PalimpsestMemoryRow {{home_id: $home, memory_id: wanted}})
WHERE {_INSIDE.format("m")} AND {_VISIBLE}
{_COSINES}"""
_FROM = f"""
UNWIND $ids AS asked
MATCH (s:PalimpsestMemoryRow {{home_id: $home, memory_id: asked}})
WHERE {_INSIDE.format("s")} AND s.since <= $number AND s.until > $number"""
_LIVE = "{0}.since <= $number AND ({0}.until IS NULL OR {0}.until > $number)"


def neighbours(conditions: tuple[str, ...], entities: bool = True) -> str:
    """Returns the statement that finds what memories are related to, and on demand what shares telling entities."""
    told = " AND ".join((_VISIBLE, _INSIDE.format("m"), *conditions))
    fits = " AND ".join(conditions) or "true"
    live, was = _LIVE.format("r"), "coalesce(r.was, type(r))"
    return f"""CYPHER 25 {_FROM}
CALL (s) {{
  MATCH (s)-[r:EXTENDS|DERIVES|{CLOSED}]->(m:PalimpsestMemoryRow)
  WHERE {was} IN ['EXTENDS', 'DERIVES'] AND {live} AND {told}
  RETURN {was} AS kind, true AS newer, [m.memory_id] AS targets, r.confidence AS weight, r.relation_id AS via
  UNION ALL
  MATCH (s)<-[r:UPDATES|EXTENDS|DERIVES|{CLOSED}]-(m:PalimpsestMemoryRow)
  WHERE {was} IN ['UPDATES', 'EXTENDS', 'DERIVES'] AND {live} AND {told}
  RETURN {was} AS kind, false AS newer, [m.memory_id] AS targets, r.confidence AS weight, r.relation_id AS via
{_sharing(fits) if entities else ""}
}}
{_while_kept("[asked, kind, newer, targets, weight, via]")}"""


def _sharing(fits: str) -> str:
    return f"""  UNION ALL
  MATCH (s)-[x:MENTIONS|{CLOSED}]->(e:PalimpsestEntityRow)
  WHERE {_LIVE.format("x")} AND e.since <= $number AND e.until > $number
    AND {_INSIDE.format("e")}
  CALL (e) {{
    MATCH (e)<-[y:MENTIONS|{CLOSED}]-(m:PalimpsestMemoryRow) WHERE {_LIVE.format("y")} AND {_VISIBLE}
    WITH DISTINCT m LIMIT $widest + 1 RETURN collect(m) AS sharing
  }}
  WITH DISTINCT s, e, sharing WHERE 2 <= size(sharing) <= $widest
  RETURN e.name AS kind, null AS newer, [m IN sharing WHERE m <> s AND {fits} | m.memory_id] AS targets,
    toFloat(size(sharing)) AS weight, e.entity_id AS via"""


MEMORIES = f"""{_FROM}
OPTIONAL MATCH (s)-[f:FROM|{CLOSED}]->(d:PalimpsestDocumentRow)<-[:REVISION_OF|{CLOSED}]-(v:PalimpsestRevisionRow)
WHERE {_LIVE.format("f")} AND v.since <= $number AND v.until > $number AND d.since <= $number AND d.until > $number
  AND s.memory_id IN v.memory_ids
WITH s, d, v, [i IN range(0, size(v.memory_ids) - 1) WHERE v.memory_ids[i] = s.memory_id][0] AS at
WITH s {{.*, embedding: null}} AS memory, v {{.document_id, uri: d.uri, document_title: v.title,
  ordinal: v.ordinals[at], page: v.pages[at], char_start: v.starts[at], char_end: v.ends[at]}} AS source,
  EXISTS {{ (s)-[:SUPERSEDES|{CLOSED}]->() }} AS newer
{_while_kept("[memory, source, newer]")}"""
OBSERVED = f"""
MATCH (m:PalimpsestMemoryRow {_SCOPE}) WHERE {_VISIBLE} AND m.is_latest IS NOT NULL AND m.observed_at IS NOT NULL
WITH [min(m.observed_at), max(m.observed_at)] AS both
{_while_kept("both")}"""
HISTORY = f"""{_FROM}
MATCH (s) ((a)-[r:SUPERSEDES|{CLOSED}]->(b)
  WHERE coalesce(r.was, 'SUPERSEDES') = 'SUPERSEDES' AND {_LIVE.format("r")}
  AND b.since <= $number AND b.until > $number AND {_INSIDE.format("b")})+ (older:PalimpsestMemoryRow)
WITH asked, collect(DISTINCT older.memory_id) AS older
{_while_kept("[asked, older]")}"""
