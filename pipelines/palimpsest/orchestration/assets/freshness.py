"""How old what is published may be: a policy that Dagster evaluates, and a check of each collection."""

import datetime as dt

import dagster as dg

from palimpsest.build.freshness import CollectionFreshness, collection_freshness, overdue_hours
from palimpsest.orchestration.assets.resources import HomeResource

_FAIL_AFTER = 3  # times the hours after which it warns


def freshness_of_builds() -> dg.FreshnessPolicy:
    """Returns the policy of the published build: it warns after PALIMPSEST_OVERDUE_HOURS, and fails after three times.

    Raises:
        PalimpsestError: PALIMPSEST_OVERDUE_HOURS is no whole number.
    """
    warn = dt.timedelta(hours=overdue_hours())
    return dg.FreshnessPolicy.time_window(fail_window=_FAIL_AFTER * warn, warn_window=warn)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dg.asset_check(asset="published", description="Every collection was confirmed within its `overdue_hours`.")
def fresh_collections(home: HomeResource) -> dg.AssetCheckResult:
    """Warns where a collection was neither built nor found unchanged for longer than it may be."""
    found = collection_freshness(home.home(), _now())
    overdue = [f.collection for f in found if f.is_overdue]
    return dg.AssetCheckResult(
        passed=not overdue,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"overdue: {', '.join(overdue)}" if overdue else None,
        metadata={"collections": len(found), "overdue": len(overdue), "hours": dg.MetadataValue.md(_table(found))},
    )


def _table(found: list[CollectionFreshness]) -> str:
    rows = [f"| {f.collection} | {'-' if f.hours is None else f'{f.hours:.1f}'} | {f.most_hours} |" for f in found]
    return "\n".join(["| collection | hours since it was confirmed | at most |", "|---|---|---|", *rows])
