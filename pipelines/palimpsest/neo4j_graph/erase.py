"""Erasing: a whole throw-away home, or what a delete took from a home, with the proof that none of it is left."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from palimpsest.core.errors import PalimpsestError, Refused
from palimpsest.neo4j_graph.connect import Connection, connect
from palimpsest.neo4j_graph.identity import ID_FILE, home_id
from palimpsest.neo4j_graph.loader import load_graph
from palimpsest.neo4j_graph.migrations import drop, drop_own_vector_index, remaining_labels, rename_kinds
from palimpsest.neo4j_graph.model import KEYS, batch_size, row_label
from palimpsest.neo4j_graph.writer import LoadStats
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home

Probes: TypeAlias = Sequence[str] | Callable[[bytes], bool]
"""What must not be found: strings, or a function that returns whether bytes contain one of any number of them."""

_NODES_PER_BATCH = 5000
_NODES_PER_PAGE = 2000
_FIRST_LABELS = ("PalimpsestHome", "PalimpsestBuild")
_LAST_LABELS = ("PalimpsestLoad", "PalimpsestLoadLock")
# What readers look at is deleted first; then kinds with few edges, so that hubs have none left when they are deleted.
DROP_NODES = {
    label: (f"MATCH (n:{label} {{home_id: $home}}) WITH n LIMIT $limit DETACH DELETE n RETURN count(*) AS n", limit)
    for label, limit in (
        *((label, _NODES_PER_BATCH) for label in _FIRST_LABELS),
        *((row_label(kind), batch_size(kind, _NODES_PER_BATCH)) for kind in reversed(KEYS)),
        *((label, _NODES_PER_BATCH) for label in _LAST_LABELS),
    )
}
_VECTORS = {"VectorBlock": ", data: null", "Node": ", vector: null, was_vector: null"}
_READ_NODES = {
    kind: f"""
MATCH (n:{label} {{home_id: $home}})
RETURN n {{.*, embedding: null, key: null{_VECTORS.get(kind, "")}}} AS properties"""
    for kind, label in (*((kind, row_label(kind)) for kind in KEYS), ("Build", "PalimpsestBuild"))
} | {
    "relationships": f"""
MATCH (n:{row_label("Node")} {{home_id: $home}})-[r]-() WHERE startNode(r) = n OR r.fact_id IS NOT NULL
RETURN r {{.*, key: null}} AS properties"""
}


def drop_home(connection: Connection, home: str) -> int:
    """Deletes every node of a home, in every number, and its own vector index; returns the number of nodes."""
    rename_kinds(connection, home)
    deleted = drop(connection, home)
    for statement, limit in DROP_NODES.values():
        while n := connection.write(statement, home=home, limit=limit)[0]["n"]:
            deleted += int(n)
    drop_own_vector_index(connection, home)
    return deleted


def check_server(home: Home) -> None:
    """Makes sure, before anything is deleted from a home that was loaded into Neo4j, that the server answers.

    Raises:
        PalimpsestError: no server answers.
    """
    try:
        connect().close()
    except PalimpsestError as e:
        fix = f"or, where that server is gone for good, remove {home.path / ID_FILE}"
        raise type(e)(f"delete: this home is in Neo4j too: {e}; {fix}") from None


def forget(home: Home, probes: Probes) -> int:
    """Erases from the server what a delete took from a home that was loaded; returns the writes.

    Raises:
        Refused: a probe is still found.
    """
    with connect() as connection:
        return _erase(home, published(home), connection, probes).writes


def _erase(home: Home, build: Build | None, connection: Connection, probes: Probes) -> LoadStats:
    """Erases what a delete took from a home, in every number, and proves it.

    The rewritten build is loaded as a difference and everything else of the home is swept, older numbers included:
    readers of those must open again.

    Raises:
        Refused: a probe is still found.
    """
    name = home_id(home)
    stats = (
        LoadStats(writes=drop_home(connection, name))
        if build is None
        else load_graph(home, build, connection, keep_previous=False)
    )
    if left := residue(connection, name, probes):
        raise Refused(f"delete: Neo4j still contains some of it in {', '.join(left)}; run the same delete again")
    return stats


def residue(connection: Connection, home: str, probes: Probes) -> list[str]:
    """Returns the kinds of a home's nodes that have a probe in any property, in every number; sorted.

    Each node is read once, and so are facts and edges between nodes, as `relationships`: the others contain no text and
    no id but that of a relation, and go with their memories. Vectors are not searched: they contain no text. Labels of
    an earlier version are listed where nodes of the home still have one.
    """
    contains = probes if callable(probes) else _contains_any(probes)
    kinds = (kind for kind in _READ_NODES if any(contains(page) for page in _pages(connection, home, kind)))
    return sorted({*remaining_labels(connection, home), *kinds})


def _pages(connection: Connection, home: str, kind: str) -> Iterator[bytes]:
    """Yields the properties of the nodes of a kind as bytes, some nodes at a time."""
    size = batch_size(kind, _NODES_PER_PAGE)
    with connection.session(fetch_size=size) as session:
        found = session.run(_READ_NODES[kind], home=home)
        while rows := found.fetch(size):
            yield b"\n".join(_to_bytes(r["properties"]) for r in rows)


def _contains_any(probes: Sequence[str]) -> Callable[[bytes], bool]:
    needles = [p.encode("utf-8", "surrogatepass") for p in probes]
    return lambda data: any(n in data for n in needles)


def _to_bytes(properties: Mapping[str, object]) -> bytes:
    plain = {k: v for k, v in properties.items() if not isinstance(v, bytes | bytearray)}
    packed = b"\n".join(bytes(v) for v in properties.values() if isinstance(v, bytes | bytearray))
    # Probes are raw text, and JSON escapes quotes and line ends: strings are searched unescaped as well.
    return (
        json.dumps(plain, default=str, ensure_ascii=False).encode()
        + "\n".join(map(str, plain.values())).encode()
        + packed
    )
