"""Keys of rows: a hash of all that a row contains, so that equal rows are not written again."""

import hashlib
from collections.abc import Mapping

import polars as pl

from palimpsest.neo4j_graph.model import DETAILS, EDGES, KEYS

_SEPARATOR = "\x1f"
_LIST_SEPARATOR = "\x1e"
_NULL = "\x00"


def add_node_keys(kind: str, nodes: pl.DataFrame, space: pl.Expr) -> pl.DataFrame:
    """Returns nodes sorted, with their `id` and `key`; `space` gives the space of their vectors."""
    name = KEYS[kind]
    nodes = nodes.sort(name)
    hashed = nodes
    if "text_hash" in nodes.columns:
        hashed = nodes.with_columns(pl.col("text_hash") + space)
    elif "hashes" in nodes.columns:
        hashed = nodes.with_columns(space.alias("space"))
    elif kind == "Node":
        hashed = nodes.drop(DETAILS)
        nodes = nodes.with_columns(_hash_rows(nodes.select(name, *DETAILS), "details").alias("details"))
    return nodes.with_columns(pl.col(name).alias("id"), _hash_rows(hashed, kind).alias("key"))


def add_edge_keys(edges: Mapping[str, pl.DataFrame], nodes: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Returns edges whose ends are rows, with the anchor's `id` and a `key`.

    The key covers both ends' keys: where an end changes, its edges are new as well.
    """
    out = {}
    for name, frame in edges.items():
        edge = EDGES[name]
        sources = nodes[edge.source].select(pl.col("id").alias("a"), pl.col("key").alias("_a"))
        targets = nodes[edge.target].select(pl.col("id").alias("b"), pl.col("key").alias("_b"))
        joined = frame.join(sources, on="a").join(targets, on="b").sort(frame.columns)
        joined = joined.with_columns(_hash_rows(joined, name).alias("key")).drop("_a", "_b")
        out[name] = joined.with_columns(pl.col("a" if edge.anchor == "source" else "b").alias("id"))
    return out


def _hash_rows(frame: pl.DataFrame, name: str) -> pl.Series:
    """Returns a 63-bit hash of each row, the same on every machine."""
    columns = [_as_text(pl.col(c), t).fill_null(_NULL) for c, t in frame.schema.items()]
    lines = frame.select(pl.concat_str(columns, separator=_SEPARATOR).alias("line"))["line"]
    prefix = name.encode()

    def hash_line(line: str) -> int:
        digest = hashlib.blake2b(prefix + line.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "little") >> 1

    return pl.Series("key", [hash_line(line) for line in lines], dtype=pl.Int64)


def _as_text(column: pl.Expr, data_type: pl.DataType) -> pl.Expr:
    if isinstance(data_type, pl.List):
        return column.cast(pl.List(pl.String)).list.eval(pl.element().fill_null(_NULL)).list.join(_LIST_SEPARATOR)
    if data_type == pl.Binary:
        return column.bin.encode("base64")
    if isinstance(data_type, pl.Datetime):
        return column.dt.epoch("us").cast(pl.String)
    return column.cast(pl.String)
