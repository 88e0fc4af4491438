"""Cypher of loading: the lock, batches that are applied once, the difference of nodes and edges, and sweeping."""

from collections.abc import Iterable, Iterator

from palimpsest.neo4j_graph.model import (
    CLOSED,
    CURRENT,
    DETAILS,
    EDGES,
    KEYS,
    NODE_LABELS,
    READ_EDGES,
    TYPES,
    Edge,
    current_label,
    current_labels,
    row_label,
)

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
