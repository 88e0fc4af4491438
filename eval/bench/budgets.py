"""What the parts of a query may take, and what they took in a bench."""

from collections.abc import Mapping
from typing import Any

NODES_MS, WHOLE_MS, WALK_MS, FROM_INDEXES = 50.0, 150.0, 100.0, 0.9


def budgets(homes: Mapping[str, Mapping[str, Any]], walked: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns rows of (part, home, figure, limit, kept).

    `node search` is the p95 of finding and scoring candidates, which over passages holds the walk too; `whole` that of
    text in, context out; `walk and hops` that of everything between the question's vector and the reading of what was
    found, in a home of titled passages: three steps over names, then two hops over relations; `from indexes` the share
    of queries of which no statement scans a table.

    Args:
        homes: what was measured of each home.
        walked: what was measured of the home of passages.
    """
    rows = []
    for name, home in homes.items():
        steps = home["steps_ms"]
        rows.append(_row("node search", name, steps["seeds_ms"]["p95"], NODES_MS))
        rows.append(_row("whole", name, steps["total_ms"]["p95"], WHOLE_MS))
        rows.append(_row("from indexes", name, home["from_indexes"]["share"], FROM_INDEXES, at_least=True))
    walk = sum(walked["steps_ms"][step]["p95"] for step in ("seeds_ms", "expand_ms", "rank_ms"))
    return [*rows, _row("walk and hops", f"{walked['scope_memories']} passages", walk, WALK_MS)]


def _row(part: str, home: str, figure: float, limit: float, at_least: bool = False) -> dict[str, Any]:
    kept = figure > limit if at_least else figure < limit
    return {"part": part, "home": home, "figure": figure, "limit": limit, "kept": kept}


def budgets_text(rows: list[dict[str, Any]]) -> list[str]:
    """Returns a line for each part, for people."""
    lines = []
    for row in rows:
        share = row["part"] == "from indexes"
        figure, limit = (f"{100 * row[k]:.0f} %" if share else f"{row[k]:.1f} ms" for k in ("figure", "limit"))
        lines.append(
            f"{'kept  ' if row['kept'] else 'missed'}  {row['part']} ({row['home']}): {figure}, "
            f"{'more' if share else 'less'} than {limit}"
        )
    return lines
