"""Searches a home for what was deleted: the bytes of every file, and the decoded contents of every table."""

import mmap
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import polars as pl

from palimpsest.build.delete.probes import Probes
from palimpsest.build.delete.sqlite import quote_name, read_rows, row_text
from palimpsest.core.errors import DamagedFile, first_line_of
from palimpsest.core.needles import encode_text
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import SUFFIX, read_extraction

_BINARY = (".parquet", ".duckdb", ".db", ".sqlite", SUFFIX)
_SKIPPED_FILES = ("home.json", "tokenizer.json.gz")
_COMPRESSED = (".gz", ".zip", ".bz2", ".xz", ".zst", ".7z")
_MIN_BINARY_BYTES = 6  # shorter strings occur in random bytes by chance; tables are searched decoded for them
_BATCH_ROWS = 50_000
_GIVEN = frozenset(("text", "title", "uri", "session_id", "user_id", "project_id", "speaker", "heading"))
_NOTHING = Probes()
_NO_FIX = ""
_DISTINCT_VALUES = "SELECT DISTINCT {column}::VARCHAR FROM {table}"
_TEXT_COLUMNS = (
    "SELECT table_name, column_name FROM duckdb_columns() "
    "WHERE NOT internal AND (data_type LIKE '%VARCHAR%' OR data_type = 'JSON') ORDER BY ALL"
)


@dataclass(frozen=True)
class Proof:
    """What was searched and what was found.

    Attributes:
        residue: files in which a probe was found, relative to the home, with which it was; sorted.
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


def search_home(home: Home, probes: Probes, in_columns: Probes, skip: set[Path]) -> Proof:
    """Searches every file of a home.

    Skips `home.json`, which has the folders of collections: their paths may contain the name of a user. Skips the
    embedder's vocabulary, which is the same in every home.

    Args:
        home: the home.
        probes: what to search for everywhere.
        in_columns: what to search for only in the columns of tables that have what people wrote.
        skip: further files to skip.
    """
    found, unsearched, size = [], [], 0
    skipped = {*(home.path / name for name in _SKIPPED_FILES), *skip}
    paths = sorted(p for p in home.path.rglob("*") if p.is_file() and p not in skipped)
    for path in paths:
        name = str(path.relative_to(home.path))
        try:
            length = path.stat().st_size
            probe = find_probe(path, probes, in_columns)
        except FileNotFoundError:
            if not path.exists():  # SQLite and other processes remove files of theirs meanwhile
                continue
            length, probe = path.stat().st_size, find_probe(path, probes, in_columns)  # it was replaced
        except (OSError, DamagedFile, pl.exceptions.PolarsError, sqlite3.Error) as e:
            unsearched.append(f"{name}: {first_line_of(e)}")
            continue
        size += length
        unsearched += [f"{name}: compressed"] if path.suffix in _COMPRESSED else []
        found += [f"{name} ({probe})"] if probe else []
    return Proof(tuple(found), len(paths), size, tuple(unsearched))


def contains_probe(path: Path, probes: Probes) -> bool:
    """Returns whether a file contains a probe: in its bytes, or in its decoded contents where it is a table."""
    return find_probe(path, probes) is not None


def find_probe(path: Path, probes: Probes, in_columns: Probes = _NOTHING) -> str | None:
    """Returns which probe a file contains, in words; None where it contains none.

    Args:
        path: the file; one that is gone contains nothing.
        probes: searched for in its bytes, and in its decoded contents where it is a table.
        in_columns: searched for only in columns of tables that have what people wrote.
    """
    if (
        not (probes or in_columns) or not path.exists()
    ):  # SQLite removes the files beside a database when that is closed
        return None
    if probes and path.stat().st_size:
        with path.open("rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
            min_length = _MIN_BINARY_BYTES if path.suffix in _BINARY else 1
            with memoryview(data) as view:
                if found := probes.first_in(view, min_length):
                    return found
    if (decode := _DECODERS.get(path.suffix)) is None:
        return None
    for column, text in decode(path):
        row = encode_text(text)
        found = probes.first_in(row) or (in_columns.first_in(row) if column in _GIVEN else None)
        if found:
            return found
    return None


def _read_parquet(path: Path) -> Iterator[tuple[str, str]]:
    schema = pl.read_parquet_schema(path)
    wanted = [c for c, t in schema.items() if t in (pl.String, pl.List(pl.String))]
    for column in wanted:
        series = pl.read_parquet(path, columns=[column], glob=False)[column]
        if series.dtype == pl.List(pl.String):
            series = series.explode()
        values = series.drop_nulls().unique()
        for start in range(0, len(values), _BATCH_ROWS):
            yield column, "\n".join(values.slice(start, _BATCH_ROWS))


def _read_duckdb(path: Path) -> Iterator[tuple[str, str]]:
    import duckdb

    try:
        with duckdb.connect(str(path), read_only=True) as db:
            for names in db.execute(_TEXT_COLUMNS).fetchall():
                table, column = (quote_name(n) for n in names)
                rows = db.execute(_DISTINCT_VALUES.format(column=column, table=table))
                while batch := rows.fetchmany(_BATCH_ROWS):
                    yield names[1], "\n".join(row[0] for row in batch if row[0] is not None)
    except duckdb.Error as e:
        raise OSError(f"no readable DuckDB file: {first_line_of(e)}") from None


def _read_sqlite(path: Path) -> Iterator[tuple[str, str]]:
    for table, _, row in read_rows(path):
        yield table, row_text(row)


def _read_extraction(path: Path) -> Iterator[tuple[str, str]]:
    rows, _ = read_extraction(path, _NO_FIX)
    for row in rows:
        yield from ((name, value) for name, value in row.items() if isinstance(value, str))


_DECODERS: dict[str, Callable[[Path], Iterator[tuple[str, str]]]] = {
    ".parquet": _read_parquet,
    ".duckdb": _read_duckdb,
    ".db": _read_sqlite,
    ".sqlite": _read_sqlite,
    SUFFIX: _read_extraction,
}


# What Palimpsest and Dagster write into every home: comments, keys, names of tables.
#
# A name such as `index` or `monitoring`, and a line of a document about Dagster, are in files of a home in which nobody
# ever wrote them. They prove nothing there, and are searched for in the columns that have what people wrote.

_PACKAGES = ("palimpsest", "palimpsest_eval", "dagster")
_SUFFIXES = (".py", ".yaml", ".json", ".sql")


def split_probes(probes: Probes) -> tuple[Probes, Probes]:
    """Returns the probes that no home has of itself, and those that are in the source of what writes homes."""
    everywhere, in_columns = probes, Probes()
    for data in _sources() if probes else ():
        everywhere, found = everywhere.split(data)
        in_columns = in_columns.union(found)
    return everywhere, in_columns


def _sources() -> Iterator[bytes]:
    """Yields the source of each folder of the packages, and the words of the interpreter's own modules."""
    yield " ".join(sys.stdlib_module_names).encode()
    for package in _PACKAGES:
        spec = find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield b"\n".join(p.read_bytes() for p in sorted(Path(place).rglob("*")) if p.suffix in _SUFFIXES)
