"""When the published build was last known to be up to date: published, or looked at by a build that changed nothing."""

import datetime as dt
from dataclasses import dataclass

from palimpsest.core.environment import whole_number
from palimpsest.store.builds import published
from palimpsest.store.event_log import read_events
from palimpsest.store.home import Home

HOURS_VARIABLE, DEFAULT_HOURS, MAX_HOURS = "PALIMPSEST_OVERDUE_HOURS", 26, 24 * 365
_CONFIRMING = ("build_confirmed", "publish_finished")


@dataclass(frozen=True)
class Freshness:
    """The published build, when it was last confirmed, and hours since then."""

    build_id: str
    confirmed_at: dt.datetime
    hours: float

    @property
    def is_overdue(self) -> bool:
        """Whether that is longer ago than PALIMPSEST_OVERDUE_HOURS allows."""
        return self.hours > overdue_hours()


def overdue_hours() -> int:
    """Returns after how many hours a published build is overdue: 26 unless the environment says otherwise.

    Raises:
        PalimpsestError: PALIMPSEST_OVERDUE_HOURS is no whole number.
    """
    return whole_number(HOURS_VARIABLE, DEFAULT_HOURS, 1, MAX_HOURS)


def freshness(home: Home, now: dt.datetime) -> Freshness | None:
    """Returns the freshness of the published build; None where nothing was published.

    A build that failed or whose gate closed confirms nothing.
    """
    build = published(home)
    if build is None:
        return None
    created = dt.datetime.fromisoformat(build.manifest.created_at)
    events = read_events(home.path, since=created)
    times = [
        e.time
        for e in events
        if e.event in _CONFIRMING or (e.event == "build_finished" and e.fields.get("published") == 1)
    ]
    confirmed = max([created, *times])
    return Freshness(build.build_id, confirmed, (now - confirmed).total_seconds() / 3600)
