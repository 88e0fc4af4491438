"""Cypher that moves what people see: labels and relationships of the published build.

The query path matches `...Row` labels and filters by load numbers. People write `PalimpsestMemory` and no numbers. So
that they see the published build as well, new rows get their label, closed rows lose it, and relationships that are no
longer true go. Readers of the previous build find those under the type `PALIMPSEST_CLOSED`, copied before the published
number moves.
"""

from collections.abc import Iterable, Iterator

from palimpsest.neo4j_graph.model import (
    CLOSED,
    CURRENT,
    EDGES,
    KEYS,
    NODE_LABELS,
    READ_EDGES,
    TYPES,
    current_label,
    current_labels,
    row_label,
)


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
