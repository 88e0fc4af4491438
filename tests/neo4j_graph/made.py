"""Small builds for the graph's tests: real tables and a real index, vectors that need no model."""

import datetime as dt
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from palimpsest.core.ids import content_id
from palimpsest.index.write_index import write_index
from palimpsest.neo4j_graph import cypher
from palimpsest.neo4j_graph.connect import Connection
from palimpsest.neo4j_graph.loader import LoadStats, load_tables
from palimpsest.store.tables import conform

MODEL = "made"


def vectors(hashes: Sequence[str]) -> np.ndarray:
    """A unit vector for each hash, the same every time."""
    drawn = [np.random.default_rng(int(h, 16)).standard_normal(384) for h in hashes]
    out = np.stack(drawn) if drawn else np.zeros((0, 384))
    return (out / np.linalg.norm(out, axis=1, keepdims=True)).astype(np.float32)


@dataclass(frozen=True)
class Made:
    """A build: tables, and the index made of them."""

    tables: dict[str, pl.DataFrame]
    index: Path
    build_id: str

    def load(self, home: str, connection: Connection, keep_previous: bool = True) -> LoadStats:
        return load_tables(home, self.tables, vectors, self.index, MODEL, connection, keep_previous)


_FREE: list[str] = []
_USED: list[str] = []


def fresh_home() -> str:
    """Returns the id of an empty home. Ids are used again, so that a failed test leaves few homes."""
    _USED.append(_FREE.pop(0) if _FREE else secrets.token_hex(8))
    return _USED[-1]


def empty_homes(connection: Connection) -> None:
    """Deletes the rows of the homes of a test."""
    while _USED:
        connection.write("MATCH (n {home_id: $home}) DETACH DELETE n", home=_USED[-1])
        _FREE.append(_USED.pop())


def memory_id(number: int, text: str = "") -> str:
    return content_id("made", number, text)


def make(
    folder: Path,
    build_id: str,
    count: int = 40,
    users: Sequence[str] = ("ann", "bob"),
    edited: Sequence[int] = (),
    mark: str = "",
    windows: int = 0,
) -> Made:
    """Makes a build of `count` memories, distributed over users; each edited one is replaced by a corrected memory.

    `mark` is a word in every text, so that a text shows which build it is from.
    """
    first_day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    rows: list[dict[str, Any]] = []
    for i in range(count):
        user = users[i % len(users)]
        about = {"collection": "made", "user_id": user, "session_id": f"s{i % 3}", "number": i, "tags": ["t"]}
        about |= {"document_id": content_id("d", i % 3, user), "ordinal": i, "unit": "turn", "type": "episodic"}
        for suffix in ("", " corrected") if i in edited else ("",):
            text = f"Note {i} on topic {i % 7} {mark}{suffix}."
            about |= {"memory_id": memory_id(i, mark + suffix), "text": text, "search_text": text, "suffix": suffix}
            when = first_day + dt.timedelta(days=i + 200 * bool(suffix))
            values = {"token_count": 9, "confidence": 1.0, "importance": 0.5, "char_start": 0, "char_end": len(text)}
            rows.append(about | values | {"observed_at": when})
    frame = pl.DataFrame(rows)
    text_hash = pl.col("text").map_elements(lambda t: content_id(t) * 2, return_dtype=pl.String)
    inputs = frame.select("memory_id", "text", kind=pl.lit("memory"), ordinal=pl.lit(0), text_hash=text_hash)
    more = inputs.head(windows).with_columns(
        kind=pl.lit("window"), ordinal=pl.lit(1), text_hash=pl.col("text_hash").str.reverse()
    )
    newer = {r["number"]: r["memory_id"] for r in rows if r["suffix"]}
    pairs = [(newer[r["number"]], r) for r in rows if r["number"] in newer and not r["suffix"]]
    relations = [
        {"relation_id": content_id("r", new), "collection": "made", "user_id": old["user_id"], "newer_id": new}
        | {"older_id": old["memory_id"], "label": "UPDATE", "confidence": 0.9}
        for new, old in pairs
    ]
    scope, number = ["collection", "user_id"], pl.col("number")
    entity_id = pl.concat_str("user_id", number % 5)
    is_old = number.is_in(list(newer)) & (pl.col("suffix") == "")
    by = number.map_elements(newer.get, return_dtype=pl.String)
    made = {
        "memories": frame.drop("number", "suffix"),
        "documents": frame.unique("document_id").select(
            *("document_id", *scope, "session_id"),
            uri=pl.lit("turns.jsonl"),
            title=pl.lit("turns"),
            is_current=pl.lit(True),
        ),
        "embed_inputs": pl.concat([inputs, more], how="vertical_relaxed"),
        "entities": frame.select(
            *scope, entity_id=entity_id, name=pl.format("Entity {}", number % 5), type=pl.lit("name")
        ).unique(),
        "mentions": frame.select("memory_id", *scope, entity_id=entity_id),
        "relations": pl.DataFrame(relations, schema=None if relations else {"relation_id": pl.String}),
        "versions": frame.select(
            *("memory_id", *scope),
            is_latest=~is_old,
            valid_from="observed_at",
            superseded_by=pl.when(is_old).then(by),
        ),
    }
    tables = {name: conform(name, table) for name, table in made.items()}
    meta = {"strategies": {"made": "hybrid"}, "collections": {"made": {"default": True, "user_id": users[0]}}}
    return made_of(folder, tables, build_id, **meta)


def made_of(folder: Path, tables: dict[str, pl.DataFrame], build_id: str = "000001", **meta: Any) -> Made:
    """Writes the index of tables."""
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / f"{build_id}.duckdb"
    write_index(tables, vectors, index, {"build_id": build_id, "collections": {"notes": {}}} | meta)
    return Made(tables, index, build_id)


def shown(connection: Connection, home: str) -> dict[str, list[int]]:
    """Returns the keys of all rows that readers of a home see: equal for equal builds, whatever was loaded before."""
    number = connection.read(cypher.SERVED, home=home)[0]["number"]
    parameters = {"home": home, "published": number, "number": number}
    statements = cypher.LIST_NODES | cypher.LIST_EDGES
    details = connection.read(cypher.LIST_DETAILS, home=home, number=number)
    return {
        name: sorted(r["key"] for r in connection.read(s, **parameters) if r["since"] <= number)
        for name, s in statements.items()
    } | {"details": sorted(r["details"] for r in details)}
