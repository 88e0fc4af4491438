"""The rows of the graph that readers need of a whole scope: statistics, words, vectors and packed arrays."""

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.home_format import FORMAT
from palimpsest.core.ids import content_id
from palimpsest.core.scopes import GENERAL, SCOPE, ScopeKey, by_scope, scope_parts
from palimpsest.index.index_format import index_format
from palimpsest.memories.embedders.space import VectorLookup
from palimpsest.neo4j_graph.graph_vectors import GraphVectors
from palimpsest.neo4j_graph.model import MAX_CACHED_VECTORS
from palimpsest.neo4j_graph.packed import (
    ScopeStats,
    blocks_for,
    bucket_of,
    buckets_for,
    mean_and_covariance,
    pack_parts,
    pack_postings,
)
from palimpsest.query.backends.part_query import Range

_SCOPE = {**dict.fromkeys(SCOPE, pl.String), "scope_id": pl.String}
_PACKED = {**_SCOPE, "data": pl.Binary}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "ScopeStats": _PACKED | {"buckets": pl.Int64, "size": pl.Int64},
    "Postings": _PACKED | {"postings_id": pl.String},
    "VectorBlock": _SCOPE | {"block_id": pl.String, "counts": pl.List(pl.Int64), "hashes": pl.List(pl.String)},
    "ScopeArrays": _PACKED | {"arrays_id": pl.String},
}


def scope_rows(
    memories: pl.DataFrame, windows: pl.DataFrame, vectors: GraphVectors, index: Path
) -> dict[str, pl.DataFrame]:
    """Returns what a reader needs of each scope as a whole, by label: see `packed`.

    Raises:
        ComponentFailed: the index is missing, or is of other tables.
        PalimpsestError: another version wrote the index.
    """
    if not index.is_file():
        raise ComponentFailed(f"neo4j: {index}: no such file; run palimpsest build, then load again")
    if (found_format := index_format(index)) != FORMAT:
        raise PalimpsestError(
            f"neo4j: index {index}: format {found_format}, this version reads {FORMAT}; "
            "run palimpsest build, then load again"
        )
    with duckdb.connect(str(index), read_only=True) as db:
        found = db.execute("SELECT collection, user_id, project_id, first_row, size, scope FROM scopes").fetchall()
        ranges = {tuple(row[:3]): Range(*row[3:]) for row in found}
        words = db.execute("SELECT scope, term, first, df FROM terms ORDER BY scope, term").fetchnumpy()
        postings = db.execute("SELECT row, score FROM postings ORDER BY rowid").fetchnumpy()
        arrays = [
            _scope_columns(scope) | {"arrays_id": f"{scope_id_of(*scope)}:{part}", "data": data}
            for scope, at in sorted(ranges.items())
            for part, data in pack_parts(db, at)
        ]
    rows: dict[str, list[dict[str, Any]]] = {"ScopeStats": [], "Postings": [], "VectorBlock": [], "ScopeArrays": arrays}
    for scope, mine in by_scope(memories).items():
        at = ranges.get(scope, Range(0, 0, -1))
        if at.size != mine.height:
            raise ComponentFailed(f"neo4j: {index} does not match the tables; run palimpsest build again")
        beyond = windows.filter(pl.col("memory_id").is_in(mine["memory_id"].implode()))
        columns, scope_id = _scope_columns(scope), scope_id_of(*scope)
        buckets, packed = _pack_words(words, postings, at)
        data = _stats(mine, beyond, vectors.vectors_of(scope[0]))
        rows["ScopeStats"].append(columns | {"buckets": buckets, "size": at.size, "data": data})
        rows["Postings"] += [columns | {"postings_id": f"{scope_id}:{b}", "data": data} for b, data in packed]
        if mine.height + beyond.height <= MAX_CACHED_VECTORS:
            rows["VectorBlock"] += [columns | block for block in _blocks(scope_id, mine, beyond)]
    return {label: pl.DataFrame(rows[label], schema=schema) for label, schema in _SCHEMAS.items()}


def scope_id_of(collection: str, user_id: str, project_id: str = GENERAL) -> str:
    """Returns the id of a scope's packed rows."""
    return content_id("scope", *scope_parts(collection, user_id, project_id))


def _scope_columns(scope: ScopeKey) -> dict[str, Any]:
    return dict(zip(SCOPE, scope, strict=True)) | {"scope_id": scope_id_of(*scope)}


def _pack_words(
    words: dict[str, np.ndarray], postings: dict[str, np.ndarray], at: Range
) -> tuple[int, list[tuple[int, bytes]]]:
    """Returns the number of buckets of a scope's words, and (bucket, bytes) of those that have any."""
    low, high = np.searchsorted(np.asarray(words["scope"]), [at.number, at.number + 1])
    df, start = np.asarray(words["df"][low:high], np.int64), int(words["first"][low])
    own = slice(start, start + int(df.sum()))
    rows = np.asarray(postings["row"][own], np.int64) - at.first
    scores = np.asarray(postings["score"][own], np.float32)
    terms = [str(w) for w in words["term"][low:high]]
    return buckets_for(len(rows)), list(pack_postings(terms, df, rows, scores))


def _blocks(scope_id: str, mine: pl.DataFrame, beyond: pl.DataFrame) -> list[dict[str, Any]]:
    """Returns the rows of a scope's blocks: memories by id, the windows of each after its first vector."""
    count = blocks_for(mine.height + beyond.height)
    inputs = pl.concat([mine.select("memory_id", "text_hash"), beyond.select("memory_id", "text_hash")])
    number = [bucket_of(i, count) for i in inputs["memory_id"]]
    # The sort is stable: of one memory the first vector stays first.
    inputs = inputs.with_columns(pl.Series("block", number)).sort("block", "memory_id", maintain_order=True)
    each = inputs.group_by("block", "memory_id", maintain_order=True).agg("text_hash", pl.len().alias("count"))
    by_block = each.group_by("block", maintain_order=True).agg("count", "text_hash")
    return [
        {"block_id": f"{scope_id}:{b}", "counts": counts, "hashes": [h for hashes in lists for h in hashes]}
        for b, counts, lists in by_block.rows()
    ]


def _stats(mine: pl.DataFrame, beyond: pl.DataFrame, vectors: VectorLookup) -> bytes:
    latest = mine["is_latest"].to_numpy()
    mean = covariance = None
    if (count := mine.height + beyond.height) > MAX_CACHED_VECTORS:
        hashes = pl.concat([f.filter("is_latest")["text_hash"] for f in (mine, beyond)])
        mean, covariance = mean_and_covariance(vectors(hashes.to_list()))
    ids = np.array(mine["memory_id"].to_list(), dtype=object)
    return ScopeStats(ids, latest, count, mean, covariance).pack()
