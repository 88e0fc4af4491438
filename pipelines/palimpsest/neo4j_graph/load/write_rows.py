"""Brings the nodes and relationships of one kind to what the build has: delete, close, reopen, create."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import polars as pl

from palimpsest.core.errors import ComponentFailed
from palimpsest.neo4j_graph.cypher import loading
from palimpsest.neo4j_graph.graph_vectors import GraphVectors
from palimpsest.neo4j_graph.load import load_context
from palimpsest.neo4j_graph.load.load_context import LoadContext
from palimpsest.neo4j_graph.load.writer import HAVE_VECTORS, VECTOR_KINDS, edge_batches, node_batches
from palimpsest.neo4j_graph.model import CURRENT, DETAILS, EDGES, OPEN, VectorSpace, batch_size

# What a load must do to the rows that the server has of one kind or relationship: a pure comparison by key.

Row: TypeAlias = Mapping[str, Any]


@dataclass
class Difference:
    """Rows on the server, by what a load does to them.

    Attributes:
        unchanged: keys of the build's rows that need not be created.
        delete: written by an interrupted load and no longer wanted: no reader ever saw them.
        close: visible until now, and not in the build.
        reopen: in the build, closed by an interrupted load.
    """

    unchanged: set[int] = field(default_factory=set)
    delete: list[Row] = field(default_factory=list)
    close: list[Row] = field(default_factory=list)
    reopen: list[Row] = field(default_factory=list)

    def missing(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Returns the build's rows that the server lacks."""
        return frame.filter(~pl.col("key").is_in(list(self.unchanged))) if self.unchanged else frame


def difference(listed: Iterable[Row], wanted: set[int], number: int, full_reload: bool = False) -> Difference:
    """Compares what the server has with what the build has.

    Args:
        listed: `key`, `since` and `until` of each row on the server; `until` is None or `OPEN` where it is not closed.
        wanted: keys of the build's rows.
        number: the load's; rows with `since` equal to it were written by this load or by an interrupted one.
        full_reload: no row of an earlier load is trusted, whatever its key is.
    """
    out = Difference()
    # The newest first: an interrupted full reload leaves two rows of one key, of which the old one stays closed.
    for row in sorted(listed, key=lambda r: r["since"] != number):
        new, is_open = row["since"] == number, row["until"] in (None, OPEN)
        if row["key"] in wanted and (new or not full_reload) and row["key"] not in out.unchanged:
            out.unchanged.add(row["key"])
            if not is_open:
                out.reopen.append(row)
        elif new:
            out.delete.append(row)
        elif is_open:
            out.close.append(row)
    return out


# Brings the nodes and relationships of one kind to what the build has: delete, close, reopen, create.

_NODES_PER_BATCH = 1000
_EDGES_PER_BATCH = 5000

Advance = Callable[[int], None]


def write_nodes(load: LoadContext, kind: str, nodes: pl.DataFrame, vectors: GraphVectors, advance: Advance) -> float:
    """Brings the nodes of one kind to what the build has; returns the seconds that creating took."""
    writer, changes = load.writer, load.changes
    todo = _difference(load, loading.LIST_NODES[kind], nodes)
    size = batch_size(kind, _NODES_PER_BATCH)
    writer.apply(loading.DELETE_NODES[kind], todo.delete, size)
    writer.apply(loading.CLOSE_NODES[kind], todo.close, _NODES_PER_BATCH, until=writer.number)
    writer.apply(loading.REOPEN_NODES[kind], todo.reopen, _NODES_PER_BATCH, until=OPEN)
    new = todo.missing(nodes)
    if not load.is_first and (new.height or todo.close):
        changes.kinds.add(kind)
        changes.rows += len(todo.close) + (new.height if kind in CURRENT else 0)
    started = time.perf_counter()
    advance(len(todo.unchanged))
    for space, lookup, part in vectors.parts(new) if kind in HAVE_VECTORS else [(load.space, vectors.lookup, new)]:
        statement = _create_statement(load, kind, space)
        for batch in node_batches(kind, part, lookup, size):
            writer.once(statement, rows=batch, open=OPEN)
            advance(len(batch))
    load.stats.created += new.height
    writer.writes += new.height
    return time.perf_counter() - started


def write_details(load: LoadContext, nodes: pl.DataFrame) -> None:
    """Sets `DETAILS` of the nodes that stay where they differ; a small number is deferred until publishing."""
    stored = {r["id"]: r["details"] for r in ([] if load.is_empty else load.writer.list_rows(loading.LIST_DETAILS))}
    details = nodes["details"].to_list()
    differ = [i in stored and stored[i] != value for i, value in zip(nodes["id"], details, strict=True)]
    todo = nodes.filter(pl.Series(differ, dtype=pl.Boolean)).select(
        "id", pl.struct(*DETAILS, "details").alias("properties")
    )
    for part in todo.iter_slices(_NODES_PER_BATCH):
        batch = list[Mapping[str, Any]](part.to_dicts())
        if load.changes.deferred_rows + len(batch) <= load_context.MAX_ROWS_AT_ONCE:
            load.changes.deferred.append((loading.SET_DETAILS, batch))
        else:
            load.writer.once(loading.SET_DETAILS, rows=batch)
    load.writer.writes += todo.height


def write_edges(load: LoadContext, name: str, edges: pl.DataFrame | None, advance: Advance) -> None:
    """Brings the relationships of one name to what the build has; a small number is deferred until publishing.

    Raises:
        ComponentFailed: the server created another number of relationships than were sent.
    """
    writer, changes = load.writer, load.changes
    todo = _difference(load, loading.LIST_EDGES[name], edges)
    statements: Sequence[tuple[str, Sequence[Mapping[str, Any]]]] = (
        (loading.DELETE_EDGES[name], todo.delete),
        (loading.CLOSE_EDGES[name], todo.close),
        (loading.REOPEN_EDGES[name], todo.reopen),
    )
    for statement, rows in statements:
        writer.apply(statement, rows, _EDGES_PER_BATCH)
    if todo.close:
        changes.types.add(EDGES[name].type)
        changes.rows += len(todo.close)
    if edges is None:
        return
    new = todo.missing(edges)
    advance(len(todo.unchanged))
    for batch in edge_batches(new, _EDGES_PER_BATCH):
        if not load.is_first and changes.deferred_rows + len(batch) <= load_context.MAX_ROWS_AT_ONCE:
            changes.deferred.append((loading.CREATE_EDGES[name], batch))
        else:
            created = writer.once(loading.CREATE_EDGES[name], rows=batch)
            if created not in (None, len(batch)):
                raise ComponentFailed(f"neo4j: {created} of {len(batch)} {name} were created; run again")
        advance(len(batch))
    writer.writes += new.height


def _create_statement(load: LoadContext, kind: str, space: VectorSpace) -> str:
    is_visible_at_once = load.is_first and kind in CURRENT
    if kind in VECTOR_KINDS:
        return loading.create_vector_nodes(kind, load.index_of(space).label, is_visible_at_once)
    return loading.create_nodes(kind, is_visible_at_once)


def _difference(load: LoadContext, listing: str, frame: pl.DataFrame | None) -> Difference:
    wanted = set(frame["key"].to_list()) if frame is not None else set()
    listed = [] if load.is_empty else load.writer.list_rows(listing)
    return difference(listed, wanted, load.writer.number, load.full_reload)
