"""Searches a home for what was deleted: the bytes of every file, and the decoded contents of every table."""

import mmap
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from palimpsest.build.delete.probes import Probes
from palimpsest.build.delete.sqlite import cells, text_of
from palimpsest.core.needles import encoded
from palimpsest.store.home import Home

_BINARY = (".parquet", ".duckdb", ".db", ".sqlite")
_LEFT_OUT = ("home.json", "tokenizer.json.gz")
_COMPRESSED = (".gz", ".zip", ".bz2", ".xz", ".zst", ".7z")
_BINARY_MIN = 6  # bytes: shorter strings stand in random bytes by chance; tables are searched decoded for them
_ROWS = 50_000
_STRINGS = "SELECT DISTINCT {column}::VARCHAR FROM {table}"
_COLUMNS = (
    "SELECT table_name, column_name FROM duckdb_columns() "
    "WHERE NOT internal AND (data_type LIKE '%VARCHAR%' OR data_type = 'JSON') ORDER BY ALL"
)


@dataclass(frozen=True)
class Proof:
    """What was searched and what was found.

    Attributes:
        residue: files that hold something, relative to the home; sorted.
        files: how many were searched.
        bytes: their size in all.
        unsearched: files that could not be read or decoded, with why.
    """

    residue: tuple[str, ...]
    files: int
    bytes: int
    unsearched: tuple[str, ...]


def search_home(home: Home, probes: Probes, skip: set[Path]) -> Proof:
    """Searches every file of a home.

    Not `home.json`: it says where collections are read from, and the path of a folder may hold the name of a user. Nor
    the embedder's vocabulary, which is the same in every home.

    Args:
        home: the home.
        probes: what to search for.
        skip: files to leave out.
    """
    found, unsearched, size = [], [], 0
    left_out = {*(home.path / name for name in _LEFT_OUT), *skip}
    paths = sorted(p for p in home.path.rglob("*") if p.is_file() and p not in left_out)
    for path in paths:
        name = str(path.relative_to(home.path))
        size += path.stat().st_size
        if path.suffix in _COMPRESSED:
            unsearched.append(f"{name}: compressed")
        try:
            if holds(path, probes):
                found.append(name)
        except (OSError, pl.exceptions.PolarsError, sqlite3.Error) as e:
            unsearched.append(f"{name}: {str(e).splitlines()[0] if str(e) else type(e).__name__}")
    return Proof(tuple(found), len(paths), size, tuple(unsearched))


def holds(path: Path, probes: Probes) -> bool:
    """Tells whether a file holds a probe: in its bytes, or in its decoded contents where it is a table."""
    if not probes:
        return False
    if path.stat().st_size:
        with path.open("rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
            shortest = _BINARY_MIN if path.suffix in _BINARY else 1
            with memoryview(data) as view:
                raw = probes.any_in(view, shortest)
            if raw:
                return True
    decode = _DECODERS.get(path.suffix)
    return decode is not None and any(probes.any_in(encoded(text)) for text in decode(path))


def _parquet(path: Path) -> Iterator[str]:
    schema = pl.read_parquet_schema(path)
    wanted = [c for c, t in schema.items() if t in (pl.String, pl.List(pl.String))]
    for column in wanted:
        series = pl.read_parquet(path, columns=[column])[column]
        if series.dtype == pl.List(pl.String):
            series = series.explode()
        values = series.drop_nulls().unique()
        for start in range(0, len(values), _ROWS):
            yield "\n".join(values.slice(start, _ROWS))


def _duckdb(path: Path) -> Iterator[str]:
    import duckdb

    try:
        with duckdb.connect(str(path), read_only=True) as db:
            for names in db.execute(_COLUMNS).fetchall():
                table, column = (f'"{n.replace(chr(34), chr(34) * 2)}"' for n in names)
                rows = db.execute(_STRINGS.format(column=column, table=table))
                while some := rows.fetchmany(_ROWS):
                    yield "\n".join(row[0] for row in some if row[0] is not None)
    except duckdb.Error as e:
        raise OSError(f"no readable DuckDB file: {str(e).splitlines()[0]}") from None


def _sqlite(path: Path) -> Iterator[str]:
    for _, _, row in cells(path):
        yield text_of(row)


_DECODERS: dict[str, Callable[[Path], Iterator[str]]] = {
    ".parquet": _parquet,
    ".duckdb": _duckdb,
    ".db": _sqlite,
    ".sqlite": _sqlite,
}
