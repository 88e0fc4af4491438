"""Periods that memories state, and how well they fit the one that a question asks about.

A passage that says `from 2003 to 2006` answers for 2004, though no word of the question is in it.
"""

import datetime as dt
import math
from dataclasses import dataclass

import numpy as np

from palimpsest.text.date_mentions import find_date_mentions, without_overlaps
from palimpsest.text.periods import Period
from palimpsest.text.relative_dates import find_relative_dates, is_reference_day

_MAX_CHARS = 20_000  # of a memory that are searched for relative dates
_BEGINNING_WEIGHT = 0.7  # of whether a period begins with the one in question; the rest is whether both overlap


def stated_periods(text: str, stated_on: dt.date | None) -> list[Period]:
    """Returns the periods that a text states; `yesterday` and `9 June` in it count from the day it was stated."""
    dated = find_date_mentions(text)
    found = [d.period for d in dated]
    if stated_on is None or not is_reference_day(stated_on):
        return found
    return found + [d.period for d in without_overlaps(find_relative_dates(text[:_MAX_CHARS], stated_on), dated)]


@dataclass(frozen=True)
class MemoryPeriods:
    """The periods of a scope's memories: local row, start and end of each, in years; a memory may have several."""

    rows: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.rows.nbytes + self.starts.nbytes + self.ends.nbytes

    def fit_scores(self, period: Period, size: int) -> np.ndarray:
        """Returns how well each of `size` memories fits a period, 0 to 1, by the period of it that fits best.

        Of it .3 is that both overlap, and .7 that they begin together: what lasted from 2003 to 2006 is stated by the
        text that says what began in 2003. That part falls by e for each length of `period` (a year where it is open)
        between the beginnings, or between the ends where `period` has no beginning.
        """
        low, high = period
        length = high - low if math.isfinite(high - low) else 1.0
        wanted, stated = (low, self.starts) if math.isfinite(low) else (high, self.ends)
        fit = stated - wanted
        np.abs(fit, out=fit)
        fit /= -max(length, 1e-3)
        np.exp(fit, out=fit)
        fit *= _BEGINNING_WEIGHT
        fit[(self.starts < high) & (self.ends > low)] += 1 - _BEGINNING_WEIGHT
        out = np.zeros(size)
        np.maximum.at(out, self.rows, fit)
        return out
