"""The digest of a build: what its tables say, comparable between machines, runs and versions of Palimpsest."""

import hashlib
from collections.abc import Mapping

import polars as pl

from palimpsest.build.stage import Digest
from palimpsest.build.stages import tables as declared_tables
from palimpsest.core.scopes import GENERAL


def digest(tables: Mapping[str, pl.DataFrame]) -> str:
    """Returns 32 hex digits over the sorted rows of a build: no floats, times, build numbers, usage or vectors."""
    h = hashlib.blake2b(digest_size=16)
    for table in declared_tables():
        if table.digest is None or (table.digest.unless_empty and tables[table.name].is_empty()):
            continue
        frame = _digested(tables[table.name], table.digest)
        h.update(table.name.encode() + b"\0")
        h.update(frame.sort(pl.all(), nulls_last=True).write_csv(null_value="\x00").encode())
    return h.hexdigest()


def _digested(frame: pl.DataFrame, digest: Digest) -> pl.DataFrame:
    columns = [c for c, dtype in frame.schema.items() if not (dtype.is_float() or dtype.is_temporal())]
    columns = [c for c in columns if c not in digest.skipped and (not digest.columns or c in digest.columns)]
    columns = [c for c in columns if c not in digest.unless or not _is_always(frame[c], digest.unless[c])]
    if not digest.with_project:
        columns = [c for c in columns if c != "project_id"]
    elif "project_id" in columns:  # the general memory was null before projects were scopes
        frame = frame.with_columns(pl.col("project_id").replace({GENERAL: None}))
    return frame.select(columns).with_columns(
        pl.col(c).list.join("\x1f") for c in columns if frame.schema[c] == pl.List(pl.String)
    )


def _is_always(column: pl.Series, value: bool) -> bool:
    return bool((column.fill_null(value) == value).all())
