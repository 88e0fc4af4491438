"""What a load reads of a home: the tables of its build, and the index's own record."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import polars as pl

from palimpsest.core.code import code_hash
from palimpsest.core.errors import ComponentFailed
from palimpsest.core.files import file_hash
from palimpsest.core.ids import content_id
from palimpsest.neo4j_graph.rows.graph_rows import TABLES
from palimpsest.store.builds import Build


@dataclass(frozen=True)
class Source:
    """Where rows come from; `fingerprint` is a hash of all contents, empty where it is not known."""

    tables: Callable[[], Mapping[str, pl.DataFrame]]
    index: Path
    fingerprint: str = ""

    @classmethod
    def of(cls, build: Build) -> "Source":
        """Returns the source of a build."""
        return cls(partial(build.tables, TABLES), build.index, _fingerprint(build))

    def record(self) -> dict[str, str]:
        """Returns what readers need of the index's own record: the build's id and its collections, as JSON.

        Raises:
            ComponentFailed: the index is missing.
        """
        if not self.index.is_file():
            raise ComponentFailed(f"neo4j: {self.index}: no such file; run palimpsest build, then load again")
        with duckdb.connect(str(self.index), read_only=True) as db:
            meta = dict(db.execute("SELECT key, value FROM meta").fetchall())
        collections = {name: json.loads(meta.get(name, "{}")) for name in _META}
        return {"build_id": json.loads(meta["build_id"]), "collections": json.dumps(collections, sort_keys=True)}


_META = ("collections", "strategies", "weights", "spaces")


def _fingerprint(build: Build) -> str:
    """Returns a hash of the tables' bytes, and of the code that makes rows of them."""
    paths = [build.table_path(c, t) for c in build.collections for t in TABLES]
    hashes = [f"{p.parent.name}/{p.stem} {file_hash(p)}" for p in paths if p.exists()]
    return content_id(code_hash(["palimpsest.neo4j_graph.rows", "palimpsest.index.write_index"]), *hashes)
