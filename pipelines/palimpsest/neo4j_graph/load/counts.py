"""How many rows of each kind and relationship there are: on the server, and in its record of a build."""

from collections.abc import Mapping, Sequence

from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.cypher import ddl
from palimpsest.neo4j_graph.model import EDGES, KEYS, ROW_KINDS

_BY_ROW = {f"{e.source}-{{}}-{e.target}": name for name, e in EDGES.items() if e.is_typed_by_row}


def count_rows(connection: Connection, home: str, number: int) -> dict[str, int]:
    """Returns how many rows of each kind and relationship are visible under a load number."""
    found = {r["name"]: int(r["n"]) for r in connection.read(ddl.COUNT_NODES, home=home, number=number)}
    return dict.fromkeys(KEYS, 0) | found | count_edges(connection, ddl.COUNT_EDGES, home, number)


def count_edges(connection: Connection, statement: str, home: str, number: int) -> dict[str, int]:
    """Returns the counts of an aggregate over edges by their name; edges outside the model are left out."""
    out = dict.fromkeys(EDGES, 0)
    for row in connection.read(statement, home=home, number=number):
        for end in row["ends"]:
            ends = f"{row['source']}-{{}}-{ROW_KINDS.get(end)}"
            if (name := ends.format(row["type"])) in out or (name := _BY_ROW.get(ends, "")):
                out[name] += int(row["n"])
    return out


def parse_counts(lines: Sequence[str]) -> dict[str, int]:
    """Reads the counts of a build as the server records them; a name that is not listed has no rows."""
    counts = {name: int(count) for name, count in (line.rsplit(" ", 1) for line in lines)}
    return {name: counts.get(name, 0) for name in (*KEYS, *EDGES)}


def format_counts(counts: Mapping[str, int]) -> list[str]:
    """Returns counts as the server records them."""
    return [f"{name} {count}" for name, count in sorted(counts.items())]
