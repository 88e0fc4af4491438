"""Computes the health of a home, records its numbers and writes its page; command and asset call it."""

import datetime as dt
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import write_bytes
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home
from palimpsest.store.usage_log import reads_of
from palimpsest_eval.health.history import BuildNumbers, numbers_of, read_history, record
from palimpsest_eval.health.home_health import TABLES, HomeHealth, home_health, proposal_counts

PAGE = Path("health") / "report.html"


def health_of(home: Home, build: Build | None = None, now: dt.datetime | None = None) -> HomeHealth:
    """Returns the health of a build.

    Args:
        home: the home.
        build: a finished build; None means the published one.
        now: what ages and use are counted from; None means now.

    Raises:
        PalimpsestError: the home has no published build.
    """
    build = build or published(home)
    if build is None:
        raise PalimpsestError(f"home {home.path}: it has no published build; run palimpsest build --home {home.path}")
    tables = build.tables(TABLES)
    before = [row for row in read_history(home) if row.build_id < build.build_id]
    return home_health(
        tables,
        build.collections,
        [*before, numbers_of(home, build)],
        reads_of(home.path, set(tables["memories"]["memory_id"])),
        proposal_counts(home),
        str(build.manifest.gate.get("status", "unjudged")),
        now or dt.datetime.now(dt.UTC),
    )


def record_health(home: Home, now: dt.datetime | None = None) -> HomeHealth:
    """Writes the page of the published build into the home and its numbers into the history; returns its health.

    Raises:
        PalimpsestError: the home has no published build.
    """
    health = health_of(home, now=now)
    last = health.builds[-1]
    record(home, BuildNumbers(last.build_id, last.created_at, health.numbers, last.seconds))
    write_health(health, home.path / PAGE)
    return health


def write_health(health: HomeHealth, path: Path) -> None:
    """Writes the page of a home's health.

    Raises:
        PalimpsestError: the path cannot be written.
    """
    from palimpsest_eval.report.health_page import health_html

    try:
        write_bytes(path, health_html(health).encode())
    except OSError as e:
        raise PalimpsestError(f"--report {path}: {e.strerror}; name another") from None
