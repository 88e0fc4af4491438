"""Searches a home for what was deleted: the bytes of every file, and the decoded contents of every table."""

import mmap
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from palimpsest.build.delete.probes import Probes
from palimpsest.build.delete.sqlite import read_rows, row_text
from palimpsest.core.errors import first_line_of
from palimpsest.core.needles import encode_text
from palimpsest.store.home import Home

_BINARY = (".parquet", ".duckdb", ".db", ".sqlite")
_SKIPPED_FILES = ("home.json", "tokenizer.json.gz")
_COMPRESSED = (".gz", ".zip", ".bz2", ".xz", ".zst", ".7z")
_MIN_BINARY_BYTES = 6  # shorter strings occur in random bytes by chance; tables are searched decoded for them
_BATCH_ROWS = 50_000
_DISTINCT_VALUES = "SELECT DISTINCT {column}::VARCHAR FROM {table}"
_TEXT_COLUMNS = (
    "SELECT table_name, column_name FROM duckdb_columns() "
    "WHERE NOT internal AND (data_type LIKE '%VARCHAR%' OR data_type = 'JSON') ORDER BY ALL"
)


@dataclass(frozen=True)
class Proof:
    """What was searched and what was found.

    Attributes:
        residue: files in which a probe was found, relative to the home; sorted.
        files: how many were searched.
        bytes: their size in all.
        unsearched: files that could not be read or decoded, with why.
        run_bytes: bytes that were searched in the Postgres tables of Dagster's runs; None where they are files.
    """

    residue: tuple[str, ...]
    files: int
    bytes: int
    unsearched: tuple[str, ...]
    run_bytes: int | None = None


def search_home(home: Home, probes: Probes, skip: set[Path]) -> Proof:
    """Searches every file of a home.

    Skips `home.json`, which has the folders of collections: their paths may contain the name of a user. Skips the
    embedder's vocabulary, which is the same in every home.

    Args:
        home: the home.
        probes: what to search for.
        skip: further files to skip.
    """
    found, unsearched, size = [], [], 0
    skipped = {*(home.path / name for name in _SKIPPED_FILES), *skip}
    paths = sorted(p for p in home.path.rglob("*") if p.is_file() and p not in skipped)
    for path in paths:
        name = str(path.relative_to(home.path))
        try:
            length = path.stat().st_size
            has_probe = contains_probe(path, probes)
        except FileNotFoundError:
            if not path.exists():  # SQLite and other processes remove files of theirs meanwhile
                continue
            length, has_probe = path.stat().st_size, contains_probe(path, probes)  # it was replaced
        except (OSError, pl.exceptions.PolarsError, sqlite3.Error) as e:
            unsearched.append(f"{name}: {first_line_of(e)}")
            continue
        size += length
        unsearched += [f"{name}: compressed"] if path.suffix in _COMPRESSED else []
        found += [name] if has_probe else []
    return Proof(tuple(found), len(paths), size, tuple(unsearched))


def contains_probe(path: Path, probes: Probes) -> bool:
    """Returns whether a file contains a probe: in its bytes, or in its decoded contents where it is a table."""
    if not probes:
        return False
    if not path.exists():  # SQLite removes the files beside a database when that is closed
        return False
    if path.stat().st_size:
        with path.open("rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
            min_length = _MIN_BINARY_BYTES if path.suffix in _BINARY else 1
            with memoryview(data) as view:
                is_found = probes.any_in(view, min_length)
            if is_found:
                return True
    decode = _DECODERS.get(path.suffix)
    return decode is not None and any(probes.any_in(encode_text(text)) for text in decode(path))


def _read_parquet(path: Path) -> Iterator[str]:
    schema = pl.read_parquet_schema(path)
    wanted = [c for c, t in schema.items() if t in (pl.String, pl.List(pl.String))]
    for column in wanted:
        series = pl.read_parquet(path, columns=[column], glob=False)[column]
        if series.dtype == pl.List(pl.String):
            series = series.explode()
        values = series.drop_nulls().unique()
        for start in range(0, len(values), _BATCH_ROWS):
            yield "\n".join(values.slice(start, _BATCH_ROWS))


def _read_duckdb(path: Path) -> Iterator[str]:
    import duckdb

    try:
        with duckdb.connect(str(path), read_only=True) as db:
            for names in db.execute(_TEXT_COLUMNS).fetchall():
                table, column = (f'"{n.replace(chr(34), chr(34) * 2)}"' for n in names)
                rows = db.execute(_DISTINCT_VALUES.format(column=column, table=table))
                while batch := rows.fetchmany(_BATCH_ROWS):
                    yield "\n".join(row[0] for row in batch if row[0] is not None)
    except duckdb.Error as e:
        raise OSError(f"no readable DuckDB file: {first_line_of(e)}") from None


def _read_sqlite(path: Path) -> Iterator[str]:
    for _, _, row in read_rows(path):
        yield row_text(row)


_DECODERS: dict[str, Callable[[Path], Iterator[str]]] = {
    ".parquet": _read_parquet,
    ".duckdb": _read_duckdb,
    ".db": _read_sqlite,
    ".sqlite": _read_sqlite,
}
