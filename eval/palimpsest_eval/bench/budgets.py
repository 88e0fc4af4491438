"""Limits of the parts of a query, and what they took in a bench."""

from collections.abc import Mapping
from dataclasses import dataclass

from palimpsest_eval.metrics.latency import LatencyMs

NODE_SEARCH_MS, WHOLE_MS, WALK_MS, PAGES_MS, FROM_INDEXES_SHARE = 50.0, 150.0, 100.0, 40.0, 0.9
NARROW_NODE_SEARCH_MS, NARROW_WHOLE_MS, THREE_HOPS_MS = 20.0, 60.0, 50.0
"""Limits of searches over nodes alone, and of the nodes within three steps of one."""
_SHARE = "from indexes"


@dataclass(frozen=True)
class Budget:
    """A figure of a part of a query, its limit, and whether the limit is kept.

    `from indexes` is a share that must be greater than its limit; every other figure is in milliseconds and must be
    less.
    """

    part: str
    home: str
    figure: float
    limit: float
    kept: bool

    def text(self) -> str:
        """Returns a line for people."""
        is_share = self.part == _SHARE
        figure, limit = (f"{100 * v:.0f} %" if is_share else f"{v:.1f} ms" for v in (self.figure, self.limit))
        outcome, bound = "kept  " if self.kept else "missed", "more" if is_share else "less"
        return f"{outcome}  {self.part} ({self.home}): {figure}, {bound} than {limit}"


def home_budgets(
    home: str, steps_ms: Mapping[str, LatencyMs], from_indexes: float, *, narrow: bool = False
) -> list[Budget]:
    """Returns the budgets of searches in one home.

    `node search` is the p95 of finding and scoring candidates, which over passages includes the walk; `whole` that of
    text in, context out; `from indexes` the share of queries of which no statement scans a table.
    """
    node_search, whole = steps_ms["seeds_ms"].p95, steps_ms["total_ms"].p95
    of_search, of_whole = (NARROW_NODE_SEARCH_MS, NARROW_WHOLE_MS) if narrow else (NODE_SEARCH_MS, WHOLE_MS)
    return [
        Budget("node search", home, node_search, of_search, node_search < of_search),
        Budget("whole", home, whole, of_whole, whole < of_whole),
        Budget(_SHARE, home, from_indexes, FROM_INDEXES_SHARE, from_indexes > FROM_INDEXES_SHARE),
    ]


def graph_budgets(home: str, graph_ms: Mapping[str, LatencyMs]) -> list[Budget]:
    """Returns the budget of `three hops` from one node, where questions over the graph were measured."""
    hops = [ms.p95 for what, ms in graph_ms.items() if what == "three_hops_ms"]
    return [Budget("three hops", home, p95, THREE_HOPS_MS, p95 < THREE_HOPS_MS) for p95 in hops]


def walk_budget(memories: int, steps_ms: Mapping[str, LatencyMs]) -> Budget:
    """Returns the budget of `walk and hops` in a home of titled passages.

    It is the p95 of everything between the question's vector and the reading of the results: three steps over names,
    then two hops over relations.
    """
    walk = sum(steps_ms[step].p95 for step in ("seeds_ms", "expand_ms", "rank_ms"))
    return Budget("walk and hops", f"{memories} passages", walk, WALK_MS, walk < WALK_MS)


def pages_budget(memories: int, steps_ms: Mapping[str, LatencyMs]) -> Budget:
    """Returns the budget of `long pages`: the p95 of a whole query in a home of long pages."""
    whole = steps_ms["total_ms"].p95
    return Budget("long pages", f"{memories} pages", whole, PAGES_MS, whole < PAGES_MS)
