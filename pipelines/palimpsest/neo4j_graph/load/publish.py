"""Publishing a load: the number moves with what people see, and rows of no kept number are swept."""

from collections.abc import Callable, Iterator, Mapping

from palimpsest.core.errors import ComponentFailed
from palimpsest.neo4j_graph.cypher import loading
from palimpsest.neo4j_graph.cypher.visibility import all_visibility_statements, visibility_statements
from palimpsest.neo4j_graph.load import load_context
from palimpsest.neo4j_graph.load.load_context import LoadContext
from palimpsest.neo4j_graph.model import KEYS, batch_size

_SWEPT_PER_BATCH = 5000


def publish(load: LoadContext, oldest: int, record: Mapping[str, object]) -> None:
    """Moves the published number and what people see: in one transaction, or a large difference after it.

    Args:
        load: whose rows are written.
        oldest: the oldest number that readers may still use.
        record: what the server records of the build.

    Raises:
        ComponentFailed: another load of this home took over.
    """
    changes, writer = load.changes, load.writer
    visibility = (
        all_visibility_statements() if load.was_interrupted else visibility_statements(changes.kinds, changes.types)
    )
    in_one_transaction = changes.fits_one_transaction
    if not in_one_transaction:
        for statement, rows in changes.deferred:
            writer.once(statement, rows=rows)
        changes.deferred.clear()
    published = writer.publish(record, oldest, changes.deferred, visibility if in_one_transaction else ())
    if not published and not _is_published(load, record):
        raise ComponentFailed("neo4j: another load of this home has started since; run again")
    if not in_one_transaction:

        def run(statement: str, limit: int) -> int:
            found = load.connection.write(statement, home=load.home, number=writer.number, limit=limit)
            return int(found[0]["n"])

        run_in_batches(run, visibility, load_context.MAX_ROWS_AT_ONCE)


def run_in_batches(run: Callable[[str, int], int], statements: Iterator[str], size: int) -> None:
    """Runs each statement until it finds no more rows; `run` takes a statement and its limit and returns its count."""
    for statement in statements:
        while run(statement, size) == size:
            continue


def sweep(load: LoadContext, oldest: int) -> None:
    """Deletes the rows of no kept number. Readers of older numbers get an error before the first row is deleted."""
    load.connection.write(loading.RAISE_OLDEST, home=load.home, oldest=oldest)
    if not load.is_empty:
        _sweep_rows(load, oldest)
    load.connection.write(loading.DROP_OLDER_BUILDS, home=load.home, oldest=oldest)


def _sweep_rows(load: LoadContext, oldest: int) -> None:
    write, home = load.connection.write, load.home
    for kind in reversed(KEYS):  # a user owns a hundred thousand memories: its node is deleted after its edges
        limit = batch_size(kind, _SWEPT_PER_BATCH)
        statement = loading.SWEEP_NODES[kind]
        while (swept := write(statement, home=home, oldest=oldest, limit=limit)[0])["nodes"]:
            load.writer.writes += swept["n"]
    for statement in (*loading.SWEEP_EDGES.values(), loading.SWEEP_DETAILS):
        while count := write(statement, home=home, oldest=oldest, limit=_SWEPT_PER_BATCH)[0]["n"]:
            load.writer.writes += count


def _is_published(load: LoadContext, record: Mapping[str, object]) -> bool:
    found = load.connection.read(loading.BUILD_RECORD, home=load.home, number=load.writer.number)
    return bool(found) and found[0]["record"].get("digest") == record["digest"]
