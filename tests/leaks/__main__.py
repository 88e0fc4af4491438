"""`python -m tests.leaks`: prints the report; exit code 1 where anything leaked."""

import argparse
import json
import secrets
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from palimpsest.query.scope.backend import Backend
from tests.leaks.canary_home import CanaryHome, canary_home, hash_vectors, write_home
from tests.leaks.leak_search import search_for_leaks


@contextmanager
def _serve(made: CanaryHome, backend: str) -> Iterator[Backend]:
    """Yields a backend that has the home, removed from it at the end."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        index = write_home(made, Path(folder))
        if backend == "duckdb":
            from palimpsest.query.backends.duckdb_backend import DuckDBBackend

            yield stack.enter_context(closing(DuckDBBackend(index)))
            return
        from palimpsest.neo4j_graph.connect import connect
        from palimpsest.neo4j_graph.loader import drop_home, load_tables
        from palimpsest.neo4j_graph.neo4j_backend import Neo4jBackend

        home_id = secrets.token_hex(8)
        connection = stack.enter_context(connect())
        stack.callback(drop_home, connection, home_id)
        load_tables(home_id, made.tables, hash_vectors, index, "made", connection)
        yield Neo4jBackend(home_id, connection)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the searches, prints the report; returns 1 where anything leaked."""
    parser = argparse.ArgumentParser(description="Search a made home for leaks between scopes and past filters.")
    parser.add_argument("--searches", type=int, default=10_000, help="how many random searches")
    parser.add_argument("--seed", type=int, default=1, help="of the random choices")
    parser.add_argument("--backend", choices=("duckdb", "neo4j"), default="duckdb", help="the store that is searched")
    args = parser.parse_args(argv)
    made = canary_home()
    with _serve(made, args.backend) as backend:
        report = search_for_leaks(backend, made, args.searches, args.seed)
    sys.stdout.write(json.dumps(report.to_json(), sort_keys=True) + "\n")
    return 1 if report.leaks else 0


if __name__ == "__main__":
    raise SystemExit(main())
