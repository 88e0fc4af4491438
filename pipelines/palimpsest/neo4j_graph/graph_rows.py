"""The rows of the graph, from the tables of a build: pure functions; each row has a key, the hash of its contents.

What changes often and is not searched (spans, ordinals, a document's text hash) is in a Revision, one row a document
version: an edit then changes the memories that it touched, and not all those that moved by a few characters.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import FORMAT
from palimpsest.core.ids import GENERAL, SCOPE, ScopeKey, by_scope, content_id, scope_parts
from palimpsest.index.graph_tables import names_of_node
from palimpsest.index.index_format import index_format
from palimpsest.memories.vector_space import MINILM, IndexedSpace, Space, VectorLookup
from palimpsest.memories.version_reasons import disputing_relations
from palimpsest.neo4j_graph.model import (
    DETAILS,
    EDGES,
    FACT_TYPES,
    KEYS,
    MAX_CACHED_VECTORS,
    NODE_EDGES,
    NODE_LABELS,
    VectorSpace,
)
from palimpsest.neo4j_graph.node_rows import document_keys, memory_rows, node_rows, window_rows
from palimpsest.neo4j_graph.packed import (
    ScopeStats,
    blocks_for,
    bucket_of,
    buckets_for,
    mean_and_covariance,
    pack_parts,
    pack_postings,
)
from palimpsest.query.backends.scope_parts import Range
from palimpsest.store.tables import completed, conform, empty

# The vectors of a load by collection, and the label and vector index that each space has in the graph.


@dataclass(frozen=True)
class GraphVectors:
    """The vectors that a load writes.

    Attributes:
        lookup: the vectors of text hashes of collections that are not in `spaces`.
        model: name of their embedder.
        spaces: the vectors of other collections, by collection.
        indexes: the label and index of those.
    """

    lookup: VectorLookup
    model: str
    spaces: Mapping[str, IndexedSpace] = field(default_factory=dict)
    indexes: Mapping[str, VectorSpace] = field(default_factory=dict)

    @classmethod
    def of(
        cls, lookup: VectorLookup, model: str, indexed: Mapping[str, IndexedSpace], spaces: Mapping[str, Space]
    ) -> "GraphVectors":
        """Returns the vectors of a home's build.

        Args:
            lookup: MiniLM's vectors.
            model: name of MiniLM's space.
            indexed: the vectors of each collection, by name.
            spaces: the space of each collection, by name.
        """
        others = {name: s for name, s in spaces.items() if s.embedder != MINILM}
        own = {name: graph_space(space) for name, space in others.items()}
        return cls(lookup, model, {name: indexed[name] for name in others}, own)

    @property
    def name(self) -> str:
        """What identifies these vectors: the model, and the spaces of collections that have another."""
        return ";".join([self.model, *(f"{c}={s.name}" for c, s in sorted(self.spaces.items()))])

    def vectors_of(self, collection: str) -> VectorLookup:
        """Returns the vectors of a collection."""
        return self.spaces[collection].lookup if collection in self.spaces else self.lookup

    def model_of(self) -> pl.Expr:
        """Returns the name of the space of each row, by its collection."""
        names = {collection: space.name for collection, space in self.spaces.items()}
        return pl.col("collection").replace_strict(names, default=self.model, return_dtype=pl.String)

    def parts(self, rows: pl.DataFrame) -> Iterator[tuple[VectorSpace, VectorLookup, pl.DataFrame]]:
        """Yields the rows of each space, with its label and its vectors."""
        yield VectorSpace(), self.lookup, rows.filter(~pl.col("collection").is_in(list(self.spaces)))
        for collection, space in sorted(self.spaces.items()):
            yield self.indexes[collection], space.lookup, rows.filter(pl.col("collection") == collection)


def graph_space(space: Space | None) -> VectorSpace:
    """Returns the label and the index of a space; None means MiniLM's."""
    if space is None or space.embedder == MINILM:
        return VectorSpace()
    return VectorSpace.of_space(space.name, space.dimensions)


# Rows of what memories are about: nodes, facts as relationships, and edges between nodes.
#
# An entity, a topic and what is formed from them are all nodes. What a fact states is a relationship from each memory
# that is its evidence to its subject, and where it has an object, one between the two nodes.


_FACT = (
    "fact_id",
    "predicate",
    "value",
    "object_id",
    "is_negated",
    "modality",
    "valid_from",
    "valid_until",
    "is_latest",
    "confidence",
    "memory_ids",
)
_BETWEEN_NODES = tuple(c for c in _FACT if c not in ("value", "object_id"))
_KINDS_OF_NODE = (*NODE_LABELS, "label")
_EDGE = ("weight", "provenance", "memory_ids", "created_at", "updated_at")


def graph_nodes(t: Mapping[str, pl.DataFrame], vectors: pl.DataFrame) -> pl.DataFrame:
    """Returns the nodes: `entity_id` of those that are entities, `topic_id` and `label` of those that are topics.

    `names` and `words` are what a node is found by, as in the index. A build of a version without the table `nodes` has
    its entities and topics.

    Args:
        t: the tables of a build by name.
        vectors: as `read_node_vectors` returns them.
    """
    entities, topics = t["entities"], t["topics"]
    nodes = t["nodes"]
    if nodes.is_empty():
        of_entities = entities.select("name", "type", "aliases", *SCOPE, node_id="entity_id")
        of_topics = topics.select(*SCOPE, name="label", type=pl.lit("topic"), node_id="topic_id")
        nodes = conform("nodes", pl.concat([of_entities, of_topics], how="diagonal"))
    named = pl.concat([entities.select("entity_id"), t["speakers"].select("entity_id")]).unique()
    found = [names_of_node(*row) for row in nodes.select("type", "name", "aliases").iter_rows()]
    names, words = ([sorted(of_node[i]) for of_node in found] for i in (0, 1))
    return (
        nodes.with_columns(
            names=pl.Series(names, dtype=pl.List(pl.String)), words=pl.Series(words, dtype=pl.List(pl.String))
        )
        .join(vectors, on="node_id", how="left")
        .join(named.select("entity_id", node_id="entity_id"), on="node_id", how="left")
        .join(topics.select("topic_id", node_id="topic_id"), on="node_id", how="left")
        .with_columns(label=pl.when(pl.col("topic_id").is_not_null()).then("name"))
        .select("node_id", *SCOPE, "type", "name", "aliases", "names", "words", *_KINDS_OF_NODE, *DETAILS)
    )


def read_node_vectors(index: Path) -> pl.DataFrame:
    """Returns (node_id, vector) as a build's index has them: float16, as bytes; none of an index without nodes."""
    with duckdb.connect(str(index), read_only=True) as db:
        try:
            found = db.execute("SELECT node_id, vector FROM node_vectors JOIN nodes USING (node)").fetchall()
        except duckdb.CatalogException:
            found = []
    return pl.DataFrame(found, schema={"node_id": pl.String, "vector": pl.Binary}, orient="row")


def knowledge_edges(t: Mapping[str, pl.DataFrame], nodes: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yields relationships of nodes by the name of their edge, with columns a, b and their properties.

    Args:
        t: the tables of a build by name.
        nodes: as `graph_nodes` returns them.
    """
    mentions = t["mentions"].sort("memory_id", "entity_id", "char_start", nulls_last=True)
    yield "Memory-MENTIONS-Node", _ends(mentions, "memory_id", "entity_id", "char_start", "char_end")
    # In tenths: hundredths shift with every edit in the scope, and each shift would be two writes.
    topics = t["topic_memories"].select("memory_id", "relevance", node_id="topic_id")
    of_nodes = t["node_memories"].select(topics.columns).with_columns(pl.col("relevance").fill_null(1.0))
    about = pl.concat([topics, of_nodes]).with_columns(pl.col("relevance").round(1))
    yield "Memory-ABOUT-Node", _ends(about, "memory_id", "node_id", "relevance")
    yield from _facts(t["facts"], nodes.select("node_id", *SCOPE))
    edges = t["edges"]
    if t["nodes"].is_empty():
        edges = conform("edges", t["topic_edges"].rename({"kind": "type"}))
    for kind in NODE_EDGES:
        yield f"Node-{kind}-Node", _ends(edges.filter(type=kind.lower()), "source_id", "target_id", *_EDGE)


def _facts(facts: pl.DataFrame, nodes: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yields facts of nodes of one scope: from each memory, between two nodes, and the latter by their predicate."""
    of_nodes = facts.join(nodes, left_on=["subject_id", *SCOPE], right_on=["node_id", *SCOPE], how="semi")
    between = of_nodes.join(nodes, left_on=["object_id", *SCOPE], right_on=["node_id", *SCOPE], how="semi")
    whole = pl.concat([of_nodes.filter(pl.col("object_id").is_null()), between]).sort("fact_id")
    yield (
        "Memory-STATES-Node",
        _ends(whole.with_columns(memory="memory_ids").explode("memory"), "memory", "subject_id", *_FACT),
    )
    yield "Node-FACT-Node", _ends(between, "subject_id", "object_id", *_BETWEEN_NODES)
    types = pl.col("predicate").replace_strict(FACT_TYPES, default=None, return_dtype=pl.String)
    typed = between.with_columns(type=types).drop_nulls("type")
    yield "Node-PREDICATE-Node", _ends(typed, "subject_id", "object_id", "type", *_BETWEEN_NODES)


def _ends(frame: pl.DataFrame, a: str, b: str, *properties: str) -> pl.DataFrame:
    """Returns the first row of each pair of ends and fact."""
    out = frame.select(pl.col(a).alias("a"), pl.col(b).alias("b"), *properties).drop_nulls(["a", "b"])
    identity = ["a", "b", *(["fact_id"] if "fact_id" in properties else [])]
    return out.unique(identity, keep="first", maintain_order=True)


# Relationships of the graph: the ends and properties of each, by the name of the edge.

_EDGE_TYPE_OF_LABEL = {"UPDATE": "UPDATES", "EXTEND": "EXTENDS", "DERIVE": "DERIVES"}
_OF_RELATION = ("relation_id", "confidence", "labeler", "conflict", "consequence", "part", "likelihood")
"""Properties of what is a relation; `part` has the start and the end of each span of the older text that ended."""


def edge_rows(
    t: Mapping[str, pl.DataFrame],
    memories: pl.DataFrame,
    windows: pl.DataFrame,
    documents: pl.DataFrame,
    nodes: pl.DataFrame,
) -> dict[str, pl.DataFrame]:
    """Returns edges by name with columns a, b and their properties; some ends may be no rows.

    Args:
        t: the tables of a build by name.
        memories: as `memory_rows` returns them.
        windows: as `window_rows` returns them.
        documents: as `document_keys` returns them.
        nodes: as `graph_nodes` returns them.
    """
    return {
        **_edges_of_sources(t["chunks"], memories, documents),
        **_edges_of_memories(memories, windows),
        **dict(_relations(t["relations"], memories)),
        "Memory-DISPUTES-Memory": _of_relations(disputing_relations(t), memories),
        **dict(_stated_relations(t["document_relations"], documents)),
        **dict(knowledge_edges(t, nodes)),
    }


def _edges_of_sources(chunks: pl.DataFrame, memories: pl.DataFrame, documents: pl.DataFrame) -> dict[str, pl.DataFrame]:
    keys = documents.select("document_id", "document_key")
    by_document = memories.join(
        documents.select(*SCOPE, "document_key", by="document_id"),
        left_on=[*SCOPE, "superseded_by"],
        right_on=[*SCOPE, "by"],
    )
    return {
        "Document-PART_OF-Collection": _pairs(documents, "document_key", "collection"),
        "Revision-REVISION_OF-Document": _pairs(keys, "document_id", "document_key"),
        "Chunk-PART_OF-Document": _pairs(chunks.join(keys, on="document_id"), "chunk_id", "document_key"),
        "Memory-FROM-Document": _pairs(memories.join(keys, on="document_id"), "memory_id", "document_key"),
        "Document-SUPERSEDES-Memory": _pairs(by_document, "document_key", "memory_id"),
    }


def _edges_of_memories(memories: pl.DataFrame, windows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    superseded = memories.filter(pl.col("superseded_by").is_not_null())
    return {
        "User-OWNS-Memory": _pairs(memories, "user_id", "memory_id"),
        "Memory-QUOTES-Chunk": _pairs(memories.explode("chunk_ids"), "memory_id", "chunk_ids"),
        "Window-WINDOW_OF-Memory": _pairs(windows, "window_id", "memory_id"),
        "Memory-SUPERSEDES-Memory": _pairs(superseded, "superseded_by", "memory_id"),
    }


def _relations(relations: pl.DataFrame, memories: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yields the relations inside a scope by the name of their edge."""
    related = completed("relations", relations)
    for label, edge_type in _EDGE_TYPE_OF_LABEL.items():
        yield f"Memory-{edge_type}-Memory", _of_relations(related.filter(pl.col("label") == label), memories)


def _of_relations(relations: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns the edges of those relations that are inside a scope."""
    scope_of = memories.select("memory_id", *SCOPE)
    spans = pl.col("part").str.json_decode(pl.List(pl.List(pl.Int64)))
    related = (
        relations.drop(SCOPE)
        .join(scope_of.rename({"memory_id": "newer_id"}), on="newer_id")
        .join(scope_of.rename({"memory_id": "older_id"}), on=["older_id", *SCOPE])
        .with_columns(
            pl.col("confidence").fill_null(1.0).cast(pl.Float32).cast(pl.Float64),
            part=spans.list.eval(pl.element().explode()),
        )
        .sort("newer_id", "older_id", "label", "relation_id")
    )
    return _pairs(related, "newer_id", "older_id", *_OF_RELATION)


def _stated_relations(document_relations: pl.DataFrame, documents: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yields what sources state of one another, by the name of the edge."""
    uris = documents.select(*SCOPE, "uri", "document_key").unique()
    stated = document_relations.join(
        uris.rename({"uri": "newer_uri", "document_key": "newer"}), on=["newer_uri", *SCOPE]
    ).join(uris.rename({"uri": "older_uri", "document_key": "older"}), on=["older_uri", *SCOPE])
    for label, edge_type in _EDGE_TYPE_OF_LABEL.items():
        if (name := f"Document-{edge_type}-Document") in EDGES:
            yield name, _pairs(stated.filter(pl.col("label") == label), "newer", "older")


def _pairs(frame: pl.DataFrame, a: str, b: str, *properties: str) -> pl.DataFrame:
    """Returns the first row of each pair of ends and relation."""
    out = frame.select(pl.col(a).alias("a"), pl.col(b).alias("b"), *properties).drop_nulls(["a", "b"])
    identity = ["a", "b", *(["relation_id"] if "relation_id" in properties else [])]
    return out.unique(identity, keep="first", maintain_order=True)


# Keys of rows: a hash of all that a row contains, so that equal rows are not written again.

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


# The rows of the graph that readers need of a whole scope: statistics, words, vectors and packed arrays.

_SCOPE = {**dict.fromkeys(SCOPE, pl.String), "scope_id": pl.String}
_PACKED = {**_SCOPE, "data": pl.Binary}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "ScopeStats": _PACKED | {"buckets": pl.Int64, "size": pl.Int64},
    "Postings": _PACKED | {"postings_id": pl.String},
    "VectorBlock": _SCOPE | {"block_id": pl.String, "counts": pl.List(pl.Int64), "hashes": pl.List(pl.String)},
    "ScopeArrays": _PACKED | {"arrays_id": pl.String},
}


def scope_rows(
    memories: pl.DataFrame, windows: pl.DataFrame, vectors: GraphVectors, index: Path
) -> dict[str, pl.DataFrame]:
    """Returns what a reader needs of each scope as a whole, by label: see `packed`.

    Raises:
        ComponentFailed: the index is missing, or is of other tables.
        PalimpsestError: another version wrote the index.
    """
    if not index.is_file():
        raise ComponentFailed(f"neo4j: {index}: no such file; run palimpsest build, then load again")
    if (found_format := index_format(index)) != FORMAT:
        raise PalimpsestError(
            f"neo4j: index {index}: format {found_format}, this version reads {FORMAT}; "
            "run palimpsest build, then load again"
        )
    with duckdb.connect(str(index), read_only=True) as db:
        found = db.execute("SELECT collection, user_id, project_id, first_row, size, scope FROM scopes").fetchall()
        ranges = {tuple(row[:3]): Range(*row[3:]) for row in found}
        words = db.execute("SELECT scope, term, first, df FROM terms ORDER BY scope, term").fetchnumpy()
        postings = db.execute("SELECT row, score FROM postings ORDER BY rowid").fetchnumpy()
        arrays = [
            _scope_columns(scope) | {"arrays_id": f"{scope_id_of(*scope)}:{part}", "data": data}
            for scope, at in sorted(ranges.items())
            for part, data in pack_parts(db, at)
        ]
    rows: dict[str, list[dict[str, Any]]] = {"ScopeStats": [], "Postings": [], "VectorBlock": [], "ScopeArrays": arrays}
    for scope, mine in by_scope(memories).items():
        at = ranges.get(scope, Range(0, 0, -1))
        if at.size != mine.height:
            raise ComponentFailed(f"neo4j: {index} does not match the tables; run palimpsest build again")
        beyond = windows.filter(pl.col("memory_id").is_in(mine["memory_id"].implode()))
        columns, scope_id = _scope_columns(scope), scope_id_of(*scope)
        buckets, packed = _pack_words(words, postings, at)
        data = _stats(mine, beyond, vectors.vectors_of(scope[0]))
        rows["ScopeStats"].append(columns | {"buckets": buckets, "size": at.size, "data": data})
        rows["Postings"] += [columns | {"postings_id": f"{scope_id}:{b}", "data": data} for b, data in packed]
        if mine.height + beyond.height <= MAX_CACHED_VECTORS:
            rows["VectorBlock"] += [columns | block for block in _blocks(scope_id, mine, beyond)]
    return {label: pl.DataFrame(rows[label], schema=schema) for label, schema in _SCHEMAS.items()}


def scope_id_of(collection: str, user_id: str, project_id: str = GENERAL) -> str:
    """Returns the id of a scope's packed rows."""
    return content_id("scope", *scope_parts(collection, user_id, project_id))


def _scope_columns(scope: ScopeKey) -> dict[str, Any]:
    return dict(zip(SCOPE, scope, strict=True)) | {"scope_id": scope_id_of(*scope)}


def _pack_words(
    words: dict[str, np.ndarray], postings: dict[str, np.ndarray], at: Range
) -> tuple[int, list[tuple[int, bytes]]]:
    """Returns the number of buckets of a scope's words, and (bucket, bytes) of those that have any."""
    low, high = np.searchsorted(np.asarray(words["scope"]), [at.number, at.number + 1])
    df, start = np.asarray(words["df"][low:high], np.int64), int(words["first"][low])
    own = slice(start, start + int(df.sum()))
    rows = np.asarray(postings["row"][own], np.int64) - at.first
    scores = np.asarray(postings["score"][own], np.float32)
    terms = [str(w) for w in words["term"][low:high]]
    return buckets_for(len(rows)), list(pack_postings(terms, df, rows, scores))


def _blocks(scope_id: str, mine: pl.DataFrame, beyond: pl.DataFrame) -> list[dict[str, Any]]:
    """Returns the rows of a scope's blocks: memories by id, the windows of each after its first vector."""
    count = blocks_for(mine.height + beyond.height)
    inputs = pl.concat([mine.select("memory_id", "text_hash"), beyond.select("memory_id", "text_hash")])
    number = [bucket_of(i, count) for i in inputs["memory_id"]]
    # The sort is stable: of one memory the first vector stays first.
    inputs = inputs.with_columns(pl.Series("block", number)).sort("block", "memory_id", maintain_order=True)
    each = inputs.group_by("block", "memory_id", maintain_order=True).agg("text_hash", pl.len().alias("count"))
    by_block = each.group_by("block", maintain_order=True).agg("count", "text_hash")
    return [
        {"block_id": f"{scope_id}:{b}", "counts": counts, "hashes": [h for hashes in lists for h in hashes]}
        for b, counts, lists in by_block.rows()
    ]


def _stats(mine: pl.DataFrame, beyond: pl.DataFrame, vectors: VectorLookup) -> bytes:
    latest = mine["is_latest"].to_numpy()
    mean = covariance = None
    if (count := mine.height + beyond.height) > MAX_CACHED_VECTORS:
        hashes = pl.concat([f.filter("is_latest")["text_hash"] for f in (mine, beyond)])
        mean, covariance = mean_and_covariance(vectors(hashes.to_list()))
    ids = np.array(mine["memory_id"].to_list(), dtype=object)
    return ScopeStats(ids, latest, count, mean, covariance).pack()


TABLES = (
    "documents",
    "chunks",
    "memories",
    "embed_inputs",
    "versions",
    "decided_memories",
    "relations",
    "entities",
    "mentions",
    "facts",
    "speakers",
    "topics",
    "topic_edges",
    "topic_memories",
    "nodes",
    "edges",
    "node_memories",
    "document_relations",
)
"""The tables of a build that rows are made of."""


@dataclass(frozen=True)
class GraphRows:
    """All rows of one build.

    Attributes:
        nodes: by kind; columns `id`, `key` and the properties; of Memory and Window also `text_hash`, of VectorBlock
            `counts` and `hashes`: the vectors themselves are looked up when they are written; of Node also `details`,
            the hash of `model.DETAILS`, which `key` does not cover.
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
        """Rows by kind and by name of edge."""
        return {n: f.height for n, f in (*self.nodes.items(), *self.edges.items())}


def graph_rows(tables: Mapping[str, pl.DataFrame], vectors: GraphVectors, index: Path) -> GraphRows:
    """Makes the rows of a build.

    Args:
        tables: those of `TABLES`, as in `store.tables`; one that is missing has no rows.
        vectors: the unit vectors of text hashes; those of another space are other rows.
        index: the build's DuckDB file: words have the scores that they have there.

    Raises:
        ComponentFailed: the index is missing.
        ValueError: a memory has no row in embed_inputs.
    """
    t = {name: tables[name] if name in tables else empty(name) for name in TABLES}
    memories = memory_rows(t)
    windows = window_rows(t["embed_inputs"], memories)
    documents = document_keys(t["documents"])
    packed = scope_rows(memories, windows, vectors, index)
    knowledge = graph_nodes(t, read_node_vectors(index))
    unkeyed = node_rows(t, memories, windows, documents, knowledge) | packed
    nodes = {kind: add_node_keys(kind, frame, vectors.model_of()) for kind, frame in unkeyed.items()}
    edges = add_edge_keys(edge_rows(t, memories, windows, documents, knowledge), nodes)
    scopes = memories.select(SCOPE).unique().sort(SCOPE).rows()
    details = {"details": nodes["Node"].select(key="details")}
    return GraphRows(nodes, edges, _digest(nodes | edges | details), [(c, u, p) for c, u, p in scopes])


def _digest(frames: Mapping[str, pl.DataFrame]) -> str:
    keys = [f"{name}:{key}" for name, frame in sorted(frames.items()) for key in frame["key"].sort()]
    return hashlib.blake2b("\n".join(keys).encode(), digest_size=16).hexdigest()
