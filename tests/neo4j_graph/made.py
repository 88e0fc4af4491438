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
from palimpsest.neo4j_graph.loader import DROP_NODES, LoadStats, load_tables
from palimpsest.store.tables import conform

MODEL = "made"


def vectors(hashes: Sequence[str]) -> np.ndarray:
    """A unit vector for each hash, the same every time."""
    out = (
        np.stack([np.random.default_rng(int(h, 16)).standard_normal(384) for h in hashes])
        if hashes
        else np.zeros((0, 384))
    )
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
        for statement, limit in DROP_NODES.values():
            while connection.write(statement, home=_USED[-1], limit=limit)[0]["n"]:
                pass
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
        versions = [("", None)] + ([(" corrected", 1)] if i in edited else [])
        for suffix, later in versions:
            text = f"Note {i} on topic {i % 7} {mark}{suffix}."
            rows.append(
                {
                    "memory_id": memory_id(i, mark + suffix),
                    "collection": "made",
                    "user_id": users[i % len(users)],
                    "session_id": f"s{i % 3}",
                    "document_id": content_id("d", i % 3, users[i % len(users)]),
                    "ordinal": i,
                    "unit": "turn",
                    "type": "episodic",
                    "text": text,
                    "search_text": text,
                    "char_start": 0,
                    "char_end": len(text),
                    "observed_at": first_day + dt.timedelta(days=i + 200 * (later or 0)),
                    "token_count": 9,
                    "confidence": 1.0,
                    "importance": 0.5,
                    "number": i,
                    "suffix": suffix,
                    "tags": ["t"],
                }
            )
    frame = pl.DataFrame(rows)
    inputs = frame.select(
        "memory_id",
        pl.lit("memory").alias("kind"),
        pl.lit(0).alias("ordinal"),
        "text",
        pl.col("text").map_elements(lambda t: content_id(t) * 2, return_dtype=pl.String).alias("text_hash"),
    )
    if windows:
        more = [
            inputs.head(windows).with_columns(
                kind=pl.lit("window"), ordinal=pl.lit(1), text_hash=pl.col("text_hash").str.reverse()
            )
        ]
        inputs = pl.concat([inputs, *more], how="vertical_relaxed")
    newer = {r["number"]: r for r in rows if r["suffix"]}
    pairs = [(newer[r["number"]], r) for r in rows if r["number"] in newer and not r["suffix"]]
    scope = ["collection", "user_id"]
    tables = {
        "memories": conform("memories", frame.drop("number", "suffix")),
        "documents": conform(
            "documents",
            frame.unique("document_id").select(
                "document_id",
                *scope,
                "session_id",
                pl.lit("turns.jsonl").alias("uri"),
                pl.lit("turns").alias("title"),
                pl.lit(True).alias("is_current"),
            ),
        ),
        "embed_inputs": conform("embed_inputs", inputs),
        "entities": conform(
            "entities",
            frame.select(
                pl.concat_str("user_id", pl.col("number") % 5).alias("entity_id"),
                *scope,
                pl.format("Entity {}", pl.col("number") % 5).alias("name"),
                pl.lit("name").alias("type"),
            ).unique(),
        ),
        "mentions": conform(
            "mentions",
            frame.select("memory_id", pl.concat_str("user_id", pl.col("number") % 5).alias("entity_id"), *scope),
        ),
        "relations": conform(
            "relations",
            pl.DataFrame(
                [
                    {
                        "relation_id": content_id("r", n["memory_id"]),
                        "collection": "made",
                        "user_id": n["user_id"],
                        "newer_id": n["memory_id"],
                        "older_id": o["memory_id"],
                        "label": "UPDATE",
                        "confidence": 0.9,
                    }
                    for n, o in pairs
                ],
                schema={
                    "relation_id": pl.String,
                    "collection": pl.String,
                    "user_id": pl.String,
                    "newer_id": pl.String,
                    "older_id": pl.String,
                    "label": pl.String,
                    "confidence": pl.Float64,
                },
            ),
        ),
        "versions": conform(
            "versions",
            frame.select(
                "memory_id",
                *scope,
                (~(pl.col("number").is_in(list(newer)) & (pl.col("suffix") == ""))).alias("is_latest"),
                pl.col("observed_at").alias("valid_from"),
                pl.when((pl.col("suffix") == "") & pl.col("number").is_in(list(newer)))
                .then(
                    pl.col("number").map_elements(
                        lambda i: newer[i]["memory_id"] if i in newer else None, return_dtype=pl.String
                    )
                )
                .alias("superseded_by"),
            ),
        ),
    }
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / f"{build_id}.duckdb"
    meta = {
        "build_id": build_id,
        "strategies": {"made": "hybrid"},
        "collections": {"made": {"default": True, "user_id": users[0]}},
    }
    write_index(tables, vectors, index, meta)
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
