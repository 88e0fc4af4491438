"""What a load reads of a home: the tables of its build, its index's own record, and the id it has on the server."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from palimpsest.core.code import code_hash
from palimpsest.core.errors import ComponentFailed
from palimpsest.core.files import file_hash
from palimpsest.core.ids import content_id
from palimpsest.neo4j_graph.identity import make_served_id, served_id
from palimpsest.neo4j_graph.node_rows import READ
from palimpsest.store.builds import Build
from palimpsest.store.home import Home


@dataclass(frozen=True)
class Source:
    """Where rows come from; `fingerprint` stands for all of their contents, empty where that is not known."""

    tables: Callable[[], Mapping[str, pl.DataFrame]]
    index: Path
    fingerprint: str = ""

    @classmethod
    def of(cls, build: Build) -> "Source":
        """Returns the source of a build."""
        return cls(partial(build.tables, READ), build.index, _fingerprint(build))

    def record(self) -> dict[str, Any]:
        """Returns what readers need of the index's own record: the build's id and its collections, as JSON.

        Raises:
            ComponentFailed: the index is missing.
        """
        if not self.index.is_file():
            raise ComponentFailed(f"neo4j: {self.index}: no such file; run palimpsest build, then load again")
        with duckdb.connect(str(self.index), read_only=True) as db:
            meta = dict(db.execute("SELECT key, value FROM meta").fetchall())
        told = {
            "collections": json.loads(meta.get("collections", "{}")),
            "strategies": json.loads(meta.get("strategies", "{}")),
            "weights": json.loads(meta.get("weights", "{}")),
        }
        return {"build_id": json.loads(meta["build_id"]), "collections": json.dumps(told, sort_keys=True)}


def is_served(home: Home) -> bool:
    """Returns whether a home was ever loaded into Neo4j."""
    return served_id(home.path) is not None


def home_id(home: Home) -> str:
    """Returns the id under which the server keeps a home; made once, stored in the home."""
    return make_served_id(home.path)


def _fingerprint(build: Build) -> str:
    """Returns a hash of the tables' bytes, and of the code that makes rows of them."""
    paths = [build.table_path(c, t) for c in build.collections for t in READ]
    hashes = [f"{p.parent.name}/{p.stem} {file_hash(p)}" for p in paths if p.exists()]
    return content_id(code_hash(["palimpsest.neo4j_graph.node_rows", "palimpsest.index.write_index"]), *hashes)
