"""Searches a home for what was deleted: the bytes of every file, and the decoded contents of every table."""

import html
import json
import mmap
import sqlite3
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl

from palimpsest.core.errors import DamagedFile, first_line_of
from palimpsest.core.files import read_json, write_json
from palimpsest.core.needles import WORD_BYTES, Buffer, Needle, Needles, encode_text, is_word, rows_containing
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import SUFFIX, read_extraction

# The strings that a delete must remove everywhere: searched all at once, and stored as hashes until it is proved.

MIN_LINE_CHARS = 8  # a shorter line occurs elsewhere by chance
MIN_NAME_CHARS = 3


@dataclass(frozen=True)
class Probes:
    """Strings to search for. Lines and ids are found anywhere, names under 8 bytes as whole words.

    Attributes:
        strings: ids, lines and names, in plain text; in memory only.
        names: those of the strings that are names, which an error may show.
        earlier: those of a run of the same delete that was stopped, as hashes.
        too_short: how many lines and names are too short to be searched for.
        elsewhere: how many lines and names also occur in what is retained.
    """

    strings: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    earlier: Needles = field(default_factory=lambda: Needles.of(()))
    too_short: int = 0
    elsewhere: int = 0

    def __len__(self) -> int:
        return len(self._needles)

    def find(self, data: Buffer, min_length: int = 1) -> Iterator[tuple[int, int]]:
        """Yields (start, end) in bytes of what is found; `min_length` skips shorter strings."""
        if self.strings:
            for _, start, end in self._automaton.find_matches_as_indexes(data, overlapping=True):
                size = end - start
                if size >= min_length and (size >= WORD_BYTES or is_word(data, start, end)):
                    yield start, end
        if self._only_hashed.items:
            yield from ((a, b) for a, b, _ in self._only_hashed.find(data, min_length))

    def any_in(self, data: Buffer, min_length: int = 1) -> bool:
        """Returns whether `data` contains one of the strings."""
        return next(self.find(data, min_length), None) is not None

    def first_in(self, data: Buffer, min_length: int = 1) -> str | None:
        """Returns what of it `data` contains, as an error says it; only a name in its own words."""
        if (found := next(self.find(data, min_length), None)) is None:
            return None
        text = bytes(data[slice(*found)]).decode("utf-8", "replace")
        return f"the name {json.dumps(text, ensure_ascii=False)}" if text in self.names else "an id or a line of a text"

    def rows_in(self, rows: Sequence[str]) -> list[int]:
        """Returns the indexes of the rows that contain one of the strings, ascending."""
        return rows_containing(self.find, rows)

    def without(self, retained: Iterable[str]) -> "Probes":
        """Returns the probes that occur in none of the retained texts."""
        left, found = self.split(encode_text("\n".join(retained)))
        return replace(left, elsewhere=self.elsewhere + len(found.strings))

    def split(self, data: bytes) -> tuple["Probes", "Probes"]:
        """Returns the probes that `data` does not contain, and those that it contains."""
        found = frozenset(data[a:b].decode("utf-8", "surrogatepass") for a, b in self.find(data)) & self.strings
        hashed = self.earlier.found_in(data) if self.earlier.items else set()
        not_hashed = set(self.earlier.items) - hashed
        return (
            replace(self, strings=self.strings - found, earlier=self.earlier.without(hashed)),
            Probes(found, self.names & found, self.earlier.without(not_hashed)),
        )

    def union(self, other: "Probes") -> "Probes":
        """Returns the probes of both; those of earlier runs have the same key, or one has none."""
        earlier = self.earlier.union(other.earlier) if self.earlier.items and other.earlier.items else None
        earlier = earlier or (self.earlier if self.earlier.items else other.earlier)
        return Probes(self.strings | other.strings, self.names | other.names, earlier)

    @cached_property
    def _needles(self) -> Needles:
        return Needles.of(self.strings, self.earlier.key).union(self.earlier)

    @cached_property
    def _only_hashed(self) -> Needles:
        return self.earlier.without(set(Needles.of(self.strings, self.earlier.key).items))

    @cached_property
    def _automaton(self) -> Any:
        """Finds the strings as files write them: plain, in JSON with and without escapes, in HTML."""
        from ahocorasick_rs import BytesAhoCorasick

        written = set(self.strings)
        for text in self.strings:
            if not text.isalnum():
                written |= {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], html.escape(text)}
        return BytesAhoCorasick(sorted(encode_text(w) for w in written))

    def write_pending(self, path: Path, counts: Mapping[str, int], former: Iterable[str]) -> None:
        """Writes the probes as hashes, with counts of what is deleted, readable by the owner only.

        Args:
            path: the file.
            counts: of documents and memories.
            former: hashes of former names of what is deleted.
        """
        rows = [[n.window, n.bucket, n.length, n.digest] for n in self._needles.items]
        write_json(path, {"key": self.earlier.key.hex(), "needles": rows, "former": sorted(former), **counts})
        path.chmod(0o600)


def read_pending(path: Path) -> tuple[Needles, dict[str, int], frozenset[str]]:
    """Returns what a stopped run of the same delete wrote: its probes, its counts, and hashes of former names."""
    found = read_json(path) or {}
    if "key" not in found:  # of an older version: plain strings
        return Needles.of(found.get("strings", ())), {"documents": 0, "memories": found.get("memories", 0)}, frozenset()
    items = tuple(sorted(Needle(*row) for row in found["needles"]))
    counts = {k: found[k] for k in ("documents", "memories")}
    return Needles(bytes.fromhex(found["key"]), items), counts, frozenset(found.get("former", ()))


def probes_of(ids: set[str], lines: set[str], names: set[str], earlier: Needles) -> Probes:
    """Returns the probes for ids, lines and names; blank ones are dropped, short ones counted."""
    lines = {line for line in (text.strip() for text in lines) if line}
    names = {name for name in (text.strip() for text in names) if name}
    usable = {line for line in lines if len(line) >= MIN_LINE_CHARS}
    usable |= {name for name in names if len(name) >= MIN_NAME_CHARS}
    short = len((lines | names) - usable)
    return Probes(frozenset(ids | usable), frozenset(names & usable), earlier, short)


# Reads and cleans SQLite files of a home: Dagster's run history and the ledger of a language model's answers.

_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
_LOCK_WAIT_S = 30.0


def connect(path: Path) -> sqlite3.Connection:
    """Opens a file for reading and cleaning; waits for another writer, and overwrites what it deletes."""
    db = sqlite3.connect(path, timeout=_LOCK_WAIT_S, isolation_level=None)
    db.execute("PRAGMA secure_delete = ON")
    db.execute("PRAGMA temp_store = MEMORY")
    return db


def read_rows(path: Path) -> Iterator[tuple[str, tuple[str, ...], tuple[Any, ...]]]:
    """Yields (table, columns, row) of every row of every table."""
    with closing(connect(path)) as db:
        for (table,) in db.execute(_TABLES).fetchall():
            rows = db.execute(f"SELECT * FROM {quote_name(table)}")
            columns = tuple(c[0] for c in rows.description)
            for row in rows:
                yield table, columns, row


def row_text(row: tuple[Any, ...]) -> str:
    """Returns the texts of a row, one a line; zlib data is unpacked, as Dagster packs its snapshots."""
    return "\n".join(_decode_value(value) for value in row if isinstance(value, str | bytes))


def compact(path: Path) -> None:
    """Rewrites a file without the pages of deleted rows, its write-ahead log included."""
    with closing(connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def quote_name(name: str) -> str:
    """Returns a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def _decode_value(value: str | bytes) -> str:
    if isinstance(value, str):
        return value
    if value[:1] == b"\x78":
        with suppress(zlib.error):
            value = zlib.decompress(value)
    return value.decode("utf-8", "replace")


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
