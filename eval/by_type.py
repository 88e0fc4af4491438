"""Means of metrics for each type of question."""

from collections.abc import Collection, Mapping

PerQuery = Mapping[str, Mapping[str, float]]


def by_type(
    per_query: PerQuery, types: Mapping[str, str | None], measures: Collection[str] | None = None
) -> dict[str, dict[str, float]]:
    """Returns `queries` and the mean of each measure by type, in order of the types' names.

    Args:
        per_query: values of each query, all with the same measures.
        types: of each query; one that has none is left out.
        measures: those that are wanted; None means all.
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


def types_text(told: Mapping[str, Mapping[str, float]], measures: Collection[str]) -> list[str]:
    """Returns a line for each type, for people, under a line that names the measures."""
    width = max([len(kind) for kind in told] + [4]) + 2
    lines = ["".join([f"{'type':{width}}{'queries':>9}", *(f"{m:>15}" for m in measures)])]
    return lines + [
        "".join([f"{kind:{width}}{values['queries']:>9.0f}", *(f"{values[m]:15.4f}" for m in measures)])
        for kind, values in told.items()
    ]
