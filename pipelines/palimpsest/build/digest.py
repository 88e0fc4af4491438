"""The digest of a build: what its tables say, comparable between machines, runs and versions of Palimpsest."""

import hashlib
from collections.abc import Mapping

import polars as pl

from palimpsest.build.stage import Digest
from palimpsest.build.stages import tables as declared_tables
from palimpsest.core.ids import GENERAL

_SLICE_ROWS = 65_536


def digest(tables: Mapping[str, pl.DataFrame]) -> str:
    """Returns 32 hex digits over the sorted rows of a build: no floats, times, build numbers, usage or vectors."""
    h = hashlib.blake2b(digest_size=16)
    for table in declared_tables():
        if table.digest is None:
            continue
        whole = tables[table.name]
        if table.digest.unless_empty and whole.is_empty():
            continue
        frame = _digested(whole, table.digest).sort(pl.all(), nulls_last=True)
        del whole
        h.update(table.name.encode() + b"\0")
        # As one CSV file, a slice at a time: that of a million memories is 400 MB.
        for number, rows in enumerate(frame.iter_slices(_SLICE_ROWS) if frame.height else [frame]):
            h.update(rows.write_csv(null_value="\x00", include_header=not number).encode())
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
