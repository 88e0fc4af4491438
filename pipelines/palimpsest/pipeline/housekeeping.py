"""Removes what a home no longer needs, by policy: closed logs, orphaned vectors, old runs of Dagster, leftovers.

Builds have a policy of their own: the newest five are kept. The ingest log, decisions and answers of a language model
are the record, and nothing here touches them.
"""

import datetime as dt
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from palimpsest.core.environment import whole_number
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import FORMAT, check_format, nothing_published, read_format, say
from palimpsest.core.ids import JsonRecord
from palimpsest.index.index_format import index_format
from palimpsest.memories.embedders import embedding_stores
from palimpsest.pipeline.deletion.run_history import remove_run_files
from palimpsest.pipeline.finish import finish_staged
from palimpsest.pipeline.plan import log_context
from palimpsest.pipeline.run_stage import run_from_record
from palimpsest.pipeline.stages import tables
from palimpsest.store.builds import ONCE, kept_builds, published, staged
from palimpsest.store.collection_config import find_collections
from palimpsest.store.event_log import LogPolicy, files_to_remove, log_policy, observed, run_scope
from palimpsest.store.home import Home
from palimpsest.store.tables import SCHEMAS

# Vectors that no text of a kept build has: how many there are, and their removal.


def retained_texts(home: Home) -> set[str]:
    """Returns the hashes of all texts that a kept build embeds, the staged one included."""
    embedded = [t.name for t in tables() if "text_hash" in SCHEMAS[t.name]]
    found = (b.table(c, t)["text_hash"] for b in kept_builds(home) for c in (*b.collections, ONCE) for t in embedded)
    return {text_hash for column in found for text_hash in column.drop_nulls()}


def sweep_vectors(home: Home) -> int:
    """Removes the vectors of all other texts from every store of the home; returns how many."""
    retained = retained_texts(home)
    return sum(store.compact(retained) for store in embedding_stores(home))


def orphaned_vectors(home: Home) -> tuple[int, int]:
    """Returns how many vectors `sweep_vectors` would remove, and about how many bytes they take."""
    retained, count, size = retained_texts(home), 0, 0
    for store, folder in zip(embedding_stores(home), _folders(home), strict=True):
        known = store.known()
        orphans = len(known - retained)
        stored = sum(p.stat().st_size for p in folder.glob("*.parquet"))
        count, size = count + orphans, size + (stored * orphans // len(known) if known else 0)
    return count, size


def _folders(home: Home) -> list[Path]:
    return [folder for folder in sorted(home.embeddings.glob("*")) if folder.is_dir()]


RUN_DAYS_VARIABLE = "PALIMPSEST_RUN_DAYS"
_LEFTOVER_S = 86_400.0


@dataclass(frozen=True)
class Removed:
    """What was removed of a part of the home, or would be: how many, and their bytes on disk."""

    part: str
    items: int
    bytes: int


@dataclass(frozen=True)
class Housekeeping(JsonRecord):
    """What was removed, and the size of each folder of the home afterwards, in bytes."""

    removed: tuple[Removed, ...]
    sizes: dict[str, int]


def keep_house(home: Home, dry_run: bool = False, now: dt.datetime | None = None) -> Housekeeping:
    """Removes what the policies do not keep.

    Args:
        home: the home.
        dry_run: count only.
        now: what ages are counted from.

    Raises:
        PalimpsestError: a policy cannot be read, or another process is writing the home.
    """
    now = now or dt.datetime.now(dt.UTC)
    policy = log_policy()
    run_days = whole_number(RUN_DAYS_VARIABLE)
    with home.lock(), run_scope():
        if dry_run:
            return Housekeeping(_keep_house(home, True, now, policy, run_days), home_sizes(home))
        with observed(home.path, "housekeeping") as event:
            removed = _keep_house(home, False, now, policy, run_days)
            event |= {"items": sum(r.items for r in removed), "bytes": sum(r.bytes for r in removed)}
        return Housekeeping(removed, home_sizes(home))


def home_sizes(home: Home) -> dict[str, int]:
    """Returns the bytes of each folder of a home, by name, and of its files as `.`; a linked file counts once."""
    sizes: dict[str, int] = {}
    seen: set[tuple[int, int]] = set()
    for path in sorted(home.path.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        stat = path.stat()
        if (stat.st_dev, stat.st_ino) in seen:
            continue
        seen.add((stat.st_dev, stat.st_ino))
        parts = path.relative_to(home.path).parts
        name = parts[0] if len(parts) > 1 else "."
        sizes[name] = sizes.get(name, 0) + stat.st_size
    return sizes


def _keep_house(home: Home, dry_run: bool, now: dt.datetime, logs: LogPolicy, run_days: int) -> tuple[Removed, ...]:
    removed = [
        _remove_files("logs", files_to_remove(home.path, logs, now.date()), dry_run),
        _remove_files("leftovers", _leftovers(home, now), dry_run),
        _remove_runs(home, now - dt.timedelta(days=run_days), dry_run),
    ]
    if home.embeddings_path is None:  # vectors that several homes share have texts of the others
        count, size = orphaned_vectors(home)
        if count and not dry_run:
            sweep_vectors(home)
        removed.append(Removed("vectors", count, size))
    return tuple(removed)


def _remove_files(part: str, paths: list[Path], dry_run: bool) -> Removed:
    size = sum(p.stat().st_size for p in paths)
    for path in [] if dry_run else paths:
        path.unlink(missing_ok=True)
    return Removed(part, len(paths), size)


def _leftovers(home: Home, now: dt.datetime) -> list[Path]:
    """Returns the files that interrupted writes left aside more than a day ago."""
    found = (p for p in home.path.rglob(".*.tmp") if p.is_file() and not p.is_symlink())
    return sorted(p for p in found if now.timestamp() - p.stat().st_mtime > _LEFTOVER_S)


def _remove_runs(home: Home, before: dt.datetime, dry_run: bool) -> Removed:
    """Removes finished runs of Dagster that were last changed before a time, with their logs and events."""
    if not (home.dagster / "dagster.yaml").is_file():
        return Removed("runs", 0, 0)
    import dagster as dg
    from dagster._core.storage.dagster_run import FINISHED_STATUSES

    with dg.DagsterInstance.from_config(str(home.dagster.resolve())) as instance:
        old = dg.RunsFilter(statuses=FINISHED_STATUSES, updated_before=before)
        ids = [record.dagster_run.run_id for record in instance.get_run_records(filters=old)]
        size = sum(p.stat().st_size for i in ids for p in _files_of_run(home, i))
        for run_id in [] if dry_run else ids:
            instance.delete_run(run_id)
    for run_id in [] if dry_run else ids:
        remove_run_files(home, run_id)
    return Removed("runs", len(ids), size)


def _files_of_run(home: Home, run_id: str) -> Iterable[Path]:
    yield from (p for p in (home.dagster / "storage" / run_id).rglob("*") if p.is_file())
    yield from (home.dagster / "history" / "runs").glob(f"{run_id}.db*")


# Brings a home of an earlier format to this version's: every table is made again from the ingest log.
#
# The log is the record, and it is read as every version wrote it; sources are not read and may be gone. What an earlier
# version derived (tables, index, records of stages) is not translated but made again, so that an upgraded home is what
# this version would have built. Readers see the earlier build until the new one is published.


def found_format(home: Home) -> int:
    """Returns the format of a home: what it records, else that of its index; 0 where its index cannot be read.

    Raises:
        PalimpsestError: nothing is published, or a newer version wrote the home.
    """
    check_format(home.path)
    build = published(home)
    if build is None:
        raise PalimpsestError(nothing_published(home.name))
    of_index = index_format(build.index) or 0
    if of_index > FORMAT:
        raise PalimpsestError(
            f"home {home.path}: written by a newer version of Palimpsest (format {of_index}, this version knows "
            f"{FORMAT}); upgrade Palimpsest, or name another --home"
        )
    return min(of_index, read_format(home.path) or of_index)


def stage_upgrade(home: Home, corpora: list[Path] | None) -> None:
    """Makes every collection of the published build again from its log and finishes the build; publishes nothing.

    Args:
        home: the home, whose lock this process has.
        corpora: where folders of collections are now; needed alone where the home does not have their settings.

    Raises:
        PalimpsestError: a collection's folder is gone, and the home does not have its settings.
    """
    current = published(home)
    assert current is not None
    home.create()
    if corpora:
        found = find_collections(corpora)
        home.remember_sources({n: f for n, f in found.items() if n in current.collections})
    contexts = {name: log_context(home, name) for name in current.collections}  # all are there before any is made
    shutil.rmtree(staged(home).path, ignore_errors=True)
    for name, context in contexts.items():
        say(f"collection {name}")
        run_from_record(context)
    manifest = finish_staged(home)
    # No fingerprints: readers may read sources differently by now, so the next build looks at each of them.
    staged(home).write_manifest(replace(manifest, fingerprints={}))
