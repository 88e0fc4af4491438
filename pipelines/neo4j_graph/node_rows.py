"""The rows of the graph, from the tables of a build: pure functions; each row has a key, the hash of all it says.

What changes often and is not searched (spans, ordinals, a document's text hash) lies in a Revision, one row a document
version: an edit then touches the memories that it changed, and not all those that moved by a few characters.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from palimpsest.core.ids import content_id
from palimpsest.core.scopes import SCOPE, ScopeKey
from palimpsest.index.write_index import VectorLookup
from palimpsest.memories.memory_times import memory_times
from palimpsest.neo4j_graph.graph_model import EDGES, KEYS
from palimpsest.neo4j_graph.scope_rows import scope_rows
from palimpsest.store.tables import empty

READ = (
    "documents",
    "chunks",
    "memories",
    "embed_inputs",
    "versions",
    "relations",
    "entities",
    "mentions",
    "topics",
    "topic_edges",
    "topic_memories",
    "document_relations",
)
_RELATIONS = {"UPDATE": "UPDATES", "EXTEND": "EXTENDS", "DERIVE": "DERIVES"}
_MEMORY = (
    "memory_id",
    *SCOPE,
    "session_id",
    "text",
    "type",
    "unit",
    "title",
    "heading",
    "speaker",
    "observed_at",
    "valid_from",
    "valid_until",
    "known_from",
    "is_latest",
    "superseded_by",
    "confidence",
    "importance",
    "kind",
    "confidence_source",
    "importance_source",
    "retention_until",
    "pii",
    "user_visible",
    "tags",
    "token_count",
    "created_at",
    "updated_at",
    "windows",
)
_WINDOW = ("window_id", "memory_id", *SCOPE, "is_latest")
_SEPARATOR = "\x1f"


@dataclass(frozen=True)
class GraphRows:
    """All rows of one build.

    Attributes:
        nodes: by label; columns `id`, `key` and the properties; of Memory and Window also `text_hash`, of VectorBlock
            `counts` and `hashes`: the vectors themselves are looked up when they are written.
        edges: by name in `model.EDGES`; columns `a`, `b`, `id` (of the anchor), `key` and the properties.
        digest: of all keys.
        scopes: (collection, user, project) of every memory, sorted.
    """

    nodes: dict[str, pl.DataFrame]
    edges: dict[str, pl.DataFrame]
    digest: str
    scopes: list[ScopeKey]

    @property
    def counts(self) -> dict[str, int]:
        """Rows by label and by name of edge."""
        return {n: f.height for n, f in (*self.nodes.items(), *self.edges.items())}


def graph_rows(tables: Mapping[str, pl.DataFrame], vectors: VectorLookup, index: Path, space: str) -> GraphRows:
    """Makes the rows of a build.

    Args:
        tables: those of `READ`, as in `store.tables`; one that is missing has no rows.
        vectors: the unit vectors of text hashes.
        index: the build's DuckDB file: words score what they score there.
        space: name of the embedder, so that another one's vectors are other rows.

    Raises:
        ComponentFailed: the index is missing.
    """
    t = {name: tables[name] if name in tables else empty(name) for name in READ}
    memories, windows = _memories(t)
    documents = t["documents"].with_columns(
        pl.when(project_id="")
        .then(_joined("collection", "user_id", "uri", "session_id"))
        .otherwise(_joined(*SCOPE, "uri", "session_id"))
        .map_elements(lambda s: content_id("document", *s.split(_SEPARATOR)), return_dtype=pl.String)
        .alias("document_key")
    )
    placed = documents.select("document_id", "document_key")
    nodes = {
        "Collection": memories.select(pl.col("collection").alias("name"), "collection").unique().sort("name"),
        "User": memories.select("user_id").unique().sort("user_id"),
        "Document": documents.select("document_key", *SCOPE, "uri", "session_id").unique("document_key"),
        "Revision": _revisions(documents, memories),
        "Chunk": _chunks(t["chunks"]),
        "Entity": t["entities"].select("entity_id", *SCOPE, "name", "type", "aliases"),
        "Topic": t["topics"].select("topic_id", *SCOPE, "label"),
        "Memory": memories.select(*_MEMORY, "text_hash"),
        "Window": windows.select(*_WINDOW, "text_hash"),
        **scope_rows(memories, windows, vectors, index),
    }
    told = {label: _keyed_nodes(label, frame, space) for label, frame in nodes.items()}
    edges = _keyed_edges(_edges(t, memories, windows, placed), told)
    keys = [f"{n}:{k}" for n, f in sorted((told | edges).items()) for k in f["key"].sort()]
    digest = hashlib.blake2b("\n".join(keys).encode(), digest_size=16).hexdigest()
    scopes = memories.select(SCOPE).unique().sort(SCOPE).rows()
    return GraphRows(told, edges, digest, [(c, u, p) for c, u, p in scopes])


def _memories(t: Mapping[str, pl.DataFrame]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Returns memories with their version and first vector, by (scope, id), and the windows beyond the first."""
    versions = t["versions"].select(
        "memory_id",
        "is_latest",
        pl.col("valid_from").alias("_from"),
        pl.col("valid_until").alias("_until"),
        "superseded_by",
        pl.lit(True).alias("_versioned"),
    )
    inputs = t["embed_inputs"].sort("memory_id", "kind", "ordinal", "text_hash").select("memory_id", "text_hash")
    inputs = inputs.with_columns(pl.int_range(pl.len()).over("memory_id").alias("number"))
    count = inputs.group_by("memory_id").agg((pl.len() - 1).cast(pl.Int64).alias("windows"))
    versioned = pl.col("_versioned").fill_null(False)
    memories = (
        t["memories"]
        .join(versions, on="memory_id", how="left")
        .join(inputs.filter(pl.col("number") == 0).drop("number"), on="memory_id", how="left")
        .join(count, on="memory_id", how="left")
        .join(memory_times(t["memories"], t["documents"], t["versions"]), on="memory_id", how="left")
        .with_columns(
            pl.col("is_latest").fill_null(True),
            pl.when(versioned).then("_from").otherwise("valid_from").alias("valid_from"),
            pl.when(versioned).then("_until").otherwise("valid_until").alias("valid_until"),
            pl.col("token_count").fill_null(0),
            pl.col("tags").fill_null([]),
        )
        .sort(*SCOPE, "memory_id")
    )
    if bare := memories.filter(pl.col("text_hash").is_null())["memory_id"].head(1).to_list():
        raise ValueError(f"memory {bare[0]} has no row in embed_inputs")
    windows = (
        inputs.filter(pl.col("number") > 0)
        .join(memories.select("memory_id", *SCOPE, "is_latest"), on="memory_id")
        .with_columns(pl.format("{}:{}", "memory_id", "number").alias("window_id"))
        .sort("window_id")
    )
    return memories, windows


def _revisions(documents: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """One row a document version, with where each of its memories lies; lists in the order of memory ids."""
    lies = (
        memories.sort("memory_id")
        .group_by("document_id", maintain_order=True)
        .agg(
            pl.col("memory_id").alias("memory_ids"),
            *(
                pl.col(c).fill_null(-1).alias(n)
                for c, n in (("ordinal", "ordinals"), ("page", "pages"), ("char_start", "starts"), ("char_end", "ends"))
            ),
        )
    )
    return (
        documents.select("document_id", *SCOPE, "title", "media_type", "content_hash", "source_time", "is_current")
        .unique("document_id")
        .join(lies, on="document_id", how="left")
        .sort("document_id")
    )


def _chunks(chunks: pl.DataFrame) -> pl.DataFrame:
    about = ("heading", "page", "speaker", "said_at", "token_count")
    return (
        chunks.sort("chunk_id", "document_id")
        .unique("chunk_id", keep="first", maintain_order=True)
        .select("chunk_id", *SCOPE, "text", *about)
    )


def _edges(
    t: Mapping[str, pl.DataFrame], memories: pl.DataFrame, windows: pl.DataFrame, placed: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """Returns edges by name with columns a, b and their properties; ends that are no rows are dropped when keyed."""
    scope_of = memories.select("memory_id", *SCOPE)
    documents = t["documents"].join(placed, on="document_id")
    out = {
        "Document-PART_OF-Collection": _pairs(documents, "document_key", "collection"),
        "Revision-REVISION_OF-Document": _pairs(placed, "document_id", "document_key"),
        "Chunk-PART_OF-Document": _pairs(t["chunks"].join(placed, on="document_id"), "chunk_id", "document_key"),
        "User-OWNS-Memory": _pairs(memories, "user_id", "memory_id"),
        "Memory-FROM-Document": _pairs(memories.join(placed, on="document_id"), "memory_id", "document_key"),
        "Memory-QUOTES-Chunk": _pairs(memories.explode("chunk_ids"), "memory_id", "chunk_ids"),
        "Window-WINDOW_OF-Memory": _pairs(windows, "window_id", "memory_id"),
        "Memory-MENTIONS-Entity": _pairs(
            t["mentions"].sort("memory_id", "entity_id", "char_start", nulls_last=True),
            "memory_id",
            "entity_id",
            "char_start",
            "char_end",
        ),
        # In tenths: hundredths shift with every edit in the scope, and each shift would be two writes.
        "Memory-ABOUT-Topic": _pairs(
            t["topic_memories"].with_columns(pl.col("relevance").round(1)), "memory_id", "topic_id", "relevance"
        ),
        "Memory-SUPERSEDES-Memory": _pairs(
            memories.filter(pl.col("superseded_by").is_not_null()), "superseded_by", "memory_id"
        ),
    }
    related = (
        t["relations"]
        .drop(SCOPE)
        .join(scope_of.rename({"memory_id": "newer_id"}), on="newer_id")
        .join(scope_of.rename({"memory_id": "older_id"}), on=["older_id", *SCOPE])
        .with_columns(pl.col("confidence").fill_null(1.0).cast(pl.Float32).cast(pl.Float64))
        .sort("newer_id", "older_id", "label", "relation_id")
    )
    uris = documents.select(*SCOPE, "uri", "document_key").unique()
    stated = (
        t["document_relations"]
        .join(uris.rename({"uri": "newer_uri", "document_key": "newer"}), on=["newer_uri", *SCOPE])
        .join(uris.rename({"uri": "older_uri", "document_key": "older"}), on=["older_uri", *SCOPE])
    )
    for label, kind in _RELATIONS.items():
        told = related.filter(pl.col("label") == label)
        out[f"Memory-{kind}-Memory"] = _pairs(told, "newer_id", "older_id", "relation_id", "confidence", "labeler")
        if f"Document-{kind}-Document" in EDGES:
            out[f"Document-{kind}-Document"] = _pairs(stated.filter(pl.col("label") == label), "newer", "older")
    for (kind,), held in t["topic_edges"].group_by("kind", maintain_order=True):
        if (name := f"Topic-{str(kind).upper()}-Topic") in EDGES:
            out[name] = _pairs(held, "source_id", "target_id", "weight")
    return out


def _pairs(frame: pl.DataFrame, a: str, b: str, *told: str) -> pl.DataFrame:
    """Returns the first row of each pair and relation."""
    out = frame.select(pl.col(a).alias("a"), pl.col(b).alias("b"), *told).drop_nulls(["a", "b"])
    same = ["a", "b", *(["relation_id"] if "relation_id" in told else [])]
    return out.unique(same, keep="first", maintain_order=True)


def _joined(*columns: str) -> pl.Expr:
    return pl.concat_str([pl.col(c).fill_null("") for c in columns], separator=_SEPARATOR)


def _keyed_nodes(label: str, frame: pl.DataFrame, space: str) -> pl.DataFrame:
    name = KEYS[label]
    frame = frame.sort(name)
    hashed = frame
    if "text_hash" in frame.columns:
        hashed = frame.with_columns(pl.col("text_hash") + pl.lit(space))
    elif "hashes" in frame.columns:
        hashed = frame.with_columns(pl.lit(space).alias("space"))
    return frame.with_columns(pl.col(name).alias("id"), _hashes(hashed, label).alias("key"))


def _keyed_edges(edges: Mapping[str, pl.DataFrame], nodes: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Gives edges a key that covers both ends' keys: where an end changes, its edges are new as well."""
    out = {}
    for name, frame in edges.items():
        spec = EDGES[name]
        ends = [
            nodes[spec.source].select(pl.col("id").alias("a"), pl.col("key").alias("_a")),
            nodes[spec.target].select(pl.col("id").alias("b"), pl.col("key").alias("_b")),
        ]
        joined = frame.join(ends[0], on="a").join(ends[1], on="b").sort(frame.columns)
        joined = joined.with_columns(_hashes(joined, name).alias("key")).drop("_a", "_b")
        out[name] = joined.with_columns(pl.col("a" if spec.anchor == "source" else "b").alias("id"))
    return out


def _hashes(frame: pl.DataFrame, what: str) -> pl.Series:
    """Returns a 63-bit hash of each row, the same on every machine."""
    columns: Sequence[pl.Expr] = [_as_text(pl.col(c), t).fill_null("\x00") for c, t in frame.schema.items()]
    lines = frame.select(pl.concat_str(columns, separator=_SEPARATOR).alias("line"))["line"]
    start = what.encode()

    def one(line: str) -> int:
        digest = hashlib.blake2b(start + line.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "little") >> 1

    return pl.Series("key", [one(line) for line in lines], dtype=pl.Int64)


def _as_text(column: pl.Expr, kind: pl.DataType) -> pl.Expr:
    if isinstance(kind, pl.List):
        return column.cast(pl.List(pl.String)).list.eval(pl.element().fill_null("\x00")).list.join("\x1e")
    if kind == pl.Binary:
        return column.bin.encode("base64")
    if isinstance(kind, pl.Datetime):
        return column.dt.epoch("us").cast(pl.String)
    return column.cast(pl.String)
