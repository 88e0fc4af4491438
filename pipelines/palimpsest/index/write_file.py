"""Writes frames as the tables of one DuckDB file."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import polars.selectors as cs

_BLOCK_BYTES = 32_768
"""DuckDB fills at least one block for each table; with its 256 KiB, small tables are most of a small index."""
_READ_WHOLE = "memories"
"""A query reads all columns of some 25 of its rows: compressed, each is 230 bytes smaller and is read half as fast."""
_READ_BY_ROW = ("memories", "sentences")
"""Tables with an index on `row`: of a million memories it takes a second and 8 MiB, and reads of 25 rows a third."""
_MEMORY_LIMIT = "1GB"
_SLICE_ROWS = 245_760
"""Rows written at a time, two row groups of DuckDB: 360 MiB of MiniLM's vectors."""

# For people: what each word scores in each memory.
_WORD_SCORES = """
    CREATE VIEW word_scores AS
    SELECT s.collection, s.user_id, s.project_id, t.term, m.memory_id, p.score
    FROM terms t JOIN scopes s USING (scope)
    JOIN (SELECT rowid AS place, row, score FROM postings) p ON p.place BETWEEN t.first AND t.first + t.df - 1
    JOIN memories m USING (row)"""


def write_file(path: Path, frames: Mapping[str, pl.DataFrame], meta: Mapping[str, Any]) -> int:
    """Writes the frames as tables of a new DuckDB file at `path`; returns its size in bytes.

    Frames travel as Parquet files: DuckDB 2.0.0 can read polars and Arrow objects wrongly.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        aside = folder / "index.duckdb"
        with duckdb.connect(str(aside), config={"default_block_size": str(_BLOCK_BYTES)}) as db:
            db.execute(f"SET memory_limit = '{_MEMORY_LIMIT}'").fetchall()
            # Vectors do not compress, and reading them is what a first query waits for.
            uncompressed = {name: _has_vectors(name) or name == _READ_WHOLE for name in frames}
            for name in sorted(frames, key=lambda n: not uncompressed[n]):
                db.execute(f"SET force_compression = '{'uncompressed' if uncompressed[name] else 'auto'}'").fetchall()
                _write_table(db, name, frames[name], folder)
                if uncompressed[name]:
                    db.execute("CHECKPOINT").fetchall()
            for name in sorted(frames.keys() & set(_READ_BY_ROW)):
                db.execute(f"CREATE UNIQUE INDEX {name}_by_row ON {name} (row)").fetchall()
            db.execute("CREATE TABLE meta (key VARCHAR, value VARCHAR)").fetchall()
            rows = [(key, json.dumps(value, sort_keys=True)) for key, value in sorted(meta.items())]
            db.executemany("INSERT INTO meta VALUES (?, ?)", rows)
            db.execute(_WORD_SCORES).fetchall()
            db.execute("CHECKPOINT").fetchall()
        aside.replace(path)
        return path.stat().st_size
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_table(db: duckdb.DuckDBPyConnection, name: str, frame: pl.DataFrame, folder: Path) -> None:
    """Writes a frame as a table, a slice of its rows at a time: memory and space on disk are those of a slice."""
    part = folder / f"{name}.parquet"
    # Without a zone, always UTC: DuckDB needs an extension for zones.
    frame = frame.with_columns(cs.datetime().dt.replace_time_zone(None))
    for number, rows in enumerate(frame.iter_slices(_SLICE_ROWS) if frame.height else [frame]):
        rows.write_parquet(part, compression="uncompressed", statistics=False)
        into = f"INSERT INTO {name}" if number else f"CREATE TABLE {name} AS"
        db.execute(f"{into} {_select(name, rows)}", {"path": str(part)}).fetchall()
        part.unlink()


def _has_vectors(table: str) -> bool:
    return table.startswith("vectors")


def _select(table: str, frame: pl.DataFrame) -> str:
    """Returns what reads a frame's Parquet file: it cannot carry arrays of a fixed size."""
    if not _has_vectors(table):
        return "SELECT * FROM read_parquet($path)"
    dtype = frame.schema["vector"]
    assert isinstance(dtype, pl.Array)
    return f"SELECT row, vector::FLOAT[{int(dtype.size)}] AS vector FROM read_parquet($path)"
