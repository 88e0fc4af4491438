"""Bytes that the graph adds to the index of a home: nodes, edges, facts and which memories belong to nodes.

`python -m palimpsest_eval.studies.index_size HOME` writes the index of the published build twice, with these tables and
without them, and prints the difference for a thousand memories.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from palimpsest.build.finish import index_settings
from palimpsest.build.stages import indexed_tables
from palimpsest.core.errors import PalimpsestError
from palimpsest.index.write_index import write_index
from palimpsest.memories.vector_store import indexed_spaces
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest.store.tables import empty

GRAPH_TABLES = ("nodes", "edges", "facts", "node_memories")


@dataclass(frozen=True)
class IndexSize:
    """Size of an index in bytes, with the graph and without it."""

    memories: int
    with_graph: int
    without_graph: int

    @property
    def graph_mb_per_1000(self) -> float:
        """Megabytes (10^6 bytes) of the graph for a thousand memories."""
        return (self.with_graph - self.without_graph) / max(1, self.memories) / 1000


def index_size(home: Home) -> IndexSize:
    """Measures the index of a home's published build; the home stays as it is.

    Raises:
        PalimpsestError: nothing is published.
    """
    if (build := published(home)) is None:
        raise PalimpsestError(f"{home.path}: nothing is published; run palimpsest build")
    tables, spaces = build.tables(indexed_tables()), indexed_spaces(home, build)
    meta = {"build_id": build.build_id, **index_settings(home, build)}
    without = {name: empty(name) if name in GRAPH_TABLES else frame for name, frame in tables.items()}
    with tempfile.TemporaryDirectory(prefix="palimpsest-size-") as folder:
        sizes = [write_index(t, spaces, Path(folder) / "index.duckdb", meta).bytes for t in (tables, without)]
    return IndexSize(tables["memories"].height, *sizes)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the sizes of a home's index."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("home", type=Path)
    try:
        size = index_size(Home(parser.parse_args(argv).home))
    except PalimpsestError as e:
        sys.stderr.write(f"{e}\n")
        return 2
    sys.stdout.write(
        f"{size.memories} memories: index {size.with_graph / 1e6:.2f} MB, without the graph "
        f"{size.without_graph / 1e6:.2f} MB; the graph {size.graph_mb_per_1000:.2f} MB for 1,000 memories\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
