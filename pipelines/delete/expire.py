"""Deletes what is past its retention, before a build."""

import datetime as dt

import polars as pl

from palimpsest.store.builds import kept
from palimpsest.store.home import Home


def expired(home: Home, now: dt.datetime) -> bool:
    """Tells whether a kept build holds a memory that is past its retention."""
    for build in kept(home):
        for name in build.collections:
            path = build.table_path(name, "memories")
            if path.exists() and "retention_until" in pl.read_parquet_schema(path):
                until = pl.read_parquet(path, columns=["retention_until"])["retention_until"]
                if (until <= now).any():
                    return True
    return False


def delete_expired(home: Home, now: dt.datetime | None = None) -> int:
    """Deletes memories past their retention from a home whose lock is held, as a delete does; returns how many.

    Raises:
        Refused: some of it was left; the message names the files.
        PalimpsestError: the home is in Neo4j too, and the server does not answer.
    """
    now = now or dt.datetime.now(dt.UTC)
    if not expired(home, now) and not (home.path / "pending-delete-retention.json").exists():
        return 0
    from palimpsest.delete import Target, delete_target

    return int(delete_target(home, Target(expired_at=now))["memories"])
