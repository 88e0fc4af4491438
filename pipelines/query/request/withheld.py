"""What a scope does not serve unless asked: memories past their retention, hidden ones and those with personal data."""

import datetime as dt
from bisect import bisect_right
from dataclasses import dataclass, replace

from palimpsest.query.request.types import Filters


@dataclass(frozen=True)
class Withheld:
    """Which of the three a scope holds at all: one without any pays for none.

    Attributes:
        ends: distinct retention_until of its memories, ascending.
        hidden: whether a memory is not user_visible.
        pii: whether a memory holds personal data.
    """

    ends: tuple[dt.datetime, ...] = ()
    hidden: bool = False
    pii: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return 64 + 56 * len(self.ends)

    def narrowed(self, filters: Filters) -> Filters:
        """Returns filters that pass the same memories of this scope, and are equal as long as these are the same.

        `clock` becomes the last retention that ended by then, so that what passes can be kept from query to query.
        """
        ended = bisect_right(self.ends, filters.clock) if filters.clock is not None else 0
        clock = self.ends[ended - 1] if ended else None
        hidden, pii = self.hidden and filters.include_hidden, self.pii and filters.include_pii
        if (clock, hidden, pii) == (filters.clock, filters.include_hidden, filters.include_pii):
            return filters
        return replace(filters, clock=clock, include_hidden=hidden, include_pii=pii)

    def conditions(self, filters: Filters) -> tuple[str, ...]:
        """Returns which of `hidden` and `pii` must be left out; `clock` is a filter with a value of its own."""
        asked = {"hidden": filters.include_hidden, "pii": filters.include_pii}
        return tuple(name for name, included in asked.items() if getattr(self, name) and not included)
