"""The published build of a home on the server: loaded and checked, for assets, the command line and verify."""

import json
import time
from collections.abc import Callable, Mapping

import numpy as np

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import nothing_published
from palimpsest.core.ids import SCOPE
from palimpsest.memories.vector_space import Space
from palimpsest.neo4j_graph import cypher
from palimpsest.neo4j_graph.connect import Connection, connect
from palimpsest.neo4j_graph.graph_rows import graph_space
from palimpsest.neo4j_graph.identity import home_id, is_served
from palimpsest.neo4j_graph.loader import Source, count_edges, count_rows, load_graph, parse_counts
from palimpsest.neo4j_graph.model import CURRENT, DIMENSIONS, EDGES, KEYS, VECTOR_INDEX, current_label
from palimpsest.neo4j_graph.writer import LoadStats, ProgressCallback, no_progress
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home

# What must be true of the server after a load; each violation is one line that names what is wrong.

MAX_P95_MS = 400.0
_QUERIES_PER_ROUND = 40
_MAX_ROUNDS = 6
_LATENCY_CHECK_S = 30.0
_INDEXES = {*cypher.KEY_CONSTRAINTS, *cypher.RANGE_INDEXES, *cypher.FULL_TEXT_INDEXES}


def check_graph(connection: Connection, home: str, expected: Mapping[str, int] | None = None) -> list[str]:
    """Returns the violations of what the server serves of a home, sorted; none means it is sound.

    Checked: counts by label and relationship are the build's, every index is ONLINE and the vectors' has the right
    dimension, each chain of updates has one latest, and no relationship crosses a scope.

    Args:
        connection: to the server.
        home: home_id.
        expected: rows by kind and name of edge, as `GraphRows.counts`; None means what the load recorded.
    """
    served = connection.read(cypher.SERVED, home=home)
    if not served:
        return ["build: nothing of this home is published"]
    number, vector_index = served[0]["number"], served[0]["vector_index"] or VECTOR_INDEX
    if expected is None:
        record = connection.read(cypher.BUILD_RECORD, home=home, number=number)[0]["record"]
        expected = parse_counts(record["counts"])
    counts = count_rows(connection, home, number)
    return sorted(
        [
            *_check_counts(counts, expected),
            *_check_labels(connection, home, number, counts),
            *_check_indexes(connection, vector_index, _own_indexes(served[0]["collections"])),
            *_check_scopes(connection, home, number),
            *_check_versions(connection, home, number),
        ]
    )


def check_latency(
    run_query: Callable[[int], object],
    queries: int = _QUERIES_PER_ROUND,
    clock: Callable[[], float] = time.perf_counter,
) -> list[str]:
    """Returns a warning where p95 of `queries` queries stays over 400 ms; it is about the machine, not the load.

    A server is slow at first: it compiles and fills its caches. The queries are repeated in rounds, and the best round
    counts: until one is under 400 ms, at most 6 rounds, and no further round after 30 s.

    Args:
        run_query: runs the i-th query.
        queries: queries in a round.
        clock: seconds, monotonic.
    """
    began, best_ms, rounds = clock(), float("inf"), 0
    while best_ms > MAX_P95_MS and rounds < _MAX_ROUNDS and (rounds == 0 or clock() - began < _LATENCY_CHECK_S):
        took_ms = []
        for i in range(queries):
            started = clock()
            run_query(i)
            took_ms.append((clock() - started) * 1000)
        best_ms, rounds = min(best_ms, float(np.percentile(took_ms, 95))), rounds + 1
    if best_ms <= MAX_P95_MS:
        return []
    return [f"latency: p95 of {queries} queries is {best_ms:.0f} ms, over {MAX_P95_MS:.0f}, best of {rounds} rounds"]


def _check_counts(counts: Mapping[str, int], expected: Mapping[str, int]) -> list[str]:
    return [
        f"counts: {counts[n]} of {n}, the build has {expected.get(n, 0)}"
        for n in (*KEYS, *EDGES)
        if counts[n] != expected.get(n, 0)
    ]


def _check_labels(connection: Connection, home: str, number: int, counts: Mapping[str, int]) -> list[str]:
    """Checks that the labels that people write are on the rows of the published build, and on no others."""
    labelled = {r["name"]: int(r["n"]) for r in connection.read(cypher.COUNT_CURRENT, home=home)}
    violations = [
        f"labels: {labelled.get(kind, 0)} nodes are :{current_label(kind)}, the published build shows {counts[kind]}"
        for kind in CURRENT
        if labelled.get(kind, 0) != counts[kind]
    ]
    violations += [
        f"labels: {row['n']} nodes lack or wrongly have :{row['label']}"
        for row in connection.read(cypher.COUNT_MISLABELED, home=home)
        if row["n"]
    ]
    if stale := connection.read(cypher.COUNT_STALE, home=home, number=number)[0]["n"]:
        violations.append(f"labels: {stale} relationships of what is current belong to another build")
    return violations


def _own_indexes(collections: str) -> dict[str, int]:
    """Returns the dimension of the index of each space that a build has besides MiniLM's, by the index's name."""
    spaces = [Space.from_json(space) for space in json.loads(collections).get("spaces", {}).values()]
    return {s.index: s.dimensions for s in map(graph_space, spaces)}


def _check_indexes(connection: Connection, vector_index: str, own: Mapping[str, int]) -> list[str]:
    found = {r["name"]: r for r in connection.read(cypher.INDEX_STATES)}
    dimensions_of = {vector_index: DIMENSIONS, **(own if vector_index == VECTOR_INDEX else {})}
    wanted = _INDEXES | dimensions_of.keys()
    violations = [f"index: {n} is missing" for n in wanted - found.keys()]
    violations += [f"index: {n} is {found[n]['state']}" for n in wanted & found.keys() if found[n]["state"] != "ONLINE"]
    for name in sorted(dimensions_of.keys() & found.keys()):
        dimensions = found[name]["options"]["indexConfig"].get("vector.dimensions")
        if dimensions != dimensions_of[name]:
            violations.append(f"index: {name} has {dimensions} dimensions, not {dimensions_of[name]}")
    return violations


def _check_scopes(connection: Connection, home: str, number: int) -> list[str]:
    crossing = count_edges(connection, cypher.COUNT_CROSSING_EDGES, home, number)
    return [f"scope: {n} of {name} lead into another scope" for name, n in crossing.items() if n]


def _check_versions(connection: Connection, home: str, number: int) -> list[str]:
    return [
        f"latest: memory {row['id']} is {problem}"
        for statement, problem in (
            (cypher.CHAINS_WITHOUT_ONE_LATEST, "neither latest nor superseded"),
            (cypher.RETIRED_AND_LATEST, "superseded, and latest as well"),
        )
        for row in connection.read(statement, home=home, number=number)
    ]


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
        record = connection.read(cypher.SERVED, home=home_id(home))[0]
        if (served := record["build_id"]) != build.build_id:
            found.append(f"build: {served} is shown, {build.build_id} is published; run palimpsest build --graph")
        elif Source.of(build).fingerprint != _served_fingerprint(connection, home_id(home), record["number"]):
            # A delete rewrites builds: one that was stopped before it reached the server leaves the old rows there.
            found.append(f"build: {served} is not what was loaded; finish the delete, or run palimpsest build --graph")
        return found


def _served_fingerprint(connection: Connection, home: str, number: int) -> str:
    """Returns the fingerprint of the tables that a build on the server was made of."""
    found = connection.read(cypher.BUILD_RECORD, home=home, number=number)
    return str(found[0]["record"].get("fingerprint", "")) if found else ""


def _published_build(home: Home) -> Build:
    build = published(home)
    if build is None:
        raise PalimpsestError(nothing_published(home.name))
    return build


def _check_query_latency(home: Home, build: Build, connection: Connection) -> list[str]:
    """Runs whole queries in the largest scope and returns a violation where p95 is over the budget."""
    from palimpsest.neo4j_graph.neo4j_backend import Neo4jBackend
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
