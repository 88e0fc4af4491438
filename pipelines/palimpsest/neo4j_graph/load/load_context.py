"""What the parts of one load share: the server's state as the load began, and what the load changed since."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.cypher import loading
from palimpsest.neo4j_graph.load.writer import Batch, Writer
from palimpsest.neo4j_graph.model import VectorSpace

# What a load did, and how it reports progress.

ProgressCallback: TypeAlias = Callable[[str], object]
"""Takes a line after each part of a load, for a log."""


def no_progress(_: str) -> None:
    """Reports nothing."""


@dataclass
class LoadStats:
    """What a load did.

    Attributes:
        writes: rows created, closed (with the copies that readers of the previous build follow), reopened, deleted and
            swept; 0 where nothing changed. Labels that move with the published number are not rows.
        nodes: rows of the build, by kind.
        relationships: rows of the build, by name.
        created: nodes created.
        nodes_per_s: nodes created a second, while creating them.
        seconds: of each part, and in all.
        number: the published load number after the load.
    """

    writes: int = 0
    nodes: dict[str, int] = field(default_factory=dict)
    relationships: dict[str, int] = field(default_factory=dict)
    created: int = 0
    nodes_per_s: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    number: int = 0


# What the parts of one load share: the server's state as the load began, and what the load changed since.

MAX_ROWS_AT_ONCE = 20_000
"""How many rows may change in the transaction that publishes; a larger difference becomes visible in batches."""


@dataclass
class Changes:
    """What a load changed that people see, and what it does only as it publishes.

    Attributes:
        kinds: of nodes that changed.
        types: of relationships that were closed.
        rows: closed rows, and new nodes of the kinds that people look at.
        deferred: statements that write rows, with their rows, run as the number moves.
    """

    kinds: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    rows: int = 0
    deferred: list[tuple[str, Batch]] = field(default_factory=list)

    @property
    def deferred_rows(self) -> int:
        """Rows of the deferred statements."""
        return sum(len(rows) for _, rows in self.deferred)

    @property
    def fits_one_transaction(self) -> bool:
        """Whether all of it may change in the transaction that publishes."""
        return self.rows + self.deferred_rows <= MAX_ROWS_AT_ONCE


@dataclass
class LoadContext:
    """One load of a home.

    Attributes:
        home: home_id.
        connection: to the server.
        writer: of the load's batches.
        full_reload: every row is written again, whatever the server has.
        is_first: nothing of the home is published.
        was_interrupted: an earlier load did not end.
        is_empty: the server has no row of the home.
        oldest: the oldest number that readers may use.
        space: a benchmark's own, which all of its vectors are in; else the plain one.
    """

    home: str
    connection: Connection
    writer: Writer
    full_reload: bool
    is_first: bool
    was_interrupted: bool
    is_empty: bool
    oldest: int
    space: VectorSpace
    changes: Changes = field(default_factory=Changes)
    stats: LoadStats = field(default_factory=LoadStats)

    def index_of(self, space: VectorSpace) -> VectorSpace:
        """Returns the label and index that vectors of a space get."""
        return space if self.space == VectorSpace() else self.space


def begin_load(connection: Connection, home: str, writer: Writer, full_reload: bool) -> LoadContext:
    """Records on the server that a load begins, and returns its context; `writer` gets the numbers."""
    state = connection.write(loading.BEGIN_LOAD, home=home, token=writer.token)[0]
    writer.published, writer.number = state["published"], state["published"] + 1
    is_first, was_interrupted = state["published"] == 0, state["interrupted"]
    # Nothing is listed or swept in an empty home: planning those sixty statements takes a new server seconds.
    # A home whose deletion was interrupted has rows and no record of a load.
    is_empty = is_first and not was_interrupted and connection.read(loading.IS_EMPTY, home=home)[0]["empty"]
    space = VectorSpace.of_measured(home) if state["measured"] else VectorSpace()
    return LoadContext(
        home, connection, writer, full_reload, is_first, was_interrupted, is_empty, state["oldest"], space
    )
