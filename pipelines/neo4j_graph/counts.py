"""How many rows of each label and relationship there are: on the server, and in its record of a build."""

from collections.abc import Mapping, Sequence

from palimpsest.neo4j_graph import cypher
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.graph_model import EDGES, KEYS, ROW_KINDS


def count_rows(connection: Connection, home: str, number: int) -> dict[str, int]:
    """Returns how many rows of each label and each kind of relationship the server shows under a number."""
    found = {r["name"]: int(r["n"]) for r in connection.read(cypher.COUNT_NODES, home=home, number=number)}
    return dict.fromkeys(KEYS, 0) | found | edge_counts(connection, cypher.COUNT_EDGES, home, number)


def edge_counts(connection: Connection, statement: str, home: str, number: int) -> dict[str, int]:
    """Returns what a statement over edges tells of each kind of relationship; others are not in the model."""
    out = dict.fromkeys(EDGES, 0)
    for row in connection.read(statement, home=home, number=number):
        for end in row["ends"]:
            if (name := f"{row['source']}-{row['type']}-{ROW_KINDS.get(end)}") in out:
                out[name] += int(row["n"])
    return out


def parse_counts(lines: Sequence[str]) -> dict[str, int]:
    """Reads the counts of a build as the server records them; what is not named has no rows."""
    told = {n: int(c) for n, c in (line.rsplit(" ", 1) for line in lines)}
    return {n: told.get(n, 0) for n in (*KEYS, *EDGES)}


def count_lines(counts: Mapping[str, int]) -> list[str]:
    """Returns counts as the server records them."""
    return [f"{n} {c}" for n, c in sorted(counts.items())]
