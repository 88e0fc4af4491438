"""The published build of a home on the server: loaded and checked, for assets, the command line and verify."""

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.published import nothing_published
from palimpsest.core.scopes import SCOPE
from palimpsest.neo4j_graph.checks import check_graph, check_latency
from palimpsest.neo4j_graph.connect import Connection, connect
from palimpsest.neo4j_graph.cypher import loading, querying
from palimpsest.neo4j_graph.identity import home_id, is_served
from palimpsest.neo4j_graph.load.load_source import Source
from palimpsest.neo4j_graph.load.load_stats import LoadStats, ProgressCallback, no_progress
from palimpsest.neo4j_graph.load.loader import load_graph
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home

_LATENCY_QUERIES = 25
_WORDS_PER_QUERY = 8


def load_published(
    home: Home, connection: Connection | None = None, report: ProgressCallback = no_progress
) -> tuple[LoadStats, dict[str, list[str]]]:
    """Loads the published build and returns what was done and the violations found afterwards, by check.

    Raises:
        PalimpsestError: nothing is published, or there is no server to load into.
        ComponentFailed: the server went away; run again.
    """
    build = _published_build(home)
    if connection is None:
        with connect() as own:
            return load_published(home, own, report)
    stats = load_graph(home, build, connection, report=report)
    found = check_graph(connection, home_id(home), stats.nodes | stats.relationships)
    if any(not line.startswith("index") for line in found):
        # Somebody else changed rows: keys and counts cannot say which, so that none is trusted.
        report(f"{found[0]}: writing every row again")
        before, stats = stats.writes, load_graph(home, build, connection, report=report, full_reload=True)
        stats.writes += before
        found = check_graph(connection, home_id(home), stats.nodes | stats.relationships)
    violations: dict[str, list[str]] = {}
    for line in found + _check_query_latency(home, build, connection):
        violations.setdefault(line.split(":")[0], []).append(line)
    return stats, violations


def check_published(home: Home) -> list[str]:
    """Returns the violations of what the server serves of a home; that it is another build is one of them.

    Raises:
        PalimpsestError: nothing is published, or there is no server.
    """
    build = _published_build(home)
    if not is_served(home):
        return [f"build: {build.build_id} was never loaded; run palimpsest build --graph"]
    with connect() as connection:
        found = check_graph(connection, home_id(home))
        if found and found[0].startswith("build: nothing"):
            return found
        record = connection.read(querying.SERVED, home=home_id(home))[0]
        if (served := record["build_id"]) != build.build_id:
            found.append(f"build: {served} is shown, {build.build_id} is published; run palimpsest build --graph")
        elif Source.of(build).fingerprint != _served_fingerprint(connection, home_id(home), record["number"]):
            # A delete rewrites builds: one that was stopped before it reached the server leaves the old rows there.
            found.append(f"build: {served} is not what was loaded; finish the delete, or run palimpsest build --graph")
        return found


def _served_fingerprint(connection: Connection, home: str, number: int) -> str:
    """Returns the fingerprint of the tables that a build on the server was made of."""
    found = connection.read(loading.BUILD_RECORD, home=home, number=number)
    return str(found[0]["record"].get("fingerprint", "")) if found else ""


def _published_build(home: Home) -> Build:
    build = published(home)
    if build is None:
        raise PalimpsestError(nothing_published(home.name))
    return build


def _check_query_latency(home: Home, build: Build, connection: Connection) -> list[str]:
    """Runs whole queries in the largest scope and returns a violation where p95 is over the budget."""
    from palimpsest.neo4j_graph.backend.neo4j_backend import Neo4jBackend
    from palimpsest.query.reader import Reader
    from palimpsest.query.request.types import Scope

    memories = build.tables(["memories"])["memories"]
    if memories.is_empty():
        return []
    largest = memories.group_by(SCOPE).len().sort("len", *SCOPE).row(-1)
    scope = Scope(*largest[:3])
    texts = memories.filter(**scope._asdict()).sort("memory_id")["text"].head(_LATENCY_QUERIES)
    queries = [" ".join(text.split()[:_WORDS_PER_QUERY]) or "what" for text in texts]
    reader = Reader(Neo4jBackend(home_id(home), connection))
    return check_latency(lambda i: reader.search(queries[i % len(queries)], scope, hops=2), _LATENCY_QUERIES)
