"""The scale run's part in Neo4j: a synthetic build under a home of its own, dropped when it was measured."""

from pathlib import Path
from typing import Any

from eval.synthetic import SyntheticBuild
from pipelines.graph.connect import connect
from pipelines.graph.erase import drop_home
from pipelines.graph.load import home_id, load_tables
from pipelines.store.home import Home

_BUILD = "000001"


def load_synthetic(home: Path, build: SyntheticBuild) -> dict[str, Any]:
    """Loads a synthetic build whose index lies in `home`; returns rate and seconds.

    `nodes_per_s` counts nodes while they are made, vectors included; `graph_index_s` is the vector index after them.
    """
    with connect() as connection:
        index = home / "builds" / _BUILD / "index.duckdb"
        stats = load_tables(home_id(Home(home)), build.tables, build.lookup, index, "synthetic", connection)
    return {
        "nodes_per_s": stats.nodes_per_s, "graph_index_s": stats.seconds["vector index"], "writes": stats.writes,
        "graph_parts_s": stats.seconds,
    }  # fmt: skip


def drop_synthetic(home: Path) -> None:
    """Deletes the build from the server."""
    with connect() as connection:
        drop_home(connection, home_id(Home(home)))
