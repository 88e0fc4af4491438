"""The index: one DuckDB file with all that queries read of one build; derived from the tables, never edited.

Rows of memories are dense numbers in the order (collection, user, project, memory_id), so a scope is one range of rows,
and every other table is sorted by them: zone maps then keep a read inside its scope cheap.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import polars.selectors as cs

from palimpsest.core.files import FORMAT
from palimpsest.core.ids import REFLECTION, JsonValue
from palimpsest.index.earlier_index import earlier_periods, earlier_words
from palimpsest.index.graph_tables import graph_tables, node_tables, passage_tables
from palimpsest.index.memory_table import (
    MEMORY_COLUMNS,
    find_periods,
    following_rows,
    memory_rows,
    period_table,
    scope_table,
    score_words,
    word_tables,
)
from palimpsest.memories.recency import document_order, turn_order
from palimpsest.memories.vector_space import IndexedSpace, VectorLookup
from palimpsest.memories.version_reasons import version_reasons
from palimpsest.store.tables import empty
from palimpsest.text.terms import WORD
from palimpsest.text.words import strip_accents

# The metadata of documents as values of fields, so that queries can filter memories by them.

MAX_TEXT_CHARS = 1000
"""A longer text is no value to filter by."""
MAX_VALUES = 100
"""Values of a list, fields of a document, and levels of names are limited: a longer list is left out."""
_MAX_LEVELS = 4
_SCHEMA = {"scope": pl.Int32, "document_id": pl.String, "field": pl.String, "value": pl.String}


def metadata_table(documents: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Returns (scope, document_id, field, value) of the documents of memories; values are JSON scalars.

    Args:
        documents: document_id and metadata, a JSON object or null.
        rows: scope and document_id of every memory.
    """
    used = rows.select("scope", "document_id").drop_nulls().unique()
    stated = documents.select("document_id", "metadata").drop_nulls().unique("document_id")
    found = used.join(stated, on="document_id").sort("scope", "document_id")
    made = [
        (scope, document_id, field, value)
        for scope, document_id, metadata in found.select("scope", "document_id", "metadata").iter_rows()
        for field, value in field_values(metadata)
    ]
    return pl.DataFrame(made, schema=_SCHEMA, orient="row")


def field_values(metadata: str) -> list[tuple[str, str]]:
    """Returns (field, value) of a JSON object, sorted: of a list each value, of an object fields with dotted names."""
    stated = json.loads(metadata or "{}")
    if not isinstance(stated, Mapping):
        return []
    found = {(field, json.dumps(value, ensure_ascii=False)) for field, value in _scalars("", stated, 0)}
    return sorted(found)[: MAX_VALUES**2]


def _scalars(name: str, value: JsonValue, level: int) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, Mapping) and level < _MAX_LEVELS and len(value) <= MAX_VALUES:
        for key, inner in value.items():
            yield from _scalars(f"{name}.{key}" if name else str(key), inner, level + 1)
    elif isinstance(value, list) and len(value) <= MAX_VALUES:
        for inner in value:
            yield from _scalars(name, inner, level + 1)
    elif name and isinstance(value, str) and len(value) <= MAX_TEXT_CHARS:
        yield name, value.encode("utf-8", "replace").decode("utf-8")
    elif name and isinstance(value, bool | int | float):
        yield name, value


# How many other memories of its scope support each memory: the prior `frequency`, which counts no reads.

_SUPPORTING = ("EXTEND", "DERIVE")


def support_of(memories: pl.DataFrame, tables: Mapping[str, pl.DataFrame]) -> pl.Series:
    """Returns, in the order of the memories, how many others support each; retired and formed ones support nothing.

    Those are: memories that extend it or follow from it, or that it extends or follows from; memories of other
    documents with the same words; and other documents that name its title.

    Args:
        memories: row, scope, document_id, unit, text and is_latest of every memory.
        tables: links, mentions and titles of the index.
    """
    normalized = pl.Series("normalized", [_normalize(x) for x in memories["text"]], dtype=pl.String)
    about = memories.select("row", "scope", pl.col("document_id").fill_null(""), "is_latest").with_columns(normalized)
    live = about.filter(pl.col("is_latest") & (memories["unit"] != REFLECTION))
    links = tables["links"].filter(pl.col("label").is_in(_SUPPORTING))
    ends = [links.select(row=a, other=b) for a, b in (("newer_row", "older_row"), ("older_row", "newer_row"))]
    linked = pl.concat(ends).unique().join(live.select(other="row"), on="other")
    same_text, here = live.group_by("scope", "normalized").agg(n=pl.len()), ["scope", "normalized", "document_id"]
    same = (
        about.filter(pl.col("normalized") != "")
        .join(same_text, on=["scope", "normalized"])
        .join(live.group_by(here).agg(own=pl.len()), on=here, how="left")
        .select("row", n=pl.col("n") - pl.col("own").fill_null(0))
    )
    naming = tables["mentions"].join(live, on="row").select("entity", elsewhere="document_id").unique()
    named = tables["titles"].join(about, on="row").join(naming, on="entity")
    named = named.filter(pl.col("elsewhere") != pl.col("document_id")).unique(["row", "elsewhere"])
    counted = [same, *(f.group_by("row").agg(n=pl.len()) for f in (linked, named))]
    counts = pl.concat([f.select("row", pl.col("n").cast(pl.Int32)) for f in counted])
    counts = counts.group_by("row").agg(pl.col("n").sum())
    joined = memories.select("row").join(counts, on="row", how="left", maintain_order="left")
    return joined["n"].fill_null(0).cast(pl.Int32).alias("support")


def _normalize(text: str | None) -> str:
    return " ".join(WORD.findall(strip_accents(text or "").lower()))


# The tables of vectors, one for each space: every memory has one or more.

DIMENSIONS = 384
TABLE = "vectors"  # of the first space; those of others have a number


def spaces_by_collection(
    vectors: VectorLookup | Mapping[str, IndexedSpace], collections: Sequence[str]
) -> dict[str, IndexedSpace]:
    """Returns the space of each collection; a lookup alone is of MiniLM's dimension and serves all."""
    if isinstance(vectors, Mapping):
        return {name: vectors[name] for name in collections}
    return dict.fromkeys(collections, IndexedSpace("", DIMENSIONS, vectors))


def vector_tables(
    inputs: pl.DataFrame, rows: pl.DataFrame, spaces: Mapping[str, IndexedSpace]
) -> tuple[dict[str, pl.DataFrame], dict[str, str]]:
    """Returns the tables of vectors by name, and the name of the table of each collection.

    Args:
        inputs: embed_inputs as in `store.tables`.
        rows: (memory_id, row, collection) of every memory.
        spaces: by collection.
    """
    names = sorted({space.name for space in spaces.values()}) or [""]
    table_of = {name: TABLE if i == 0 else f"{TABLE}_{i}" for i, name in enumerate(names)}
    tables: dict[str, pl.DataFrame] = {}
    for name in names:
        members = {c: s for c, s in spaces.items() if s.name == name}
        mine = rows.filter(pl.col("collection").is_in(list(members)))
        space = next(iter(members.values()), IndexedSpace("", DIMENSIONS, lambda hashes: np.zeros((0, DIMENSIONS))))
        tables[table_of[name]] = vector_table(inputs, mine, space.lookup, space.dimensions)
    return tables, {collection: table_of[space.name] for collection, space in spaces.items()}


def vector_table(inputs: pl.DataFrame, rows: pl.DataFrame, lookup: VectorLookup, dimensions: int) -> pl.DataFrame:
    """Returns (row, vector), sorted by row and window: every memory has one vector or more.

    Raises:
        ValueError: a memory has no text to embed, or the vectors have another shape.
    """
    wanted = rows.select("memory_id", "row").join(
        inputs.select("memory_id", "kind", "ordinal", "text_hash"), on="memory_id", how="left"
    )
    wanted = wanted.sort("row", "kind", "ordinal", "text_hash")
    if bare := wanted.filter(pl.col("text_hash").is_null())["memory_id"].head(1).to_list():
        raise ValueError(f"memory {bare[0]} has no row in embed_inputs")
    found = np.asarray(lookup(wanted["text_hash"].to_list()), np.float32)
    if found.shape != (wanted.height, dimensions):
        raise ValueError(
            f"vectors of shape {found.shape} for {wanted.height} texts, not ({wanted.height}, {dimensions})"
        )
    vector = (
        pl.Series("vector", found, dtype=pl.Array(pl.Float32, dimensions))
        if wanted.height
        else pl.Series("vector", [], dtype=pl.Array(pl.Float32, dimensions))
    )
    return pl.DataFrame({"row": wanted["row"], "vector": vector})


# Writes frames as the tables of one DuckDB file.

_BLOCK_BYTES = 32_768
"""DuckDB fills at least one block for each table; with its 256 KiB, small tables are most of a small index."""
_READ_WHOLE = "memories"
"""A query reads all columns of some 25 of its rows: compressed, each is 230 bytes smaller and is read half as fast."""
_READ_BY_ROW = ("memories", "sentences")
"""Tables with an index on `row`: of a million memories it takes a second and 8 MiB, and reads of 25 rows a third."""
_MEMORY_LIMIT = "1GB"
_SLICE_ROWS = 245_760
"""Rows written at a time, two row groups of DuckDB: 360 MiB of MiniLM's vectors."""

# For people: what each word scores in each memory.
_WORD_SCORES = """
    CREATE VIEW word_scores AS
    SELECT s.collection, s.user_id, s.project_id, t.term, m.memory_id, p.score
    FROM terms t JOIN scopes s USING (scope)
    JOIN (SELECT rowid AS place, row, score FROM postings) p ON p.place BETWEEN t.first AND t.first + t.df - 1
    JOIN memories m USING (row)"""


def write_file(path: Path, frames: Mapping[str, pl.DataFrame], meta: Mapping[str, Any]) -> int:
    """Writes the frames as tables of a new DuckDB file at `path`; returns its size in bytes.

    Frames travel as Parquet files: DuckDB 2.0.0 can read polars and Arrow objects wrongly.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        aside = folder / "index.duckdb"
        with duckdb.connect(str(aside), config={"default_block_size": str(_BLOCK_BYTES)}) as db:
            db.execute(f"SET memory_limit = '{_MEMORY_LIMIT}'").fetchall()
            # Vectors do not compress, and reading them is what a first query waits for.
            uncompressed = {name: _has_vectors(name) or name == _READ_WHOLE for name in frames}
            for name in sorted(frames, key=lambda n: not uncompressed[n]):
                db.execute(f"SET force_compression = '{'uncompressed' if uncompressed[name] else 'auto'}'").fetchall()
                _write_table(db, name, frames[name], folder)
                if uncompressed[name]:
                    db.execute("CHECKPOINT").fetchall()
            for name in sorted(frames.keys() & set(_READ_BY_ROW)):
                db.execute(f"CREATE UNIQUE INDEX {name}_by_row ON {name} (row)").fetchall()
            db.execute("CREATE TABLE meta (key VARCHAR, value VARCHAR)").fetchall()
            rows = [(key, json.dumps(value, sort_keys=True)) for key, value in sorted(meta.items())]
            db.executemany("INSERT INTO meta VALUES (?, ?)", rows)
            db.execute(_WORD_SCORES).fetchall()
            db.execute("CHECKPOINT").fetchall()
        aside.replace(path)
        return path.stat().st_size
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_table(db: duckdb.DuckDBPyConnection, name: str, frame: pl.DataFrame, folder: Path) -> None:
    """Writes a frame as a table, a slice of its rows at a time: memory and space on disk are those of a slice."""
    part = folder / f"{name}.parquet"
    # Without a zone, always UTC: DuckDB needs an extension for zones.
    frame = frame.with_columns(cs.datetime().dt.replace_time_zone(None))
    for number, rows in enumerate(frame.iter_slices(_SLICE_ROWS) if frame.height else [frame]):
        rows.write_parquet(part, compression="uncompressed", statistics=False)
        into = f"INSERT INTO {name}" if number else f"CREATE TABLE {name} AS"
        db.execute(f"{into} {_select(name, rows)}", {"path": str(part)}).fetchall()
        part.unlink()


def _has_vectors(table: str) -> bool:
    return table.startswith("vectors")


def _select(table: str, frame: pl.DataFrame) -> str:
    """Returns what reads a frame's Parquet file: it cannot carry arrays of a fixed size."""
    if not _has_vectors(table):
        return "SELECT * FROM read_parquet($path)"
    dtype = frame.schema["vector"]
    assert isinstance(dtype, pl.Array)
    return f"SELECT row, vector::FLOAT[{int(dtype.size)}] AS vector FROM read_parquet($path)"


@dataclass(frozen=True)
class IndexStats:
    """What `write_index` wrote, and the seconds each part took."""

    scopes: int
    memories: int
    vectors: int
    terms: int
    postings: int
    links: int
    mentions: int
    bytes: int
    parts_s: dict[str, float] = field(default_factory=dict)


def write_index(
    tables: Mapping[str, pl.DataFrame],
    vectors: VectorLookup | Mapping[str, IndexedSpace],
    path: Path,
    meta: Mapping[str, Any],
    earlier: Path | None = None,
) -> IndexStats:
    """Writes the index of a build to `path`, aside first, then in one rename: a reader never sees half of it.

    Args:
        tables: documents, memories, embed_inputs, versions, relations, entities, mentions, topic_memories,
            context_inputs, facts, nodes, edges, node_memories and rejects as in `store.tables`; one that is missing
            has no rows. Order of rows does not matter.
        vectors: the vectors of text hashes, by collection; a lookup alone is MiniLM's.
        path: the file to write; its folder is made.
        meta: JSON values. Readers use `build_id`, `model_id`, `collections` (name -> {"default": bool, "user_id": str})
            `strategies` (name -> strategy), `weights` (name -> weights) and `spaces` (name -> space of its
            vectors); the rest is for people.
        earlier: the index of the build before, where the same code wrote it: what of it is of the same texts is taken
            over, and the index is the same as without.

    Raises:
        ValueError: a memory has no text to embed, or a vector is missing or of another shape.
    """
    timer = _PartTimer()
    t = {name: tables[name] if name in tables else empty(name) for name in _READ}
    memories = memory_rows(t)
    out = {"scopes": scope_table(memories)}
    known_words = earlier_words(earlier, out["scopes"])
    known_periods, of_changed = earlier_periods(earlier, memories)
    changed = memories.filter(~pl.col("scope").is_in([words.scope for words in known_words]))
    words, periods = score_words(changed), find_periods(of_changed)
    timer.record("words")  # the rest of a large index is made while other processes go on with these
    rows = memories.select("memory_id", "row", "scope")
    out["following"] = following_rows(turn_order(t["memories"], t["documents"]), rows)
    out["written"] = following_rows(document_order(t["memories"]), rows)
    out["reasons"] = version_reasons(t).join(rows.select("memory_id", "row"), on="memory_id").sort("row", "reason")
    out["metadata"] = metadata_table(t["documents"], memories)
    timer.record("memories")
    located = memories.select("memory_id", "row", "scope", "collection")
    spaces = spaces_by_collection(vectors, located["collection"].unique().sort().to_list())
    tables_of_vectors, table_of = vector_tables(t["embed_inputs"], located, spaces)
    out |= tables_of_vectors
    timer.record("vectors")
    out |= graph_tables(t, rows, out["scopes"])
    out |= passage_tables(t, located, out["entities"], spaces)
    supported = memories.with_columns(support=support_of(memories, out))
    out["memories"] = supported.select(MEMORY_COLUMNS)
    timer.record("graph")
    out |= node_tables(t, located, out["scopes"], tables_of_vectors.values())
    timer.record("nodes")
    out |= word_tables(memories, words, known_words)
    out["periods"] = period_table(periods, known_periods)
    timer.record("scores and periods")
    written = {"vector_tables": table_of, "written_with": duckdb.__version__}
    size = write_file(path, out, {**meta, **written, "format": FORMAT})
    timer.record("file")
    return IndexStats(
        scopes=out["scopes"].height,
        memories=memories.height,
        vectors=sum(frame.height for frame in tables_of_vectors.values()),
        terms=out["terms"].height,
        postings=out["postings"].height,
        links=out["links"].height,
        mentions=out["mentions"].height,
        bytes=size,
        parts_s=timer.seconds,
    )


_READ = (
    "documents",
    "memories",
    "embed_inputs",
    "versions",
    "decided_memories",
    "relations",
    "entities",
    "mentions",
    "topic_memories",
    "context_inputs",
    "facts",
    "nodes",
    "edges",
    "node_memories",
    "rejects",
)


class _PartTimer:
    """Seconds of each part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def record(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name], self._last = now - self._last, now
