"""Repairs a home before it is built, and finds every damaged file of one for `palimpsest verify`."""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from palimpsest.core.errors import DamagedFile, PalimpsestError
from palimpsest.core.files import read_sealed_json, say
from palimpsest.memories.embedders import embedding_stores, known_texts
from palimpsest.pipeline.plan import log_context
from palimpsest.pipeline.repair_builds import (
    damaged_settings,
    repair_derived,
    repair_older,
    repair_published,
    repair_sources,
)
from palimpsest.pipeline.run_stage import run_from_record
from palimpsest.sources.discovery import hash_source, scan_sources
from palimpsest.sources.ingest import DELETED, STORED_BY
from palimpsest.store.backup_archive import PENDING_DELETES
from palimpsest.store.builds import ONCE, Build, count_decisions_again, kept_builds, published
from palimpsest.store.collection_config import load_collection
from palimpsest.store.decisions import count_decisions, drop_damaged, read_decisions
from palimpsest.store.home import Home
from palimpsest.store.inbox import InboxFile, inbox_files, is_inbox_uri, replaced_key, replaced_sources
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.manifest import MANIFEST
from palimpsest.store.web_pages import damaged_pages

# Puts damaged SQLite databases aside, so that new ones are begun: Dagster's run history, the ledger of answers.

_CHECK = "PRAGMA quick_check(1)"
_HISTORY = ("history/runs.db", "history/runs/index.db", "schedules/schedules.db")
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PRIMARY = 0xFF  # bits of an error code of SQLite that say its kind
DAMAGED = ".damaged-"
"""Part of the name of a database that was put aside; a delete removes these, for nothing can be looked for in them."""


def repair_history(home: Home) -> list[str]:
    """Puts damaged databases of Dagster aside; returns a line for each."""
    return [
        f"Dagster's {path.relative_to(home.dagster)} was damaged; a new one is begun, the old one is {_put_aside(path)}"
        for path in damaged_history(home)
    ]


def repair_ledger(home: Home, after_ns: int, allow_lost: bool) -> list[str]:
    """Puts a damaged ledger of answers aside; returns a line for it.

    Args:
        home: the home.
        after_ns: time of change from which on it is read.
        allow_lost: go on without the answers that were paid.

    Raises:
        PalimpsestError: it is damaged, and `allow_lost` is not given.
    """
    if not is_ledger_damaged(home, after_ns):
        return []
    if not allow_lost:
        raise PalimpsestError(
            f"{home.lm_ledger.name}: damaged; its answers were paid: restore a backup with palimpsest restore, or "
            f"--allow-lost puts it aside and goes on without them ({home.lm_ledger})"
        )
    return [f"{home.lm_ledger.name} was damaged; a new one is begun, the old one is {_put_aside(home.lm_ledger)}"]


def damaged_history(home: Home) -> list[Path]:
    """Returns the databases of Dagster that are damaged."""
    paths = [path for name in _HISTORY if (path := home.dagster / name).is_file()]
    return [path for path in paths if _is_damaged(path) or _is_half_made(path)]


def is_ledger_damaged(home: Home, after_ns: int = 0) -> bool:
    """Returns whether the ledger of answers is damaged; it is read where it changed after `after_ns`."""
    path = home.lm_ledger
    return path.is_file() and path.stat().st_mtime_ns > after_ns and _is_damaged(path)


def remove_damaged(home: Home) -> None:
    """Removes the databases that were put aside."""
    for folder in (home.path.glob(f"*{DAMAGED}*"), home.dagster.rglob(f"*{DAMAGED}*")):
        for path in folder:
            path.unlink()


def _is_damaged(path: Path) -> bool:
    if path.stat().st_size == 0:  # SQLite takes it for a new database, Dagster for one that it made
        log = _beside(path, "-wal")
        return not log.is_file() or log.stat().st_size == 0
    try:
        with closing(sqlite3.connect(path, timeout=30)) as db:
            return bool(db.execute(_CHECK).fetchall() != [("ok",)])
    except sqlite3.DatabaseError as e:
        # A database that is locked, or a disk that is full, is no damage.
        return e.sqlite_errorcode & _PRIMARY in _DAMAGE or e.sqlite_errorcode == sqlite3.SQLITE_IOERR_SHORT_READ


def _is_half_made(path: Path) -> bool:
    """Returns whether Dagster was stopped while it made a database: it writes the revision of the tables last.

    Dagster itself would take it for one of an earlier version, and no run of the home would start any more.
    """
    try:
        with closing(sqlite3.connect(path, timeout=30)) as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            has_revision = "alembic_version" in tables and bool(db.execute("SELECT * FROM alembic_version").fetchall())
    except sqlite3.DatabaseError:
        return False
    return bool(tables) and not has_revision


def _put_aside(path: Path) -> str:
    number = 1
    while (aside := path.with_name(f"{path.name}{DAMAGED}{number}")).exists():
        number += 1
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        _beside(path, suffix).unlink(missing_ok=True)
    return aside.name


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


# Checks that people's decisions are all there: without its lines, what they deleted would come back.
#
# The manifest of a build has the number of lines that it was made with; lines are only added, and a delete counts
# again.


def describe_damage(home: Home) -> str:
    """Returns what is wrong with the decisions of a home; empty where nothing is."""
    good, damaged = count_decisions(home.decisions)
    if damaged:
        return f"line {damaged[0]} is damaged"
    expected = _expected(home)
    if good >= expected or any(home.path.glob(PENDING_DELETES)):
        return ""
    return f"{expected - good} of {expected} lines are missing"


def _expected(home: Home) -> int:
    try:
        build = published(home)
        return build.manifest.decisions if build else 0
    except DamagedFile:
        return 0  # the manifest is repaired first


def repair_decisions(home: Home, allow_lost: bool) -> list[str]:
    """Drops damaged decisions; returns a line where there are any.

    Raises:
        PalimpsestError: decisions are damaged or missing, and `allow_lost` is not given.
    """
    if not (what := describe_damage(home)):
        return []
    if not allow_lost:
        raise PalimpsestError(
            f"decisions.jsonl: {what}: what was undone, confirmed or deleted by it would come back; restore a backup "
            f"with palimpsest restore, or go on without with --allow-lost ({home.decisions})"
        )
    drop_damaged(home.decisions)
    count_decisions_again(home)
    return [f"decisions.jsonl: {what}; what was decided by it is lost"]


# Repairs the ingest log, which is the record: from its copy, or by reading sources again that did not change.
#
# Files of the inbox are written once, so that one with other bytes than the log read is damaged; the log has its text.

_MAX_NAMED = 3
_HOW = "restore a backup with palimpsest restore, or build without them with --allow-lost"


@dataclass(frozen=True)
class LogRepair:
    """What was repaired, a line each, the collections whose sources have to be read again, and why others are lost."""

    lines: tuple[str, ...] = ()
    again: frozenset[str] = frozenset()
    lost: Mapping[str, PalimpsestError] = field(default_factory=dict)


def repair_logs(home: Home, names: Collection[str], after_ns: int, allow_lost: bool) -> LogRepair:
    """Repairs the logs of collections, as far as the record or the sources allow.

    Args:
        home: the home.
        names: of collections.
        after_ns: time of change from which on texts and files of the inbox are read; 0 reads all.
        allow_lost: forget versions that cannot be read again; otherwise their collections are lost.
    """
    lines: list[str] = []
    again = set()
    lost: dict[str, PalimpsestError] = {}
    for name in sorted(names):
        log = IngestLog(home.log / name)
        try:
            done = _repair_versions(home, log, name, allow_lost)
            texts = _repair_texts(home, log, name, after_ns, allow_lost)
        except PalimpsestError as e:
            lost[name] = e
            continue
        lines += done + texts + _repair_inbox(home, log, name, after_ns) + _repair_pages(home, name)
        for path in damaged_marks(log):
            path.unlink()
            lines.append(f"log of {name}: {path.name} was damaged; what it says is found out again")
        if texts or (done and not log.versions().height):
            again.add(name)
    return LogRepair(tuple(lines), frozenset(again), lost)


def _repair_versions(home: Home, log: IngestLog, name: str, allow_lost: bool) -> list[str]:
    if damaged := log.damaged_lists():
        if log.restore_versions():
            return [f"log of {name}: {path.name} was damaged; it is made again from its copy" for path in damaged]
        what = "is damaged"
    elif log.versions().height or not _had_sources(home, name):
        return []
    else:
        what = "is missing"
    if not allow_lost:
        raise PalimpsestError(
            f"log of {name}: versions.parquet {what}, and so is its copy: what sources said before, and sources that "
            f"are gone, is lost; restore a backup with palimpsest restore, or --allow-lost reads the sources again "
            f"({log.folder})"
        )
    log.start_again()
    return [f"log of {name}: versions.parquet {what}; its sources are read again, earlier versions are lost"]


def _had_sources(home: Home, name: str) -> bool:
    """Returns whether the published build has documents of a collection, so that its log cannot be empty."""
    build = published(home)
    if build is None or name not in build.collections:
        return False
    try:
        return build.table(name, "documents").height > 0
    except DamagedFile:
        return True


def damaged_inbox(home: Home, log: IngestLog, name: str, after_ns: int = 0) -> list[Path]:
    """Returns the files of the inbox that are not as the log read them, of those changed after `after_ns`."""
    read = log.current().filter(pl.col("text_key").is_not_null(), pl.col("unread_hash").is_null())
    of_file = pl.coalesce("instead_of", "content_hash")  # an edited version is not what its file has
    wanted = {uri: blake2b for uri, blake2b in read.select("uri", of_file).iter_rows() if is_inbox_uri(uri)}
    files = [f for f in inbox_files(home.inbox, name) if f.uri in wanted and f.path.stat().st_mtime_ns > after_ns]
    replaced = replaced_sources(home.inbox)

    def is_known(file: InboxFile) -> bool:
        return hash_source(file.path, home.inbox) in (wanted[file.uri], replaced.get(replaced_key(name, file.uri)))

    return [f.path for f in files if not is_known(f)]


def damaged_marks(log: IngestLog) -> list[Path]:
    """Returns the files that note what was applied to a log already and are damaged."""
    found = []
    for path in (log.folder / name for name in (DELETED, STORED_BY)):
        try:
            read_sealed_json(path)
        except DamagedFile:
            found.append(path)
    return found


def _repair_inbox(home: Home, log: IngestLog, name: str, after_ns: int) -> list[str]:
    lines = []
    for path in damaged_inbox(home, log, name, after_ns):
        path.unlink()
        lines.append(f"inbox of {name}: {path.name} was damaged and is removed; the log has its text")
    return lines


def _repair_pages(home: Home, name: str) -> list[str]:
    lines = []
    for path in damaged_pages(home.web, name):
        path.unlink()
        kept = "the next crawl fetches its page again" if path.suffix == ".json" else "the log has its text"
        lines.append(f"web pages of {name}: {path.name} was damaged and is removed; {kept}")
    return lines


def _repair_texts(home: Home, log: IngestLog, name: str, after_ns: int, allow_lost: bool) -> list[str]:
    """Removes damaged texts of sources that can be read again, so that the build does; the others are lost.

    Raises:
        PalimpsestError: some are lost, and `allow_lost` is not given.
    """
    if not (keys := log.damaged_texts(after_ns)):
        return []
    rows = log.versions().filter(pl.col("text_key").is_in(keys)).select("uri", "ordinal", "content_hash", "text_key")
    there = _content_hashes(home, log, name)
    found: set[str] = set()
    lost = []
    for uri, ordinal, content_hash, key in rows.iter_rows():
        if there.get(uri) == content_hash:
            found.add(uri)
            log.text_path(key).unlink(missing_ok=True)
        else:
            lost.append((uri, ordinal, key))
    lines = [f"log of {name}: the text of {_some(sorted(found))} was damaged; it is read again"] if found else []
    if lost:
        named = _some([f"{uri} (version {ordinal})" for uri, ordinal, _ in lost])
        if not allow_lost:
            raise PalimpsestError(
                f"log of {name}: the text of {named} is damaged, and the source has changed since or is gone; {_HOW}"
            )
        log.forget_versions({key for _, _, key in lost})
        lines.append(f"log of {name}: {named} is lost: its text was damaged")
    return lines


def _content_hashes(home: Home, log: IngestLog, name: str) -> dict[str, str]:
    if (folder := home.folder_of(name)) is None:
        return {}
    sources = scan_sources(folder, load_collection(folder), read_decisions(home.decisions), home.inbox, None, home.web)
    return {uri: source.content_hash for uri, source in sources.items()}


def _some(names: list[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


@dataclass
class Repairs:
    """What was repaired for a build.

    Attributes:
        lines: one for each repair, as they are printed.
        tables: collections that lost tables, which are made again from the record.
        sources: collections with sources that have to be read again.
        lost: why collections cannot be built: what their logs said is nowhere else.
    """

    lines: list[str] = field(default_factory=list)
    tables: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    lost: dict[str, PalimpsestError] = field(default_factory=dict)

    @property
    def need_build(self) -> bool:
        """Whether something is missing until a build has made or read it again."""
        return bool(self.tables or self.sources)

    def add(self, lines: tuple[str, ...] | list[str]) -> None:
        """Prints and keeps lines; what was removed to be made again is not named once more."""
        for line in lines:
            if line not in self.lines:
                say(f"repaired: {line}")
                self.lines.append(line)


def repair_home(
    home: Home, corpora: list[Path] | None = None, allow_lost: bool = False, read_all: bool = False
) -> Repairs:
    """Looks for damage and repairs it.

    Args:
        home: the home, whose lock this process has.
        corpora: folders of collections, for a home whose list of them is damaged.
        allow_lost: forget what cannot be read again.
        read_all: read every file; otherwise those that changed since the published build was written.

    Raises:
        PalimpsestError: the record is damaged, and what it said is nowhere else.
    """
    repairs = Repairs()
    repairs.add(repair_sources(home, corpora))
    after_ns = 0 if read_all else _published_ns(home)
    done = repair_published(home, read_all)
    repairs.add(done.lines)
    repairs.tables |= done.again
    repairs.add([*repair_decisions(home, allow_lost), *repair_ledger(home, after_ns, allow_lost)])
    is_build_damaged = bool(done.lines or done.derived)
    repair_inputs(home, repairs, _collections(home), 0 if is_build_damaged else after_ns, allow_lost)
    if is_build_damaged and not repairs.tables and published(home) is not None:
        repairs.add(repair_derived(home, done.derived))
    repairs.add(repair_older(home, read_all) if not repairs.tables else [])
    return repairs


def repair_inputs(home: Home, repairs: Repairs, names: Iterable[str], after_ns: int, allow_lost: bool) -> None:
    """Repairs what the stages of collections read of the record: their logs, and all vectors."""
    done = repair_logs(home, set(names), after_ns, allow_lost)
    repairs.add(done.lines)
    repairs.sources |= done.again
    repairs.lost.update(done.lost)
    _repair_vectors(home, repairs, after_ns)


def _repair_vectors(home: Home, repairs: Repairs, after_ns: int) -> None:
    """Removes damaged parts of the stores of vectors; their texts are embedded again."""
    parts = [part for store in embedding_stores(home) for part in store.damaged(after_ns)]
    for part in parts:
        part.unlink()
        repairs.add([f"vectors {part.parent.name}/{part.name} were damaged; their texts are embedded again"])
    build = published(home)
    if not parts or build is None:
        return
    known = known_texts(home, build)
    for name in build.collections:
        texts = {h for t in ("embed_inputs", "context_inputs") for h in build.table(name, t)["text_hash"].drop_nulls()}
        if texts - known:
            repairs.tables.add(name)


def _published_ns(home: Home) -> int:
    """Returns when the manifest of the published build was written: what is older was whole, or was not noticed."""
    try:
        build = published(home)
    except DamagedFile:
        return 0
    return (build.path / MANIFEST).stat().st_mtime_ns if build is not None and build.is_finished else 0


def make_again(home: Home, names: set[str]) -> None:
    """Makes the tables of collections again from the record, into the staged build; their sources are not read."""
    for name in sorted(names - {ONCE}):
        run_from_record(log_context(home, name))


def find_damage(home: Home) -> list[str]:
    """Returns the names of all damaged files that checksums are known of, relative to the home; every file is read."""
    return sorted(str(path.relative_to(home.path)) for path in _damaged(home))


def _damaged(home: Home) -> Iterator[Path]:
    yield from damaged_settings(home)
    current = published(home)
    for build in kept_builds(home):
        if current is None or build.build_id <= current.build_id:
            yield from _damaged_of(build)
    for name in sorted(_collections(home)):
        yield from _damaged_log(home, name, current)
    for store in embedding_stores(home):
        yield from (p for p in store.damaged() if p.is_relative_to(home.path))
    if describe_damage(home):
        yield home.decisions
    yield from damaged_history(home)
    if is_ledger_damaged(home):
        yield home.lm_ledger


def _damaged_log(home: Home, name: str, current: Build | None) -> Iterator[Path]:
    log = IngestLog(home.log / name)
    lists = log.damaged_lists()
    yield from (*lists, *damaged_marks(log))
    if any(path.name == "versions.parquet" for path in lists):
        return
    yield from (log.text_path(key) for key in log.damaged_texts())
    yield from (*damaged_inbox(home, log, name), *damaged_pages(home.web, name))
    if current is not None and not log.versions().height and current.table(name, "documents").height:
        yield log.folder / "versions.parquet"


def _damaged_of(build: Build) -> Iterator[Path]:
    if not build.is_finished:
        yield build.path / MANIFEST
    try:
        yield from (build.path / name for name in build.damaged_files(read_all=True))
    except DamagedFile as e:
        yield e.path


def _collections(home: Home) -> set[str]:
    """Returns the names of collections that have a log, or should have one."""
    build = published(home)
    logged = {p.name for p in home.log.glob("*") if p.is_dir()}
    return logged | set(build.collections if build else ())
