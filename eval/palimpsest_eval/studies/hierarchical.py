"""Two-step search against exact search: what is found, and how much of a scope is compared with the question.

`python -m palimpsest_eval.studies.hierarchical SUITE...` searches the questions of suites or golden sets by `auto`,
by the strategy `hierarchical`, and by it over the memories of the nodes found alone, with 0 to 2 edges followed.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.embed_query import embed_query
from palimpsest.query.ranking.experimental.hierarchy import TOP_NODES, find_nodes, join_reached, reach_memories
from palimpsest.query.reader import Reader, open_index
from palimpsest.query.request.types import Scope
from palimpsest.query.result import SearchResult
from palimpsest.store.builds import published
from palimpsest_eval.golden.retrieval_run import SearchSettings
from palimpsest_eval.runs.suite_runs import Prepared, prepare

DEPTHS = (0, 1, 2)
_STEPS = ("seeds_ms", "rank_ms")


class NarrowSearcher:
    """Searches only memories of the nodes found, and records which share of each scope that is."""

    def __init__(self, reader: Reader, depth: int):
        self._reader, self._depth, self.shares = reader, depth, list[float]()

    def search(self, text: str, scope: Scope, **options: object) -> SearchResult:
        """See `Reader.search`."""
        self.shares.append(self._searched_share(text, scope))
        narrow = {**options, "narrow": True, "depth": self._depth}
        return self._reader.search(text, scope, **narrow)  # type: ignore[arg-type]

    def _searched_share(self, text: str, scope: Scope) -> float:
        """Returns the share of a scope's memories under the nodes that a question reaches."""
        backend = self._reader.backend
        view, graph = backend.view(scope), backend.graph(scope)
        if view is None or graph is None:
            return 1.0
        vector = embed_query(text, backend.collections()[scope.collection].space)
        found = find_nodes(graph, text, vector, (), TOP_NODES)
        reached = reach_memories(graph, view.ids, sorted(found), self._depth)
        return len(join_reached([(found[i], memories) for i, memories in reached.items()]).rows) / len(view.ids)


def measure(prepared: Prepared) -> list[str]:
    """Returns a line for each kind of search of a prepared suite."""
    build = published(prepared.home)
    assert build is not None
    lines = []
    with open_index(build.index) as reader:
        for strategy in ("auto", "hybrid", "hierarchical"):
            result = prepared.measure(reader, SearchSettings(strategy)).result
            lines.append(_line(strategy, result.metrics, result.latency_ms.p95, [1.0]))
        for depth in DEPTHS:
            searcher = NarrowSearcher(reader, depth)
            result = prepared.measure(searcher, SearchSettings("hierarchical")).result
            lines.append(_line(f"narrow, depth {depth}", result.metrics, result.latency_ms.p95, searcher.shares))
    return lines


def _line(name: str, metrics: Mapping[str, float], p95_ms: float, shares: Sequence[float]) -> str:
    cut = fmean(shares)
    return (
        f"  {name:18}  R@5 {metrics['R@5']:.3f}  R@10 {metrics['R@10']:.3f}  p95 {p95_ms:6.1f} ms  "
        f"searched {cut:6.1%} (median {median(shares):.1%})"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a table for each suite."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("suites", type=Path, nargs="+")
    args = parser.parse_args(argv)
    try:
        for folder in args.suites:
            lines = measure(prepare(folder, None))
            sys.stdout.write("\n".join([folder.name, *lines]) + "\n")
    except PalimpsestError as e:
        sys.stderr.write(f"{e}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
