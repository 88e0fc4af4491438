"""What people see: labels and relationships of the published build, moved as the published number moves.

The query path matches `...Row` labels and filters by build numbers. People write `PalimpsestMemory` and no numbers. So
that they are right as well, the transaction that moves the published number also gives new rows their label, takes it
from closed rows, and removes relationships that are no longer true. Readers of the build before find those under the
type `PALIMPSEST_CLOSED`, copied before the published number moves.
"""

from collections.abc import Callable, Iterator

from palimpsest.neo4j_graph.graph_model import CLOSED, CURRENT, KEYS, READ_BY_BACKEND, TYPES, current_label, row_label

AT_ONCE = 20_000
"""So many rows may change in one transaction; a larger difference is shown in batches, after the number has moved."""

ALL = 2**31 - 1

_READ = "|".join(READ_BY_BACKEND)
COPY_OF_NODE = f"""
WITH n OPTIONAL MATCH (n)-[r:{_READ}]-(o) WHERE r.until IS NULL AND r.since < $number AND o.until > $number
FOREACH (_ IN CASE WHEN r IS NULL OR startNode(r) <> n THEN [] ELSE [1] END |
  CREATE (n)-[c:{CLOSED}]->(o) SET c = properties(r), c.was = type(r))
FOREACH (_ IN CASE WHEN r IS NULL OR startNode(r) = n THEN [] ELSE [1] END |
  CREATE (o)-[c:{CLOSED}]->(n) SET c = properties(r), c.was = type(r))
WITH n, count(r) AS copies RETURN sum(1 + copies) AS n"""
"""Ends a statement that closes nodes `n`: readers of the build before still follow their relationships."""
FORGET_COPIES_OF_NODE = f"""
WITH n OPTIONAL MATCH (n)-[c:{CLOSED}]-(o) WHERE c.until IS NULL AND o.until >= $number
DELETE c RETURN count(DISTINCT n) AS n"""
COPY_OF_EDGE = f" CREATE (a)-[c:{CLOSED}]->(b) SET c = properties(r), c.was = type(r)"
FORGET_COPY_OF_EDGE = f"""
WITH a, b, r OPTIONAL MATCH (a)-[c:{CLOSED}]->(b) WHERE c.was = type(r) AND c.key = r.key DELETE c"""

SHOW_NODES = {
    kind: f"""
MATCH (n:{row_label(kind)} {{home_id: $home}})
WHERE n.since <= $number AND n.until > $number AND NOT n:{current_label(kind)}
WITH n LIMIT $limit SET n:{current_label(kind)} RETURN count(*) AS n"""
    for kind in CURRENT
}
HIDE_NODES = {
    kind: f"""
MATCH (n:{current_label(kind)} {{home_id: $home}}) WHERE n.until <= $number
WITH n LIMIT $limit REMOVE n:{current_label(kind)} RETURN count(*) AS n"""
    for kind in CURRENT
}
DROP_EDGES_OF_CLOSED_NODES = {
    kind: f"""
MATCH (n:{row_label(kind)} {{home_id: $home}}) WHERE n.until <= $number
MATCH (n)-[r:{"|".join(TYPES)}]-(o) WHERE o.until > $number
WITH r LIMIT $limit DELETE r RETURN count(*) AS n"""
    for kind in KEYS
}
DROP_CLOSED_EDGES = {
    t: f"""
MATCH ()-[r:{t}]->() WHERE r.home_id = $home AND r.until <= $number
WITH r LIMIT $limit DELETE r RETURN count(*) AS n"""
    for t in TYPES
}
COUNT_CURRENT = "\nUNION ALL\n".join(
    f"MATCH (n:{current_label(kind)} {{home_id: $home}}) RETURN '{kind}' AS name, count(*) AS n" for kind in CURRENT
)
COUNT_STALE = f"""
MATCH (n:{"|".join(map(current_label, CURRENT))} {{home_id: $home}})-[r]->(o) WHERE type(r) <> '{CLOSED}'
  AND (r.until <= $number OR r.since > $number OR o.until <= $number OR o.since > $number)
RETURN count(*) AS n"""


def statements(kinds: set[str], types: set[str]) -> Iterator[str]:
    """Yields what makes people see the published build, where rows of these kinds and types changed."""
    yield from (SHOW_NODES[k] for k in CURRENT if k in kinds)
    yield from (HIDE_NODES[k] for k in CURRENT if k in kinds)
    yield from (DROP_EDGES_OF_CLOSED_NODES[k] for k in KEYS if k in kinds)
    yield from (DROP_CLOSED_EDGES[t] for t in TYPES if t in types)


def everything() -> Iterator[str]:
    """Yields the statements of every kind and type: what a load that was cut short left is not known."""
    return statements(set(KEYS), set(TYPES))


def in_batches(run: Callable[[str, int], int], told: Iterator[str], size: int) -> None:
    """Runs each statement until it finds no more rows. `run` takes a statement and its limit and returns its count."""
    for statement in told:
        while run(statement, size) == size:
            continue
