"""The SQL conditions of filters."""

import datetime as dt
from collections.abc import Mapping
from typing import TypeAlias

from palimpsest.core.times import is_of_own_clock
from palimpsest.query.request.types import Filters
from palimpsest.query.scope.withheld import Withheld

SqlParameters: TypeAlias = Mapping[str, object]
"""Values of a statement's parameters, by name."""

_OWN_CLOCK = "observed_at + to_minutes(coalesce(utc_offset, 0))"
# Each filter's condition; its value is bound under the same name.
_CONDITIONS = {
    "session": "session_id = $session",
    "types": "list_contains($types, type)",
    "tags": "list_has_any(tags, $tags)",
    "since": "{observed_at} >= $since",
    "until": "{observed_at} <= $until",
    # A memory retired on an unknown day is not offered as valid then; nor is an undated one before the home knew it.
    "as_of": "(coalesce(valid_from, known_from) IS NULL OR coalesce(valid_from, known_from) <= $as_of) AND "
    "(valid_until > $as_of OR (valid_until IS NULL AND is_latest))",
    "now": "(valid_from IS NULL OR valid_from <= $now) AND (valid_until IS NULL OR valid_until > $now)",
    "clock": "(retention_until IS NULL OR retention_until > $clock)",
}
_EXCLUSIONS = {"hidden": "user_visible IS DISTINCT FROM false", "pii": "pii IS DISTINCT FROM true"}


def conditions_of(filters: Filters, withheld: Withheld) -> tuple[list[str], SqlParameters]:
    """Returns the conditions of filters in a scope, and the values of their parameters.

    Args:
        filters: as `withheld.narrowed` returns them.
        withheld: what the scope does not serve by default.
    """
    values = {name: _as_stored(v) for name in _CONDITIONS if (v := getattr(filters, name)) not in (None, ())}
    conditions = [_CONDITIONS[name].format(observed_at=_observed_at(getattr(filters, name))) for name in values]
    conditions += [_EXCLUSIONS[name] for name in withheld.conditions(filters)]
    if filters.as_of is None and not filters.history:
        conditions.append("is_latest")
    return conditions, values


def _observed_at(limit: object) -> str:
    """Returns what compares with a limit: a time without an offset is one of each speaker's own clock."""
    return _OWN_CLOCK if is_of_own_clock(limit) else "observed_at"


def _as_stored(value: object) -> object:
    """Returns a time as UTC without a zone, for which DuckDB needs an extension, and names as a list."""
    if isinstance(value, tuple):
        return list(value)
    if not isinstance(value, dt.datetime):
        return value
    return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
