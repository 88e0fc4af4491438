"""Erasing: a throw-away home whole, or what a delete took from a home, with the proof that none of it is left."""

import json
from collections.abc import Sequence

from palimpsest.errors import PalimpsestError, Refused
from palimpsest.graph import cypher
from palimpsest.graph.connect import Connection, connect
from palimpsest.graph.load import LoadStats, load_graph
from palimpsest.graph.model import KEYS, at_once
from palimpsest.graph.schema import vector_indexes
from palimpsest.graph.source import home_id, is_served
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home

_BATCH = 5000
_PAGE = 2000


def drop_home(connection: Connection, home: str) -> int:
    """Deletes every node of a home, in every number, and its vector indexes; returns how many nodes went."""
    gone = 0
    # Readers are told first; then what has few edges, so that hubs have none left when they go.
    for label in ("Home", "Build", *reversed(KEYS), "Load", "LoadLock"):
        limit = at_once(label, _BATCH)
        while n := connection.write(cypher.DROP_NODES[label], home=home, limit=limit)[0]["n"]:
            gone += int(n)
    for index in vector_indexes(connection, home):
        connection.ddl(cypher.drop_index(index))
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


def forget(home: Home, probes: Sequence[str]) -> int | None:
    """Erases from the server what a delete took from a home; returns the writes, None where it was never loaded.

    Raises:
        Refused: a probe is still found.
    """
    if not is_served(home):
        return None
    with connect() as connection:
        stats = erase(home, published(home), connection, probes)
    return stats.writes if stats else 0


def erase(home: Home, build: Build | None, connection: Connection, probes: Sequence[str]) -> LoadStats | None:
    """Makes the server forget what a delete took from a home, at once and in every number, and proves it.

    The rewritten build is loaded as a difference and everything else of the home is swept, older numbers included:
    readers of those are told to open again. Nothing is done for a home that was never loaded.

    Args:
        home: whose builds were rewritten.
        build: the published one; None where none is left.
        connection: to the server.
        probes: ids and texts of what was deleted.

    Raises:
        Refused: a probe is still found; the message names the labels.
    """
    if not is_served(home):
        return None
    name = home_id(home)
    stats = LoadStats(writes=drop_home(connection, name)) if build is None else load_graph(
        home, build, connection, keep_previous=False
    )  # fmt: skip
    if left := residue(connection, name, probes):
        raise Refused(f"delete: Neo4j still holds some of it in {', '.join(left)}; run the same delete again")
    return stats


def residue(connection: Connection, home: str, probes: Sequence[str]) -> list[str]:
    """Returns the labels of a home's nodes that hold a probe in any property, whatever number they show in; sorted."""
    needles = [p.encode() for p in probes]
    found = set()
    for label in (*KEYS, "Build"):
        skip, limit = 0, at_once(label, _PAGE)
        while rows := connection.read(cypher.TEXTS[label], home=home, skip=skip, limit=limit):
            text = b"\n".join(_bytes(r["told"]) for r in rows)
            if any(n in text for n in needles):
                found.add(label)
                break
            skip += len(rows)
    return sorted(found)


def _bytes(told: dict[str, object]) -> bytes:
    plain = {k: v for k, v in told.items() if not isinstance(v, bytes | bytearray)}
    packed = b"\n".join(bytes(v) for v in told.values() if isinstance(v, bytes | bytearray))
    # Probes are raw text: JSON would write quotes and line ends another way.
    return (
        json.dumps(plain, default=str, ensure_ascii=False).encode()
        + "\n".join(map(str, plain.values())).encode()
        + packed
    )
