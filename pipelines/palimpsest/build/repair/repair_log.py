"""Repairs the ingest log, which is the record: from its copy, or by reading sources again that did not change.

Files of the inbox are written once, so that one with other bytes than the log read is damaged; the log has its text.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from palimpsest.core.errors import DamagedFile, PalimpsestError
from palimpsest.core.sealed_json import read_sealed_json
from palimpsest.sources.discovery import hash_source, scan_sources
from palimpsest.sources.log_maintenance import DELETED, STORED_BY
from palimpsest.store.builds import published
from palimpsest.store.collection_config import load_collection
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home
from palimpsest.store.inbox import InboxFile, inbox_files, is_inbox_uri, replaced_key, replaced_sources
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.web_pages import damaged_pages

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
