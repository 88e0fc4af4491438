"""Where the build laid out the nodes of the graph, by their ids."""

import threading
from collections.abc import Iterable, Mapping

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home

TABLE = "node_positions"


class Positions:
    """Reads the positions of a build when they are first needed, and keeps those of one build."""

    def __init__(self, home: Home):
        self._home, self._lock = home, threading.Lock()
        self._build_id, self._table = "", pl.DataFrame()

    def of(self, build_id: str, node_ids: Iterable[str]) -> Mapping[str, tuple[float, float]]:
        """Returns (x, y) by node; nodes that an earlier version built have none."""
        with self._lock:
            if self._build_id != build_id:
                self._build_id, self._table = build_id, self._read(build_id)
            table = self._table
        wanted = pl.DataFrame({"node_id": list(node_ids)}, schema={"node_id": pl.String})
        rows = table.join(wanted, on="node_id", how="semi").select("node_id", "x", "y").iter_rows()
        return {i: (x, y) for i, x, y in rows}

    def _read(self, build_id: str) -> pl.DataFrame:
        schema = {"node_id": pl.String, "x": pl.Float64, "y": pl.Float64}
        try:
            build: Build | None = published(self._home)
            if build is not None and build.build_id == build_id:
                return build.tables([TABLE])[TABLE].select(*schema)
        except (PalimpsestError, OSError, pl.exceptions.PolarsError):
            pass  # the graph is shown without them
        return pl.DataFrame(schema=schema)
