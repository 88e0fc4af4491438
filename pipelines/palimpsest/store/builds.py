"""Numbered builds: a folder each, immutable once published; how many are kept, and which one readers see."""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import polars as pl

from palimpsest.core.errors import DamagedFile, DamagedPointer
from palimpsest.core.files import (
    REBUILD,
    file_hash,
    link,
    published_build_id,
    read_json_object,
    unsealed,
    write_format,
    write_json,
    write_pointer,
    write_sealed_json,
)
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.decisions import count_decisions
from palimpsest.store.home import TRIAL_FOLDER, Home
from palimpsest.store.manifest import MANIFEST, BuildManifest, StageRecord, changed_files, file_states, has_hash
from palimpsest.store.tables import completed, conform, empty

# Rows of a table whose stage takes long, written while it runs: a build that was stopped goes on from them.


@dataclass(frozen=True)
class UnfinishedRows:
    """A folder of numbered Parquet files.

    Attributes:
        folder: may not exist yet.
        table: whose rows they are.
    """

    folder: Path
    table: str

    def read(self) -> pl.DataFrame:
        """Returns the rows of every file that is whole, in the order of their writing."""
        found = [empty(self.table)]
        for path in self._files():
            try:
                found.append(completed(self.table, pl.read_parquet(path, glob=False)))
            except pl.exceptions.PolarsError:  # the machine stopped while it was written
                continue
        return pl.concat(found)

    def add(self, rows: pl.DataFrame) -> None:
        """Writes rows as one more file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        last = max((int(path.stem) for path in self._files()), default=0)
        aside = self.folder / f".{last + 1:06d}.tmp"
        conform(self.table, rows).write_parquet(aside, compression="zstd", compression_level=1, statistics=False)
        aside.replace(self.folder / f"{last + 1:06d}.parquet")

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*.parquet"))


KEPT_BUILDS = 5
_REPAIR = "run palimpsest build, which makes it again, or restore a backup"
_FIX = "restore it, or remove published.json and run palimpsest build again"
ONCE = "_once"
"""Folder of a build with the tables of stages that run once, for all collections; no collection has such a name."""


_UNFINISHED = "_unfinished"  # no collection has such a name


@lru_cache(maxsize=8)  # one has megabytes, and a build looks at its own and the published one dozens of times
def _parse_manifest(path: Path, stored: bytes) -> BuildManifest:
    try:
        return BuildManifest.from_json(unsealed(json.loads(stored)))
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
        raise DamagedFile(path, _REPAIR) from None


@dataclass(frozen=True)
class Build:
    """The folder of one build: `<collection>/<table>.parquet`, stage records, index.duckdb, manifest.json."""

    path: Path

    @property
    def build_id(self) -> str:
        """Six digits."""
        return self.path.name

    @property
    def index(self) -> Path:
        """The DuckDB file that queries read."""
        return self.path / "index.duckdb"

    @property
    def is_finished(self) -> bool:
        """Whether the build has its index and manifest."""
        return (self.path / MANIFEST).is_file()

    @property
    def manifest(self) -> BuildManifest:
        """What the build is: collections, stage keys, digest, counts, gate; empty until it is finished.

        Raises:
            DamagedFile: it is no manifest.
        """
        path = self.path / MANIFEST
        try:
            stored = path.read_bytes()
        except FileNotFoundError:
            return BuildManifest()
        except OSError:
            raise DamagedFile(path, _REPAIR) from None
        return _parse_manifest(path, stored)

    def write_manifest(self, manifest: BuildManifest) -> None:
        """Replaces the manifest, with the state of each file of the build and a checksum of itself."""
        files = file_states(self.path, manifest.files, self._table_hashes())
        write_sealed_json(self.path / MANIFEST, replace(manifest, files=files).to_json())

    def _table_hashes(self) -> dict[str, str]:
        """Returns the checksum of each table as it was written, by its name in the build."""
        return {
            f"{folder}/{table}.parquet": blake2b
            for folder, record in self._records()
            for table, blake2b in record.outputs.items()
        }

    def has_outputs(self, collection: str, record: StageRecord) -> bool:
        """Returns whether each table that a stage wrote is there, with the checksum of when it was written."""
        return all(has_hash(self.table_path(collection, t), blake2b) for t, blake2b in record.outputs.items())

    def has_intact(self, collection: str, table: str) -> bool:
        """Returns whether a table of a collection is there, with the checksum of when it was written."""
        wanted = self._table_hashes().get(f"{collection}/{table}.parquet")
        return wanted is not None and has_hash(self.table_path(collection, table), wanted)

    def damaged_files(self, read_all: bool = False) -> list[str]:
        """Returns the names of the build's files that are missing or changed, sorted; of older builds alone tables.

        Args:
            read_all: read every file; otherwise alone those whose size or time of change differs from the manifest's.

        Raises:
            DamagedFile: the manifest is damaged.
        """
        manifest = self.manifest
        if manifest.files:
            return changed_files(self.path, manifest.files, read_all)
        return [
            name
            for folder, stages in sorted(manifest.stages.items())
            for record in stages.values()
            for table, blake2b in sorted(record.outputs.items())
            if not has_hash(self.path / (name := f"{folder}/{table}.parquet"), blake2b)
        ]

    def config_of(self, collection: str) -> CollectionConfig | None:
        """Returns the settings that a collection was built with; None where the manifest has none of it.

        Raises:
            DamagedFile: the manifest is damaged.
        """
        known = self.manifest.configs.get(collection)
        return CollectionConfig.model_validate(known) if known else None

    @property
    def collections(self) -> list[str]:
        """Names of the collections staged in this build."""
        if not self.path.is_dir():
            return []
        return sorted(p.name for p in self.path.iterdir() if p.is_dir() and not p.name.startswith((".", "_")))

    def table_path(self, collection: str, table: str) -> Path:
        """Returns the file of a table of a collection."""
        return self.path / collection / f"{table}.parquet"

    def table(self, collection: str, table: str) -> pl.DataFrame:
        """Returns a table of one collection; empty where the build has none.

        Columns that an older version of Palimpsest did not write are null.

        Raises:
            DamagedFile: it is no Parquet file.
        """
        path = self.table_path(collection, table)
        if not path.exists():
            return empty(table)
        try:
            return completed(table, pl.read_parquet(path, glob=False))
        except pl.exceptions.PolarsError:
            raise DamagedFile(path, _REPAIR) from None

    def has_memories_of(self, collection: str, user_id: str) -> bool:
        """Returns whether a collection has memories of a user.

        Raises:
            DamagedFile: the table of its memories is no Parquet file.
        """
        path = self.table_path(collection, "memories")
        try:
            return path.exists() and user_id in pl.read_parquet(path, columns=["user_id"], glob=False)["user_id"]
        except pl.exceptions.PolarsError:
            raise DamagedFile(path, _REPAIR) from None

    def tables(self, names: Iterable[str]) -> dict[str, pl.DataFrame]:
        """Returns the named tables over all collections, in the order of collections."""
        folders = [*self.collections, ONCE]
        return {n: pl.concat([empty(n), *(self.table(c, n) for c in folders)]) for n in names}

    def write_table(self, collection: str, table: str, frame: pl.DataFrame) -> str:
        """Writes a table atomically and returns the hash of its bytes."""
        path = self.table_path(collection, table)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.tmp")
        conform(table, frame).write_parquet(aside, compression="zstd", compression_level=1, statistics=False)
        aside.replace(path)
        return file_hash(path)

    def unfinished(self, collection: str, table: str) -> UnfinishedRows:
        """Returns the rows that a stage wrote of a table before it was stopped; the finished build has none."""
        return UnfinishedRows(self.path / _UNFINISHED / f"{collection}.{table}", table)

    def drop_unfinished(self) -> None:
        """Removes these rows of all tables."""
        shutil.rmtree(self.path / _UNFINISHED, ignore_errors=True)

    @property
    def lm_cost(self) -> float:
        """What calls of a language model cost that this build made so far."""
        return sum(record.numbers.get("cost", 0.0) for _, record in self._records())

    def _records(self) -> Iterator[tuple[str, StageRecord]]:
        """Yields the records of all stages that finished, each with its folder."""
        for folder in (*self.collections, ONCE):
            for path in sorted((self.path / folder).glob("*.json")):
                if (record := self.record(folder, path.stem)) is not None:
                    yield folder, record

    def record(self, collection: str, stage: str) -> StageRecord | None:
        """Returns what a finished stage recorded, or None while it is unfinished.

        Raises:
            DamagedFile: it is no record.
        """
        path = self._record_path(collection, stage)
        try:
            return None if (found := read_json_object(path)) is None else StageRecord.from_json(found)
        except (AttributeError, LookupError, TypeError, ValueError):
            raise DamagedFile(path, REBUILD) from None

    def write_record(self, collection: str, stage: str, record: StageRecord) -> None:
        """Records that a stage finished."""
        write_json(self._record_path(collection, stage), record.to_json())

    def remove_record(self, collection: str, stage: str) -> None:
        """Marks a stage as unfinished: its tables are about to be written."""
        self._record_path(collection, stage).unlink(missing_ok=True)

    def _record_path(self, collection: str, stage: str) -> Path:
        return self.path / collection / f"{stage}.json"

    def adopt(self, other: "Build", collection: str) -> None:
        """Links a collection of another build into this one, in one step."""
        aside = self.path / f".{collection}.tmp"
        shutil.rmtree(aside, ignore_errors=True)
        for path in sorted((other.path / collection).iterdir()):
            if not path.name.startswith("."):
                link(path, aside / path.name)
        aside.rename(self.path / collection)


def published(home: Home) -> Build | None:
    """Returns the build that readers see.

    Raises:
        DamagedPointer: the pointer to it is damaged, or names a build that is not there.
    """
    build_id = published_build_id(home.path)
    if build_id is not None and not (home.builds / build_id).is_dir():
        build_id = published_build_id(home.path)  # five builds are kept: one removed meanwhile has a successor
    if build_id is None:
        return None
    build = Build(home.builds / build_id)
    if not build.path.is_dir():
        message = f"home {home.path}: published.json names build {build_id[:20]}, which is not there; {_FIX}"
        raise DamagedPointer(home.path / "published.json", message)
    return build


BEFORE_DELETE = ".before-delete"
"""Folder of a build with the tables that a delete is rewriting, as they were; whole where it exists."""


def sweep(home: Home) -> None:
    """Removes what interrupted writes left in the builds: whatever begins with a dot.

    What a delete was rewriting is restored first: neither a delete nor a build can continue from a half.
    """
    shutil.rmtree(home.path / TRIAL_FOLDER, ignore_errors=True)
    for before in home.builds.glob(f"*/{BEFORE_DELETE}"):
        for folder in before.iterdir():
            _restore(folder, before.parent / folder.name)
    for leftovers in (".*", "*/.*", "*/*/.*"):
        for path in home.builds.glob(leftovers):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _restore(before: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if not (before / path.name).exists():
            path.unlink()
    for path in before.iterdir():
        aside = folder / f".{path.name}.tmp"
        link(path, aside)
        aside.replace(folder / path.name)


def kept_builds(home: Home) -> list[Build]:
    """Returns every build of the home, oldest first; the staged one, if any, is last."""
    return [Build(p) for p in sorted(home.builds.glob("[0-9]*")) if p.is_dir()]


def staged(home: Home) -> Build:
    """Returns the build being made: the number after the published one. It may be unfinished, or not exist yet."""
    current = published(home)
    return Build(home.builds / f"{(int(current.build_id) if current else 0) + 1:06d}")


def count_decisions_again(home: Home) -> None:
    """Records with the published build how many decisions there are; a later build must find as many."""
    build = published(home)
    if build is not None and build.is_finished:
        build.write_manifest(replace(build.manifest, decisions=count_decisions(home.decisions)[0]))


def publish(home: Home, build: Build) -> None:
    """Makes `build` the one that readers see, in one rename, and drops the builds beyond the last five."""
    write_format(home.path)
    write_pointer(home.path, build.build_id)
    for old in kept_builds(home)[:-KEPT_BUILDS]:
        remove_build(old)


def remove_build(build: Build) -> None:
    """Removes a build: one that is stopped leaves no half of it under its number."""
    aside = build.path.with_name(f".{build.build_id}.tmp")
    build.path.rename(aside)
    shutil.rmtree(aside)


# The tables of a build over all collections, read one at a time: those of a million memories take 3 GB together.


class BuildTables(Mapping[str, pl.DataFrame]):
    """A mapping that reads a table whenever it is taken, and keeps none."""

    def __init__(self, build: Build, names: Sequence[str]) -> None:
        """Makes the mapping of tables `names` of a build."""
        self._build, self._names = build, names

    def __getitem__(self, name: str) -> pl.DataFrame:
        """Reads a table.

        Raises:
            KeyError: it is none of the names.
            DamagedFile: it is no Parquet file.
        """
        if name not in self._names:
            raise KeyError(name)
        return self._build.tables([name])[name]

    def __contains__(self, name: object) -> bool:
        """Returns whether there is such a table, without reading it."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        """Yields the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Returns the number of tables."""
        return len(self._names)
