"""One line about the served graph for `palimpsest doctor` and `neo4j status`."""

from palimpsest.core.errors import PalimpsestError
from palimpsest.neo4j_graph.server import server_status


def served_line() -> tuple[bool, str, str]:
    """Returns (ok, what was found, fix). No server at all is fine: it is needed only with `--backend neo4j`."""
    import os

    if not os.environ.get("NEO4J_URI") and not server_status().running:
        return True, "no server runs; needed only for --graph and --backend neo4j", "palimpsest neo4j start"
    from palimpsest.neo4j_graph.connect import connect

    try:
        with connect() as connection:
            able = connection.capabilities
            told = f"{able.version} {able.edition}, Cypher {' and '.join(able.cypher)}, filtered vector search"
            return True, f"{told} at {connection.uri}", ""
    except PalimpsestError as e:
        return False, str(e), "palimpsest neo4j start, or set NEO4J_URI, NEO4J_USER and NEO4J_PASSWORD"
