"""What assets, the command line and verify call: the published build of a home, loaded, checked and asked."""

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.scopes import SCOPE
from palimpsest.neo4j_graph import cypher
from palimpsest.neo4j_graph.check_names import CHECKS, WARNINGS
from palimpsest.neo4j_graph.checks import check_graph, check_latency
from palimpsest.neo4j_graph.connect import Connection, connect
from palimpsest.neo4j_graph.load import LoadStats, Tell, load_graph, untold
from palimpsest.neo4j_graph.load_source import Source, home_id, is_served
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home

__all__ = ["CHECKS", "WARNINGS", "check_published", "load_published"]

_QUESTIONS = 25
_WORDS_ASKED = 8


def load_published(
    home: Home, connection: Connection | None = None, tell: Tell = untold
) -> tuple[LoadStats, dict[str, list[str]]]:
    """Loads the published build and returns what was done and the violations found afterwards, by check.

    Raises:
        PalimpsestError: nothing is published, or there is no server to load into.
        ComponentFailed: the server went away; run again.
    """
    build = _published(home)
    if connection is None:
        with connect() as own:
            return load_published(home, own, tell)
    stats = load_graph(home, build, connection, tell=tell)
    found = check_graph(connection, home_id(home), stats.nodes | stats.relationships)
    if any(not line.startswith("index") for line in found):
        # Somebody else changed rows: keys and counts cannot tell which, so that none is trusted.
        tell(f"{found[0]}: writing every row again")
        before, stats = stats.writes, load_graph(home, build, connection, tell=tell, afresh=True)
        stats.writes += before
        found = check_graph(connection, home_id(home), stats.nodes | stats.relationships)
    violations: dict[str, list[str]] = {}
    for line in found + _slow(home, connection):
        violations.setdefault(line.split(":")[0], []).append(line)
    return stats, violations


def check_published(home: Home) -> list[str]:
    """Returns the violations of what the server shows of a home; that it shows another build is one of them.

    Raises:
        PalimpsestError: nothing is published, or there is no server to ask.
    """
    build = _published(home)
    if not is_served(home):
        return [f"build: {build.build_id} was never loaded; run palimpsest build --graph"]
    with connect() as connection:
        found = check_graph(connection, home_id(home))
        if found and found[0].startswith("build: nothing"):
            return found
        from palimpsest.neo4j_graph.neo4j_backend import Neo4jBackend

        reader = Neo4jBackend(home_id(home), connection)
        if (shown := reader.build_id) != build.build_id:
            found.append(f"build: {shown} is shown, {build.build_id} is published; run palimpsest build --graph")
        elif Source.of(build).fingerprint != _loaded_from(connection, home_id(home), reader.number):
            # A delete rewrites builds: one that was stopped before it reached the server leaves the old rows there.
            found.append(f"build: {shown} is not what was loaded; finish the delete, or run palimpsest build --graph")
        return found


def _loaded_from(connection: Connection, home: str, number: int) -> str:
    """Returns the fingerprint of the tables that a build on the server was made of."""
    found = connection.read(cypher.BUILD, home=home, number=number)
    return str(found[0]["told"].get("fingerprint", "")) if found else ""


def _published(home: Home) -> Build:
    build = published(home)
    if build is None:
        raise PalimpsestError(f"home {home.path}: nothing is published there; run palimpsest build --home {home.path}")
    return build


def _slow(home: Home, connection: Connection) -> list[str]:
    """Asks the largest scopes whole questions and returns a violation where p95 is over the budget."""
    from palimpsest.neo4j_graph.neo4j_backend import Neo4jBackend
    from palimpsest.query.reader import Reader
    from palimpsest.query.request.types import Scope

    memories = _published(home).tables(["memories"])["memories"]
    if memories.is_empty():
        return []
    largest = memories.group_by(SCOPE).len().sort("len", *SCOPE).row(-1)
    scope = Scope(*largest[:3])
    texts = memories.filter(**scope._asdict()).sort("memory_id")
    asked = [" ".join(t.split()[:_WORDS_ASKED]) or "what" for t in texts["text"].head(_QUESTIONS)]
    reader = Reader(Neo4jBackend(home_id(home), connection))
    return check_latency(lambda i: reader.search(asked[i % len(asked)], scope, hops=2), _QUESTIONS)
