"""The rows of the graph that hold what readers need of a whole scope: statistics, words, vectors and packed arrays."""

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.ids import content_id
from palimpsest.core.scopes import GENERAL, SCOPE, ScopeKey, by_scope, scope_parts
from palimpsest.index.write_index import VectorLookup
from palimpsest.neo4j_graph.arrays import scope_arrays
from palimpsest.neo4j_graph.model import MAX_CACHED_VECTORS
from palimpsest.neo4j_graph.packed import (
    ScopeStats,
    blocks_for,
    bucket_of,
    buckets_for,
    pack_postings,
    vector_moments,
)

_BLOCK: dict[str, Any] = {
    **dict.fromkeys(SCOPE, pl.String),
    "scope_id": pl.String,
    "block_id": pl.String,
    "counts": pl.List(pl.Int64),
    "hashes": pl.List(pl.String),
}


def scope_rows(
    memories: pl.DataFrame, windows: pl.DataFrame, vectors: VectorLookup, index: Path
) -> dict[str, pl.DataFrame]:
    """Returns what a reader needs of each scope as a whole: see `packed`."""
    if not index.is_file():
        raise ComponentFailed(f"neo4j: {index}: no such file; run palimpsest build, then load again")
    with duckdb.connect(str(index), read_only=True) as db:
        found = db.execute("SELECT collection, user_id, project_id, scope, first_row, size FROM scopes").fetchall()
        ranges = {tuple(row[:3]): tuple(row[3:]) for row in found}
        words = db.execute("SELECT scope, term, first, df FROM terms ORDER BY scope, term").fetchnumpy()
        postings = db.execute("SELECT row, score FROM postings ORDER BY rowid").fetchnumpy()
        arrays = [
            {**_scope_of(scope), "arrays_id": f"{scope_id_of(*scope)}:{part}", "data": data}
            for scope, at in sorted(ranges.items())
            for part, data in scope_arrays(db, *at)
        ]
    at = np.asarray(words["scope"])
    stats, packed, blocks = [], [], []
    for scope, mine in by_scope(memories).items():
        number, first_row, size = ranges.get(scope, (-1, 0, 0))
        if size != mine.height:
            raise ComponentFailed(f"neo4j: {index} does not hold what the tables do; run palimpsest build again")
        scope_id = scope_id_of(*scope)
        beyond = windows.filter(pl.col("memory_id").is_in(mine["memory_id"].implode()))
        data = _stats(mine, beyond, vectors)
        lo, hi = np.searchsorted(at, [number, number + 1])
        df = np.asarray(words["df"][lo:hi], np.int64)
        start = int(words["first"][lo])
        held = slice(start, start + int(df.sum()))
        rows = np.asarray(postings["row"][held], np.int64) - first_row
        buckets = buckets_for(len(rows))
        about = _scope_of(scope)
        stats.append(about | {"buckets": buckets, "size": size, "data": data})
        terms = [str(w) for w in words["term"][lo:hi]]
        packed += [
            about | {"postings_id": f"{scope_id}:{b}", "data": bytes_}
            for b, bytes_ in pack_postings(terms, df, rows, np.asarray(postings["score"][held], np.float32))
        ]
        if mine.height + beyond.height <= MAX_CACHED_VECTORS:
            blocks += [about | block for block in _blocks(scope_id, mine, beyond)]
    texts = {**dict.fromkeys(SCOPE, pl.String), "scope_id": pl.String, "data": pl.Binary}
    return {
        "ScopeStats": pl.DataFrame(stats, schema=texts | {"buckets": pl.Int64, "size": pl.Int64}),
        "Postings": pl.DataFrame(packed, schema=texts | {"postings_id": pl.String}),
        "VectorBlock": pl.DataFrame(blocks, schema=_BLOCK),
        "ScopeArrays": pl.DataFrame(arrays, schema=texts | {"arrays_id": pl.String}),
    }


def scope_id_of(collection: str, user_id: str, project_id: str = GENERAL) -> str:
    """Returns the id that a scope's packed rows bear."""
    return content_id("scope", *scope_parts(collection, user_id, project_id))


def _scope_of(scope: ScopeKey) -> dict[str, str]:
    return dict(zip(SCOPE, scope, strict=True)) | {"scope_id": scope_id_of(*scope)}


def _blocks(scope_id: str, mine: pl.DataFrame, beyond: pl.DataFrame) -> list[dict[str, Any]]:
    """Returns the rows of a scope's blocks: memories by id, the windows of each after its first vector."""
    count = blocks_for(mine.height + beyond.height)
    held = pl.concat([mine.select("memory_id", "text_hash"), beyond.select("memory_id", "text_hash")])
    number = [bucket_of(i, count) for i in held["memory_id"]]
    # The sort is stable: of one memory the first vector stays first.
    held = held.with_columns(pl.Series("block", number)).sort("block", "memory_id", maintain_order=True)
    each = held.group_by("block", "memory_id", maintain_order=True).agg("text_hash", pl.len().alias("count"))
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
        mean, covariance = vector_moments(vectors(hashes.to_list()))
    ids = np.array(mine["memory_id"].to_list(), dtype=object)
    return ScopeStats(ids, latest, count, mean, covariance).pack()
