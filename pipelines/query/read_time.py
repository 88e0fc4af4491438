"""How the time in a question was read for one scope: told with every answer, so that nobody is surprised by it."""

import datetime as dt
from dataclasses import dataclass, replace

from palimpsest.query.ranking.backend import Backend
from palimpsest.query.request.types import Filters, Scope
from palimpsest.text.periods import Period
from palimpsest.text.question_time import needs_reference, parse_question_time


@dataclass(frozen=True)
class TimeRead:
    """What was understood of a question's words about time.

    Attributes:
        as_of: moment whose knowledge the question asks for, where the answer was made from that.
        as_of_phrase: the words that ask for it, also where they were not followed.
        not_followed: why they were not: nothing of the scope was observed by then.
        phrase: words told from the reference day, such as `last week`.
        first: first day of what they mean, None where it has no beginning.
        last: last day, None where it has no end.
        reference: the day that words were told from, None where none had to be.
        period: what the question asks about by time, in years; None where those words ask for a moment's knowledge.
        reference_is: `now` or `as_of` where that was given, else `newest memory`: that of the scope.
        untold: words such as `last week` that say nothing, for neither was given.
    """

    as_of: dt.datetime | None = None
    as_of_phrase: str = ""
    not_followed: str = ""
    phrase: str = ""
    first: dt.date | None = None
    last: dt.date | None = None
    reference: dt.date | None = None
    reference_is: str = ""
    untold: str = ""
    period: Period | None = None


def read_time(backend: Backend, scope: Scope, text: str, filters: Filters) -> tuple[Filters, TimeRead]:
    """Returns the filters that hold, with `as_of` where the question asks for it in words, and what was understood.

    Words ask for a moment's knowledge only where neither `as_of` nor `history` was given, and where something of the
    scope was observed by then: `as of 1998` in texts of today is a time that they speak of. With `as_of`, `now` only
    tells when the question is asked: what held then may be over by now. There is no clock: `last week` is told from
    `now`, else from `as_of`, else it says nothing. Dates without a year are told from the day of the scope's newest
    memory then.

    Args:
        backend: the store of the build.
        scope: where to search.
        text: the question.
        filters: those that were given.
    """
    reference, named = None, ""
    if needs_reference(text):
        given = filters.now or filters.as_of
        known = None if given else backend.observed(scope)
        if moment := given or (known[1] if known else None):
            reference = moment.date()
            named = "now" if filters.now else "as_of" if filters.as_of else "newest memory"
    asked = parse_question_time(text, reference, exact=named != "newest memory")
    told = TimeRead(
        phrase=asked.phrase,
        first=asked.first,
        last=asked.last,
        reference=reference,
        reference_is=named,
        period=asked.period,
        untold=asked.unresolved_phrase,
    )
    if filters.as_of is not None:
        return replace(filters, now=None), told
    if asked.as_of is None or filters.history:
        return filters, told
    told = replace(told, as_of_phrase=asked.as_of_phrase)
    moment = dt.datetime.combine(asked.as_of, dt.time.max, dt.UTC)
    known = backend.observed(scope)
    if known is None or known[0] > moment:
        return filters, replace(told, not_followed="nothing here was observed by then")
    # What was known then was mostly said before: to be said that day is no merit.
    period = None if asked.as_of_is_period else asked.period
    return replace(filters, as_of=moment, now=None), replace(told, as_of=moment, period=period)
