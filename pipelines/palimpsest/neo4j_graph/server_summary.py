"""One line about the server for `palimpsest doctor`."""

import os
from typing import NamedTuple

from palimpsest.core.errors import PalimpsestError
from palimpsest.neo4j_graph.server.local_server import server_status


class ServerSummary(NamedTuple):
    """Whether the server can be used, what was found, and what to do where it cannot."""

    ok: bool
    found: str
    fix: str


def summarize_server() -> ServerSummary:
    """Returns what is found of the server. None at all is fine: it is needed only with `--backend neo4j`."""
    if not os.environ.get("NEO4J_URI") and not server_status().running:
        return ServerSummary(
            True, "no server runs; needed only for --graph and --backend neo4j", "palimpsest neo4j start"
        )
    from palimpsest.neo4j_graph.connect import connect

    try:
        with connect() as connection:
            found = connection.capabilities
            cypher = " and ".join(found.cypher)
            line = f"{found.version} {found.edition}, Cypher {cypher}, filtered vector search at {connection.uri}"
            return ServerSummary(True, line, "")
    except PalimpsestError as e:
        return ServerSummary(False, str(e), "palimpsest neo4j start, or set NEO4J_URI, NEO4J_USER and NEO4J_PASSWORD")
