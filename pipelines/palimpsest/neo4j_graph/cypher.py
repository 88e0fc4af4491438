"""Every Cypher statement: of the schema with its indexes and constraints, of loading, of queries."""

from collections.abc import Iterable, Iterator

from palimpsest.core.ids import REFLECTION
from palimpsest.neo4j_graph.model import (
    CLOSED,
    CURRENT,
    DETAILS,
    DIMENSIONS,
    EDGES,
    KEYS,
    NODE_EDGES,
    NODE_LABELS,
    READ_EDGES,
    TYPES,
    Edge,
    VectorSpace,
    current_label,
    current_labels,
    row_label,
)
from palimpsest.query.request.types import MEMORY_TIMES, STORED_FIELDS

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


# Cypher that moves what people see: labels and relationships of the published build.
#
# The query path matches `...Row` labels and filters by load numbers. People write `PalimpsestMemory` and no numbers. So
# that they see the published build as well, new rows get their label, closed rows lose it, and relationships that are
# no longer true go. Readers of the previous build find those under the type `PALIMPSEST_CLOSED`, copied before the
# published number moves.


def copy_edges_of_node(kind: str) -> str:
    """Returns the end of a statement that closes nodes `n`: readers of the previous build follow their edges."""
    read = {EDGES[name].type for name in READ_EDGES if kind in (EDGES[name].source, EDGES[name].target)}
    if not read:
        return " RETURN count(*) AS n"
    return f"""
WITH n OPTIONAL MATCH (n)-[r:{"|".join(sorted(read))}]-(o)
WHERE r.until IS NULL AND r.since < $number AND o.until > $number
FOREACH (_ IN CASE WHEN r IS NULL OR startNode(r) <> n THEN [] ELSE [1] END |
  CREATE (n)-[c:{CLOSED}]->(o) SET c = properties(r), c.was = type(r))
FOREACH (_ IN CASE WHEN r IS NULL OR startNode(r) = n THEN [] ELSE [1] END |
  CREATE (o)-[c:{CLOSED}]->(n) SET c = properties(r), c.was = type(r))
WITH n, count(r) AS copies RETURN sum(1 + copies) AS n"""


FORGET_COPIES_OF_NODE = f"""
WITH n OPTIONAL MATCH (n)-[c:{CLOSED}]-(o) WHERE c.until IS NULL AND o.until >= $number
DELETE c RETURN count(DISTINCT n) AS n"""
COPY_OF_EDGE = f" CREATE (a)-[c:{CLOSED}]->(b) SET c = properties(r), c.was = type(r)"
FORGET_COPY_OF_EDGE = f"""
WITH a, b, r OPTIONAL MATCH (a)-[c:{CLOSED}]->(b) WHERE c.was = type(r) AND c.key = r.key DELETE c"""

ADD_NODE_LABELS = " ".join(
    f"FOREACH (_ IN CASE WHEN n.{key} IS NULL THEN [] ELSE [1] END | SET n:{label})"
    for key, label in NODE_LABELS.items()
)

SHOW_NODES = {
    kind: f"""
MATCH (n:{row_label(kind)} {{home_id: $home}})
WHERE n.since <= $number AND n.until > $number AND NOT n:{current_label(kind)}
WITH n LIMIT $limit SET n:{current_label(kind)} {ADD_NODE_LABELS if kind == "Node" else ""} RETURN count(*) AS n"""
    for kind in CURRENT
}
HIDE_NODES = {
    kind: f"""
MATCH (n:{current_label(kind)} {{home_id: $home}}) WHERE n.until <= $number
WITH n LIMIT $limit REMOVE n:{":".join(current_labels(kind))} RETURN count(*) AS n"""
    for kind in CURRENT
}
DROP_EDGES_OF_CLOSED_NODES = {
    kind: f"""
MATCH (n:{row_label(kind)} {{home_id: $home}}) WHERE n.until <= $number
MATCH (n)-[r:{"!" + CLOSED if kind == "Node" else "|".join(TYPES)}]-(o) WHERE o.until > $number
WITH r LIMIT $limit DELETE r RETURN count(*) AS n"""
    for kind in KEYS
}


def delete_ended_edges(types: Iterable[str], number: str) -> dict[str, str]:
    """Returns by type the statement that deletes relationships that ended until a load; `number` is its parameter."""
    by_type = {
        t: f"""
MATCH ()-[r:{t}]->() WHERE r.home_id = $home AND r.until <= ${number}
WITH r LIMIT $limit DELETE r RETURN count(*) AS n"""
        for t in types
    }
    by_row = {
        e.type: f"""
MATCH (n:{row_label(e.source)} {{home_id: $home}})-[r:{e.pattern}]->(:{row_label(e.target)})
WHERE n.{KEYS[e.source]} IS NOT NULL AND n.since IS NOT NULL AND r.until <= ${number}
WITH r LIMIT $limit DELETE r RETURN count(*) AS n"""
        for e in EDGES.values()
        if e.is_typed_by_row
    }
    return by_type | by_row


DROP_CLOSED_EDGES = delete_ended_edges(TYPES, "number")


def visibility_statements(kinds: set[str], types: set[str]) -> Iterator[str]:
    """Yields what makes people see the published build, where rows of these kinds and types changed."""
    yield from (SHOW_NODES[k] for k in CURRENT if k in kinds)
    yield from (HIDE_NODES[k] for k in CURRENT if k in kinds)
    yield from (DROP_EDGES_OF_CLOSED_NODES[k] for k in KEYS if k in kinds)
    yield from (statement for t, statement in DROP_CLOSED_EDGES.items() if t in types)


def all_visibility_statements() -> Iterator[str]:
    """Yields the statements of every kind and type: what an interrupted load changed is not recorded."""
    return visibility_statements(set(KEYS), set(DROP_CLOSED_EDGES))


# Cypher of loading: the lock, batches that are applied once, the difference of nodes and edges, and sweeping.

BUILD_RECORD = "MATCH (b:PalimpsestBuild {home_id: $home, number: $number}) RETURN properties(b) AS record"
TAKE_LOCK = """
MERGE (k:PalimpsestLoadLock {home_id: $home}) SET k.token = $token"""
BEGIN_LOAD = """
MERGE (h:PalimpsestHome {home_id: $home}) ON CREATE SET h.published = 0, h.oldest = 0, h.begun = randomUUID()
WITH h, EXISTS { (:PalimpsestLoad {home_id: $home}) } AS interrupted
MERGE (l:PalimpsestLoad {home_id: $home}) SET l.token = $token, l.batch = 0, l.number = h.published + 1
RETURN h.published AS published, h.oldest AS oldest, interrupted, h.measured_on IS NOT NULL AS measured"""
# A batch whose commit was not confirmed is retried: it must not be applied twice, nor after a later load began.
_ONCE = """
MATCH (l:PalimpsestLoad {home_id: $home, token: $token}) WHERE l.batch < $batch SET l.batch = $batch WITH l """
BATCH_DONE = "MATCH (l:PalimpsestLoad {home_id: $home, token: $token}) RETURN l.batch >= $batch AS done"
_RETURN_COUNT = " RETURN count(*) AS n"
PUBLISH = """
MATCH (l:PalimpsestLoad {home_id: $home, token: $token, number: $number})
MATCH (h:PalimpsestHome {home_id: $home}) WHERE h.published = $number - 1
SET h.published = $number, h.oldest = $oldest
CREATE (b:PalimpsestBuild {home_id: $home, number: $number})
SET b += $record, b.published_at = datetime()
RETURN count(*) AS n"""
UPDATE_BUILD_RECORD = "MATCH (b:PalimpsestBuild {home_id: $home, number: $number}) SET b += $record"
DROP_OLDER_BUILDS = "MATCH (b:PalimpsestBuild {home_id: $home}) WHERE b.number < $oldest DELETE b"
RAISE_OLDEST = "MATCH (h:PalimpsestHome {home_id: $home}) WHERE h.oldest < $oldest SET h.oldest = $oldest"
END_LOAD = "MATCH (l:PalimpsestLoad {home_id: $home, token: $token}) DELETE l"

LIST_NODES = {
    kind: f"""
MATCH (n:{row_label(kind)} {{home_id: $home}})
WHERE n.{key} IS NOT NULL AND n.since IS NOT NULL AND n.until > $published
RETURN n.{key} AS id, n.key AS key, n.since AS since, n.until AS until"""
    for kind, key in KEYS.items()
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
    """Returns the statement that creates nodes of a kind; `current` gives them the label that people write at once."""
    return f"""CYPHER 25 {_ONCE} UNWIND $rows AS row
CREATE (n:{_labels(kind, current)} {{home_id: $home, since: $number, until: $open}}) SET n += row
{ADD_NODE_LABELS if current and kind == "Node" else ""}{_RETURN_COUNT}"""


def _labels(kind: str, current: bool) -> str:
    return f"{row_label(kind)}:{current_label(kind)}" if current else row_label(kind)


def create_vector_nodes(kind: str, vectors: str, current: bool) -> str:
    """Returns the statement that creates nodes with vectors: a VECTOR parameter is fast, only a list can be stored."""
    return f"""CYPHER 25 {_ONCE} UNWIND $rows AS row
CREATE (n:{_labels(kind, current)}:{vectors} {{home_id: $home, since: $number, until: $open}})
SET n += row.properties, n.embedding = toFloatList(row.vector){_RETURN_COUNT}"""


_SET_UNTIL = {
    kind: f"""{_ONCE} UNWIND $rows AS row
MATCH (n:{row_label(kind)} {{home_id: $home, {key}: row.id, since: row.since}}) SET n.until = $until"""
    for kind, key in KEYS.items()
}
CLOSE_NODES = {kind: statement + copy_edges_of_node(kind) for kind, statement in _SET_UNTIL.items()}
REOPEN_NODES = {kind: statement + FORGET_COPIES_OF_NODE for kind, statement in _SET_UNTIL.items()}
DELETE_NODES = {
    kind: f"""{_ONCE} UNWIND $rows AS row
MATCH (n:{row_label(kind)} {{home_id: $home, {key}: row.id, since: row.since}})
WITH n, COUNT {{ (n)--() }} AS edges DETACH DELETE n RETURN sum(1 + edges) AS n"""
    for kind, key in KEYS.items()
}
SWEEP_NODES = {
    kind: f"""
MATCH (n:{row_label(kind)} {{home_id: $home}})
WHERE n.{key} IS NOT NULL AND n.since IS NOT NULL AND n.until <= $oldest
WITH n LIMIT $limit WITH n, COUNT {{ (n)--() }} AS edges DETACH DELETE n
RETURN sum(1 + edges) AS n, count(*) AS nodes"""
    for kind, key in KEYS.items()
}
SWEEP_EDGES = delete_ended_edges((*TYPES, CLOSED), "oldest")

LIST_DETAILS = """
MATCH (n:PalimpsestNodeRow {home_id: $home}) WHERE n.node_id IS NOT NULL AND n.since <= $number AND n.until > $number
RETURN n.node_id AS id, n.details AS details"""
SET_DETAILS = f"""{_ONCE} UNWIND $rows AS row
MATCH (n:PalimpsestNodeRow {{home_id: $home, node_id: row.id}}) WHERE n.since <= $number AND n.until > $number
SET n += CASE WHEN coalesce(n.changed_in, n.since) = $number THEN {{}}
  ELSE {{{", ".join(f"was_{name}: n.{name}" for name in DETAILS)}}} END
SET n += row.properties, n.changed_in = $number{_RETURN_COUNT}"""
SWEEP_DETAILS = f"""
MATCH (n:PalimpsestNodeRow {{home_id: $home}})
WHERE n.node_id IS NOT NULL AND n.since IS NOT NULL AND n.changed_in <= $oldest
WITH n LIMIT $limit REMOVE n.changed_in, {", ".join(f"n.was_{name}" for name in DETAILS)} RETURN count(*) AS n"""


def _pattern(e: Edge, source: str, target: str = "") -> str:
    return f"(a:{row_label(e.source)}{source})-[r:{e.pattern}]->(b:{row_label(e.target)}{target})"


def _pattern_from_anchor(e: Edge, properties: str) -> str:
    return _pattern(e, properties) if e.anchor == "source" else _pattern(e, "", properties)


def _anchor(e: Edge) -> str:
    return "a" if e.anchor == "source" else "b"


def _anchor_key(e: Edge) -> str:
    return KEYS[e.source if e.anchor == "source" else e.target]


LIST_EDGES = {
    name: f"""
MATCH {_pattern_from_anchor(e, " {home_id: $home}")}
WHERE {_anchor(e)}.{_anchor_key(e)} IS NOT NULL AND {_anchor(e)}.since IS NOT NULL
  AND a.until > $number AND b.until > $number AND (r.until IS NULL OR r.until > $published)
RETURN {_anchor(e)}.{_anchor_key(e)} AS id, r.key AS key, r.since AS since, r.until AS until"""
    for name, e in EDGES.items()
}
CREATE_EDGES = {
    name: f"""{"CYPHER 25" if e.is_typed_by_row else ""}{_ONCE} UNWIND $rows AS row
MATCH (a:{row_label(e.source)} {{home_id: $home, {KEYS[e.source]}: row.a}})
WHERE a.since <= $number AND a.until > $number
MATCH (b:{row_label(e.target)} {{home_id: $home, {KEYS[e.target]}: row.b}})
WHERE b.since <= $number AND b.until > $number
CREATE (a)-[r:{"$(row.type)" if e.is_typed_by_row else e.type} {{since: $number}}]->(b)
SET r += row.properties{_RETURN_COUNT}"""
    for name, e in EDGES.items()
}
_MATCH_EDGE = {
    name: f"""UNWIND $rows AS row
MATCH {_pattern_from_anchor(e, f" {{home_id: $home, {_anchor_key(e)}: row.id}}")}
WHERE {_anchor(e)}.since <= $number AND {_anchor(e)}.until > $number
  AND r.key = row.key AND r.since = row.since"""
    for name, e in EDGES.items()
}
CLOSE_EDGES = {
    n: f"{_ONCE} {m} SET r.until = $number, r.home_id = $home{COPY_OF_EDGE if n in READ_EDGES else ''}{_RETURN_COUNT}"
    for n, m in _MATCH_EDGE.items()
}
REOPEN_EDGES = {
    n: f"{_ONCE} {m} REMOVE r.until, r.home_id{FORGET_COPY_OF_EDGE if n in READ_EDGES else ''}{_RETURN_COUNT}"
    for n, m in _MATCH_EDGE.items()
}
DELETE_EDGES = {n: f"{_ONCE} {m} DELETE r{_RETURN_COUNT}" for n, m in _MATCH_EDGE.items()}

# Benchmarks mark their home, so that another process can drop it where theirs was killed.
MARK_MEASURED = """
MERGE (h:PalimpsestHome {home_id: $home}) ON CREATE SET h.published = 0, h.oldest = 0
SET h.measured_on = $host, h.measured_by = $pid, h.measured_since = $began"""
MEASURED = """
MATCH (h:PalimpsestHome) WHERE h.measured_on = $host
RETURN h.home_id AS id, h.measured_by AS pid, h.measured_since AS began ORDER BY id"""


_VISIBLE_MEMORY = "m.since <= $number AND m.until > $number"

# Cypher of queries: each reads one scope of one load number, and returns whether that number is still kept.

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
    where = " AND ".join((_VISIBLE_MEMORY, "m.is_latest IS NOT NULL", *conditions))
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
    where = " AND ".join((_VISIBLE_MEMORY, *conditions))
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
WHERE {INSIDE.format("m")} AND {_VISIBLE_MEMORY}
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
MATCH (m:PalimpsestMemoryRow {SCOPE}) WHERE {_VISIBLE_MEMORY} AND m.is_latest IS NOT NULL AND m.observed_at IS NOT NULL
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
