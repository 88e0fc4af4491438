"""What a scope does not serve by default: memories past their retention, hidden ones and those with personal data."""

import datetime as dt
from bisect import bisect_right
from dataclasses import dataclass, replace

from palimpsest.query.request.types import Filters
from palimpsest.query.scope.scope_arrays import Arrays

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Withheld:
    """Which of the three a scope has at all: a scope with none skips their conditions.

    Attributes:
        ends: distinct retention_until of its memories, ascending.
        hidden: whether any memory is not user_visible.
        pii: whether any memory has personal data.
    """

    ends: tuple[dt.datetime, ...] = ()
    hidden: bool = False
    pii: bool = False

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Withheld":
        """Makes it of the part `withheld` of a scope: `ends` in microseconds since 1970, `flags` hidden and pii."""
        if not arrays:
            return cls()
        hidden, pii = arrays["flags"].tolist()
        ends = tuple(_EPOCH + dt.timedelta(microseconds=m) for m in arrays["ends"].tolist())
        return cls(ends, bool(hidden), bool(pii))

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return 64 + 56 * len(self.ends)

    def narrowed(self, filters: Filters) -> Filters:
        """Returns filters that pass the same memories of this scope and compare equal as long as those are the same.

        `clock` becomes the last retention that ended by then, so that the result can be cached from query to query.
        """
        ended = bisect_right(self.ends, filters.clock) if filters.clock is not None else 0
        clock = self.ends[ended - 1] if ended else None
        hidden, pii = self.hidden and filters.include_hidden, self.pii and filters.include_pii
        if (clock, hidden, pii) == (filters.clock, filters.include_hidden, filters.include_pii):
            return filters
        return replace(filters, clock=clock, include_hidden=hidden, include_pii=pii)

    def conditions(self, filters: Filters) -> tuple[str, ...]:
        """Returns which of `hidden` and `pii` must be excluded; `clock` is a filter with a value of its own."""
        included = {"hidden": filters.include_hidden, "pii": filters.include_pii}
        return tuple(name for name, is_included in included.items() if getattr(self, name) and not is_included)
