"""Means of metrics for each type of question."""

import datetime as dt
import math
from collections.abc import Collection, Mapping

from palimpsest.text.date_mentions import find_date_mentions
from palimpsest.text.question_time import parse_question_time

_REFERENCE_DAY = dt.date(2000, 7, 1)  # of relative dates; which day it is does not matter

PerQuery = Mapping[str, Mapping[str, float]]


def by_type(
    per_query: PerQuery, types: Mapping[str, str | None], measures: Collection[str] | None = None
) -> dict[str, dict[str, float]]:
    """Returns `queries` and the mean of each measure by type, in order of the types' names.

    Args:
        per_query: values of each query, all with the same measures.
        types: of each query; one that has none is left out.
        measures: names of the measures to return; None means all.
    """
    groups: dict[str, list[Mapping[str, float]]] = {}
    for query_id, values in per_query.items():
        if (kind := types.get(query_id)) is not None:
            groups.setdefault(kind, []).append(values)
    return {
        kind: {"queries": len(rows)}
        | {m: round(sum(r[m] for r in rows) / len(rows), 6) for m in (rows[0] if measures is None else measures)}
        for kind, rows in sorted(groups.items())
    }


def time_kind(question: str) -> str:
    """Returns how a question refers to time: `as of`, `range`, `since`, `until`, `in`, `relative` or `none`.

    `in` is one day, month or year; `relative` depends on a reference day, as `last week` and `3 March` do.
    """
    time = parse_question_time(question, _REFERENCE_DAY)
    if time.as_of is not None:
        return "as of"
    if time.period is None:
        return "none"
    if time.phrase:
        return "relative"
    if math.isinf(time.period[1]):
        return "since"
    if math.isinf(time.period[0]):
        return "until"
    return "range" if any(found.is_range for found in find_date_mentions(question)) else "in"


def types_text(means: Mapping[str, Mapping[str, float]], measures: Collection[str], heading: str = "type") -> list[str]:
    """Returns a line for each type, for people, under a line that names the measures; `heading` names the types."""
    width = max([len(kind) for kind in means] + [len(heading)]) + 2
    wide = {m: max(len(m) + 2, 15) for m in measures}
    lines = ["".join([f"{heading:{width}}{'queries':>9}", *(f"{m:>{wide[m]}}" for m in measures)])]
    return lines + [
        "".join([f"{kind:{width}}{values['queries']:>9.0f}", *(f"{values[m]:{wide[m]}.4f}" for m in measures)])
        for kind, values in means.items()
    ]
