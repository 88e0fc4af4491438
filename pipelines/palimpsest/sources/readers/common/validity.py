"""When a turn or a row of a table is valid: its `valid_from` and `valid_until`."""

import re
from collections.abc import Sequence
from datetime import UTC
from typing import Any, NamedTuple

from palimpsest.sources.readers.common.document_time import explain_date, explain_reversed, is_reversed
from palimpsest.sources.records.stated_fields import StatedFields
from palimpsest.sources.secrets.find_secrets import shorten_value
from palimpsest.text.dates import (
    NO_DATE_WORDS,
    DateOrder,
    parse_stated_end,
    parse_stated_time,
)

_FROM, _UNTIL = {"validfrom"}, {"validuntil", "validto"}


class ValidityColumns(NamedTuple):
    """The columns of a table that state when its rows are valid; None for one that is not there."""

    starts: int | None
    ends: int | None

    def cells(self, row: Sequence[str]) -> tuple[str | None, str | None]:
        """Returns the two cells of a row, which may be shorter than the header."""
        first, second = (row[c] if c is not None and c < len(row) else None for c in self)
        return first, second


def find_validity_columns(header: Sequence[str]) -> ValidityColumns | None:
    """Returns where a header names `valid_from` or `valid_until` (`Valid from`, `valid-to`), None where it does not."""
    names = [re.sub(r"[-_\s]", "", cell).lower() for cell in header]
    starts, ends = (next((i for i, n in enumerate(names) if n in wanted), None) for wanted in (_FROM, _UNTIL))
    return None if starts is None and ends is None else ValidityColumns(starts, ends)


def parse_validity(starts: Any, ends: Any, order: DateOrder | None = None) -> tuple[StatedFields | None, list[str]]:
    """Returns when something is valid, None where neither value is a date, and a problem for each that should be one.

    Args:
        starts: the value of `valid_from`.
        ends: the value of `valid_until`; a day, month or year is included whole.
        order: what comes first in dates of three numbers.
    """
    first, last = parse_stated_time(starts, order), parse_stated_end(ends, order)
    problems = [
        f"{name} {shorten_value(value)!r} {explain_date(value)}"
        for name, value, found in (("valid_from", starts, first), ("valid_until", ends, last))
        if found is None and str(value or "").strip().lower() not in NO_DATE_WORDS
    ]
    if is_reversed(starts, ends, order):
        return None, [explain_reversed(starts, ends)]
    if first is None and last is None:
        return None, problems
    return StatedFields(
        valid_from=first.astimezone(UTC).isoformat() if first else None, valid_until=last.isoformat() if last else None
    ), problems
