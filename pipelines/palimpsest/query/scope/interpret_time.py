"""Interprets the words about time in a question, for one scope; every answer reports the interpretation."""

import datetime as dt
from dataclasses import dataclass, replace

from palimpsest.query.request.types import Filters
from palimpsest.query.scope.served_scope import ServedScope
from palimpsest.text.periods import Period
from palimpsest.text.question_time import needs_reference, parse_question_time


@dataclass(frozen=True)
class TemporalInterpretation:
    """What was understood of a question's words about time.

    Attributes:
        as_of: time whose knowledge the question requests, where the answer was made from that.
        as_of_phrase: the words that request it, also where they were not followed.
        not_followed: why they were not: nothing of the scope was observed by then.
        phrase: words counted from the reference day, such as `last week`.
        first: first day of what they mean, None where it has no beginning.
        last: last day, None where it has no end.
        reference: the day that words were counted from, None where none was needed.
        period: the period of the question, in years; None where those words request the knowledge of a time.
        reference_is: `now` or `as_of` where that was given, else `newest memory`: that of the scope.
        unresolved_phrase: words such as `last week` that stay unresolved, for neither was given.
    """

    as_of: dt.datetime | None = None
    as_of_phrase: str = ""
    not_followed: str = ""
    phrase: str = ""
    first: dt.date | None = None
    last: dt.date | None = None
    reference: dt.date | None = None
    reference_is: str = ""
    period: Period | None = None
    unresolved_phrase: str = ""


def interpret_time(served: ServedScope, text: str) -> tuple[Filters, TemporalInterpretation]:
    """Returns the filters to apply, with `as_of` where the question requests it in words, and what was understood.

    Words request the knowledge of a time only where neither `as_of` nor `history` was given, and where something of the
    scope was observed by then: `as of 1998` in texts of today is a time that they speak of. With `as_of`, `now` only
    sets when the question is put: what was valid then may be over by now. No clock is read: `last week` is counted from
    `now`, else from `as_of`, else it stays unresolved. Dates without a year are counted from the day of the scope's
    newest memory then.

    Args:
        served: the scope to search, with the filters that were given.
        text: the question.
    """
    filters = served.filters
    reference, reference_is = None, ""
    if needs_reference(text):
        given = filters.now or filters.as_of
        known = None if given else served.observed()
        if time := given or (known[1] if known else None):
            reference = time.date()
            reference_is = "now" if filters.now else "as_of" if filters.as_of else "newest memory"
    expression = parse_question_time(text, reference, exact=reference_is != "newest memory")
    temporal = TemporalInterpretation(
        phrase=expression.phrase,
        first=expression.first,
        last=expression.last,
        reference=reference,
        reference_is=reference_is,
        period=expression.period,
        unresolved_phrase=expression.unresolved_phrase,
    )
    if filters.as_of is not None:
        return replace(filters, now=None), temporal
    if expression.as_of is None or filters.history:
        return filters, temporal
    temporal = replace(temporal, as_of_phrase=expression.as_of_phrase)
    as_of = dt.datetime.combine(expression.as_of, dt.time.max, dt.UTC)
    known = served.observed()
    if known is None or known[0] > as_of:
        return filters, replace(temporal, not_followed="nothing here was observed by then")
    # Most of what was known on a day was observed before it: a memory of that very day gains nothing.
    period = None if expression.as_of_is_period else expression.period
    return replace(filters, as_of=as_of, now=None), replace(temporal, as_of=as_of, period=period)
