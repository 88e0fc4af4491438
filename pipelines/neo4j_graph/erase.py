"""Erasing: a throw-away home whole, or what a delete took from a home, with the proof that none of it is left."""

import json
from collections.abc import Callable, Iterator, Sequence

from palimpsest.core.errors import PalimpsestError, Refused
from palimpsest.neo4j_graph import legacy
from palimpsest.neo4j_graph.connect import Connection, connect
from palimpsest.neo4j_graph.graph_model import KEYS, at_once, row_label
from palimpsest.neo4j_graph.load import LoadStats, load_graph
from palimpsest.neo4j_graph.load_source import home_id, is_served
from palimpsest.neo4j_graph.schema import drop_own_vector_index
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home

Probes = Sequence[str] | Callable[[bytes], bool]
"""What must not be found: strings, or a function that tells whether bytes hold one of them, for any number of them."""

_BATCH = 5000
_PAGE = 2000
_FIRST = ("PalimpsestHome", "PalimpsestBuild")
_LAST = ("PalimpsestLoad", "PalimpsestLoadLock")
# Readers are told first; then what has few edges, so that hubs have none left when they go.
DROP_NODES = {
    label: (f"MATCH (n:{label} {{home_id: $home}}) WITH n LIMIT $limit DETACH DELETE n RETURN count(*) AS n", limit)
    for label, limit in (
        *((label, _BATCH) for label in _FIRST),
        *((row_label(kind), at_once(kind, _BATCH)) for kind in reversed(KEYS)),
        *((label, _BATCH) for label in _LAST),
    )
}
_HELD = {
    kind: f"""
MATCH (n:{label} {{home_id: $home}})
RETURN n {{.*, embedding: null, key: null{", data: null" if kind == "VectorBlock" else ""}}} AS told"""
    for kind, label in (*((kind, row_label(kind)) for kind in KEYS), ("Build", "PalimpsestBuild"))
}


def drop_home(connection: Connection, home: str) -> int:
    """Deletes every node of a home, in every number, and its own vector index; returns how many nodes went."""
    gone = legacy.drop(connection, home)
    for statement, limit in DROP_NODES.values():
        while n := connection.write(statement, home=home, limit=limit)[0]["n"]:
            gone += int(n)
    drop_own_vector_index(connection, home)
    return gone


def check_server(home: Home) -> None:
    """Makes sure, before anything is deleted, that a home's server can be made to forget as well.

    Raises:
        PalimpsestError: the home was loaded into Neo4j, and no server that can be asked answers.
    """
    if not is_served(home):
        return
    try:
        connect().close()
    except PalimpsestError as e:
        gone = f"or, where that server is gone for good, remove {home.path / 'neo4j.json'}"
        raise type(e)(f"delete: this home is in Neo4j too: {e}; {gone}") from None


def forget(home: Home, probes: Probes) -> int | None:
    """Erases from the server what a delete took from a home; returns the writes, None where it was never loaded.

    Raises:
        Refused: a probe is still found.
    """
    if not is_served(home):
        return None
    with connect() as connection:
        stats = erase(home, published(home), connection, probes)
    return stats.writes if stats else 0


def erase(home: Home, build: Build | None, connection: Connection, probes: Probes) -> LoadStats | None:
    """Makes the server forget what a delete took from a home, at once and in every number, and proves it.

    The rewritten build is loaded as a difference and everything else of the home is swept, older numbers included:
    readers of those are told to open again. Nothing is done for a home that was never loaded.

    Args:
        home: whose builds were rewritten.
        build: the published one; None where none is left.
        connection: to the server.
        probes: ids and texts of what was deleted, any number.

    Raises:
        Refused: a probe is still found; the message names the labels.
    """
    if not is_served(home):
        return None
    name = home_id(home)
    stats = (
        LoadStats(writes=drop_home(connection, name))
        if build is None
        else load_graph(home, build, connection, keep_previous=False)
    )
    if left := residue(connection, name, probes):
        raise Refused(f"delete: Neo4j still holds some of it in {', '.join(left)}; run the same delete again")
    return stats


def residue(connection: Connection, home: str, probes: Probes) -> list[str]:
    """Returns the kinds of a home's nodes that hold a probe in any property, whatever number they show in; sorted.

    Each node is read once. Vectors are not searched: they hold no text. Labels of an earlier version are named where
    nodes of the home still bear one.
    """
    holds = probes if callable(probes) else _any_of(probes)
    kinds = (kind for kind in _HELD if any(holds(page) for page in _pages(connection, home, kind)))
    return sorted({*legacy.held(connection, home), *kinds})


def _pages(connection: Connection, home: str, kind: str) -> Iterator[bytes]:
    """Yields what the nodes of a kind say, a few nodes at a time."""
    size = at_once(kind, _PAGE)
    with connection.session(fetch_size=size) as session:
        found = session.run(_HELD[kind], home=home)
        while rows := found.fetch(size):
            yield b"\n".join(_bytes(r["told"]) for r in rows)


def _any_of(probes: Sequence[str]) -> Callable[[bytes], bool]:
    needles = [p.encode("utf-8", "surrogatepass") for p in probes]
    return lambda data: any(n in data for n in needles)


def _bytes(told: dict[str, object]) -> bytes:
    plain = {k: v for k, v in told.items() if not isinstance(v, bytes | bytearray)}
    packed = b"\n".join(bytes(v) for v in told.values() if isinstance(v, bytes | bytearray))
    # Probes are raw text: JSON would write quotes and line ends another way.
    return (
        json.dumps(plain, default=str, ensure_ascii=False).encode()
        + "\n".join(map(str, plain.values())).encode()
        + packed
    )
