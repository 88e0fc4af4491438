"""Whether the day or the month comes first in the dates of a chat, decided by all of them."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise

from palimpsest.text.dates import DATE_ORDER_HINT, DateOrder

Numbers = tuple[str, str, str]
"""The three numbers of a date, as they are written."""
Clock = tuple[int, int, int]
"""Hour, minute and second."""

ORDER_HINT = DATE_ORDER_HINT.split(", or ", 1)[1]
_ORDERS: tuple[DateOrder, ...] = ("day_first", "month_first")
_NUMERIC = re.compile(r"(?<!\d)(\d{1,2})[/-](\d{1,2})[/-]\d{4}(?!\d)")


def decide_order(
    dates: Sequence[Numbers], clocks: Sequence[Clock], stated: DateOrder | None = None
) -> tuple[DateOrder, bool]:
    """Returns which number comes first in all dates of a file, and whether that is certain.

    A number above 12 decides, then the collection's setting, then which order makes fewer messages older than the one
    before them; else the day is first, and it is not certain.

    Args:
        dates: of each message, in the order of the file.
        clocks: of each message.
        stated: the setting of the collection.
    """
    short = [(int(a), int(b)) for a, b, _ in dates if len(a) < 3]
    if short and (order := _decide_by_numbers(short)):
        return order, True
    if stated:
        return stated, True
    steps_back = {order: _steps_back(dates, clocks, order) for order in _ORDERS}
    if steps_back["day_first"] != steps_back["month_first"]:
        return min(_ORDERS, key=lambda o: steps_back[o]), True
    return "day_first", all(a == b for a, b in short)


def find_order(stamps: Iterable[object]) -> DateOrder | None:
    """Returns which number comes first in timestamps such as `14/10/2025`, None where no number above 12 decides."""
    found = (_NUMERIC.search(s) for s in stamps if isinstance(s, str))
    return _decide_by_numbers([(int(m[1]), int(m[2])) for m in found if m])


def _decide_by_numbers(pairs: Sequence[tuple[int, int]]) -> DateOrder | None:
    firsts, seconds = sum(a > 12 for a, _ in pairs), sum(b > 12 for _, b in pairs)
    if firsts == seconds:
        return None
    return "day_first" if firsts > seconds else "month_first"


def parse_numbers(numbers: Numbers, clock: Clock, order: DateOrder) -> datetime | None:
    """Returns the time of a date in three numbers, the year first or last; None where it is no day."""
    a, b, c = map(int, numbers)
    if len(numbers[0]) == 4:
        year, month, day = a, b, c
    else:
        day, month = (a, b) if order == "day_first" else (b, a)
        year = c if len(numbers[2]) == 4 else 2000 + c
    try:
        return datetime(year, month, day, *clock)
    except ValueError:
        return None


def _steps_back(dates: Sequence[Numbers], clocks: Sequence[Clock], order: DateOrder) -> int:
    times = [t for d, c in zip(dates, clocks, strict=True) if (t := parse_numbers(d, c, order))]
    return sum(later < earlier for earlier, later in pairwise(times)) + len(dates) - len(times)
