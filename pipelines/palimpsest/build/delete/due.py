"""Deletes before a build what its settings exclude: memories past their retention, and users who are denied."""

import datetime as dt
from collections.abc import Iterator

import polars as pl

from palimpsest.build.delete.target import Target, pending_path
from palimpsest.store.builds import kept, published
from palimpsest.store.collection_config import settings_or_none
from palimpsest.store.home import Home


def due_targets(home: Home, now: dt.datetime) -> list[Target]:
    """Returns targets for memories past their retention, and for users in `users.deny`, that a kept build still has.

    A delete of this kind that was stopped is due again.
    """
    expired = Target(expired_at=now)
    found = [expired] if _has_expired(home, now) or pending_path(home, expired).exists() else []
    current = published(home)
    for name, folder in sorted(home.sources.items()):
        if not (folder / "collection.yaml").is_file():
            continue
        config = settings_or_none(folder) or (current.config_of(name) if current else None)
        denied = sorted(config.users.deny) if config else []
        users = set(_users(home, name)) if denied else set()
        for user in denied:
            target = Target(collection=name, user=user, denied=True)
            if user in users or pending_path(home, target).exists():
                found.append(target)
    return found


def _has_expired(home: Home, now: dt.datetime) -> bool:
    for build in kept(home):
        for name in build.collections:
            path = build.table_path(name, "memories")
            if path.exists() and "retention_until" in pl.read_parquet_schema(path):
                until = pl.read_parquet(path, columns=["retention_until"], glob=False)["retention_until"]
                if (until <= now).any():
                    return True
    return False


def _users(home: Home, collection: str) -> Iterator[str]:
    for build in kept(home):
        if (path := build.table_path(collection, "documents")).exists():
            yield from pl.read_parquet(path, columns=["user_id"], glob=False)["user_id"].unique()


def delete_due(home: Home, now: dt.datetime | None = None) -> int:
    """Deletes what is due from a home whose lock this process has; returns how many memories.

    Raises:
        Refused: some of it was found afterwards; the message names the files.
        PalimpsestError: a collection's settings are wrong, or the home is in Neo4j too, and the server does not answer.
    """
    targets = due_targets(home, now or dt.datetime.now(dt.UTC))
    if not targets:
        return 0
    from palimpsest.build.delete import delete_target

    return sum(delete_target(home, target).memories for target in targets)
