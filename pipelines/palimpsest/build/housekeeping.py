"""Removes what a home no longer needs, by policy: closed logs, orphaned vectors, old runs of Dagster, leftovers.

Builds have a policy of their own: the newest five are kept. The ingest log, decisions and answers of a language model
are the record, and nothing here touches them.
"""

import datetime as dt
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from palimpsest.build.delete.run_history import remove_run_files
from palimpsest.build.vector_sweep import orphaned_vectors, sweep_vectors
from palimpsest.core.environment import whole_number
from palimpsest.core.json_types import JsonObject
from palimpsest.store.event_log import LogPolicy, files_to_remove, log_policy, observed, run_scope
from palimpsest.store.home import Home

RUN_DAYS_VARIABLE, DEFAULT_RUN_DAYS, MAX_RUN_DAYS = "PALIMPSEST_RUN_DAYS", 365, 36_500
_LEFTOVER_S = 86_400.0


@dataclass(frozen=True)
class Removed:
    """What was removed of a part of the home, or would be: how many, and their bytes on disk."""

    part: str
    items: int
    bytes: int


@dataclass(frozen=True)
class Housekeeping:
    """What was removed, and the size of each folder of the home afterwards, in bytes."""

    removed: tuple[Removed, ...]
    sizes: dict[str, int]

    def to_json(self) -> JsonObject:
        """Returns the fields as JSON values."""
        return {"removed": [asdict(r) for r in self.removed], "sizes": self.sizes}


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
    run_days = whole_number(RUN_DAYS_VARIABLE, DEFAULT_RUN_DAYS, 1, MAX_RUN_DAYS)
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
