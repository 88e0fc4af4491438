"""The index: one DuckDB file that holds all that queries read of one build; derived from the tables, never edited.

Rows of memories are dense numbers in the order (collection, user, project, memory_id), so a scope is one range of rows,
and every other table is sorted by them: zone maps then keep a read inside its scope cheap.
"""

import datetime as dt
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import polars.selectors as cs

from palimpsest.core.scopes import SCOPE
from palimpsest.index.passage_tables import passage_tables
from palimpsest.index.support import support_of
from palimpsest.memories.memory_times import memory_times
from palimpsest.memories.sequence import document_order, turn_order
from palimpsest.memories.version_reasons import version_reasons
from palimpsest.store.tables import empty
from palimpsest.text.memory_periods import stated_periods
from palimpsest.text.periods import Period, day_period
from palimpsest.text.terms import terms

VectorLookup = Callable[[Sequence[str]], np.ndarray]
"""Maps n text hashes to their unit vectors, shape (n, 384) float32."""

FORMAT = 8
DIMENSIONS = 384
K1, B = 1.2, 0.75
TITLE_WEIGHT = 3  # a title's words count as if they stood there so often: what a passage is about is said there once

_LINKING = ("UPDATE", "EXTEND", "DERIVE")
_MEMORY_COLUMNS = (
    "row",
    "memory_id",
    "session_id",
    "document_id",
    "ordinal",
    "unit",
    "type",
    "text",
    "title",
    "heading",
    "page",
    "speaker",
    "char_start",
    "char_end",
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
    "tags",
    "token_count",
    "uri",
    "document_title",
    "support",
    "retention_until",
    "pii",
    "user_visible",
    "created_at",
    "updated_at",
)

# For people: what each word scores in each memory.
_WORD_SCORES = """
    CREATE VIEW word_scores AS
    SELECT s.collection, s.user_id, s.project_id, t.term, m.memory_id, p.score
    FROM terms t JOIN scopes s USING (scope)
    JOIN (SELECT rowid AS place, row, score FROM postings) p ON p.place BETWEEN t.first AND t.first + t.df - 1
    JOIN memories m USING (row)"""

# Types that Parquet cannot carry, or that a table without rows would lose.
_CASTS = {"vectors": "SELECT row, vector::FLOAT[384] AS vector FROM read_parquet($path)"}


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
    tables: Mapping[str, pl.DataFrame], vectors: VectorLookup, path: Path, meta: Mapping[str, Any]
) -> IndexStats:
    """Writes the index of a build to `path`, aside first, then in one rename: a reader never sees half of it.

    Args:
        tables: documents, memories, embed_inputs, versions, relations, entities, mentions, topics, topic_edges,
            topic_memories, document_relations and context_inputs as in `store.tables`; one that is missing has no rows.
            Order of rows does not matter.
        vectors: the vectors of text hashes.
        path: the file to write; its folder is made.
        meta: JSON values. Readers use `build_id`, `model_id`, `collections` (name -> {"default": bool, "user_id": str})
            `strategies` (name -> strategy) and `weights` (name -> weights); the rest is kept for people.

    Raises:
        ValueError: a memory has no text to embed, or a vector is missing or of another shape.
    """
    clock = _Clock()
    t = {name: tables[name] if name in tables else empty(name) for name in _READ}
    memories = _memory_rows(t)
    out = {"scopes": _scopes(memories)}
    rows = memories.select("memory_id", "row", "scope")
    out["following"] = _numbered(turn_order(t["memories"], t["documents"]), rows)
    out["written"] = _numbered(document_order(t["memories"]), rows)
    out["periods"] = _periods(memories)
    out["reasons"] = version_reasons(t).join(rows.select("memory_id", "row"), on="memory_id").sort("row", "told")
    clock.lap("memories")
    out["vectors"] = _vector_rows(t["embed_inputs"], rows, vectors)
    clock.lap("vectors")
    out |= _words(memories)
    clock.lap("words")
    out |= _graph(t, rows, out["scopes"])
    out |= passage_tables(t, rows, out["entities"], vectors)
    told = memories.with_columns(support=support_of(memories, out))
    out["memories"] = told.select(_MEMORY_COLUMNS)
    clock.lap("graph")
    size = _write_file(path, out, {**meta, "format": FORMAT, "written_with": duckdb.__version__})
    clock.lap("file")
    return IndexStats(
        scopes=out["scopes"].height,
        memories=memories.height,
        vectors=out["vectors"].height,
        terms=out["terms"].height,
        postings=out["postings"].height,
        links=out["links"].height,
        mentions=out["mentions"].height,
        bytes=size,
        parts_s=clock.seconds,
    )


_READ = (
    "documents",
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
    "context_inputs",
)


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name], self._last = now - self._last, now


def _memory_rows(t: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Returns memories sorted by (scope, id), numbered, with version and source; `scope` numbers the scopes."""
    documents = t["documents"].select("document_id", "uri", pl.col("title").alias("document_title"))
    versions = t["versions"].select(
        "memory_id",
        "is_latest",
        pl.col("valid_from").alias("_from"),
        pl.col("valid_until").alias("_until"),
        "superseded_by",
        pl.lit(True).alias("_versioned"),
    )
    versioned = pl.col("_versioned").fill_null(False)
    return (
        t["memories"]
        .sort(*SCOPE, "memory_id")
        .join(documents, on="document_id", how="left", maintain_order="left")
        .join(versions, on="memory_id", how="left", maintain_order="left")
        .join(
            memory_times(t["memories"], t["documents"], t["versions"]),
            on="memory_id",
            how="left",
            maintain_order="left",
        )
        .with_row_index("row")
        .with_columns(
            pl.col("row").cast(pl.Int32),
            pl.struct(SCOPE).rle_id().cast(pl.Int32).alias("scope"),
            pl.col("is_latest").fill_null(True),
            pl.when(versioned).then("_from").otherwise("valid_from").alias("valid_from"),
            pl.when(versioned).then("_until").otherwise("valid_until").alias("valid_until"),
            pl.col("token_count").fill_null(0),
        )
    )


def _scopes(memories: pl.DataFrame) -> pl.DataFrame:
    return memories.group_by("scope", maintain_order=True).agg(
        pl.col(SCOPE).first(),
        pl.col("row").first().alias("first_row"),
        pl.len().cast(pl.Int32).alias("size"),
        pl.col("token_count").sum().alias("tokens"),
    )


def _numbered(order: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Returns (row, next_row) of memories that follow each other, by row."""
    number = rows.select("memory_id", "row")
    return (
        order.join(number, on="memory_id")
        .join(number.rename({"memory_id": "next_id", "row": "next_row"}), on="next_id")
        .select("row", "next_row")
        .sort("row")
    )


def _periods(memories: pl.DataFrame) -> pl.DataFrame:
    """Returns (row, begins, ends) in years of what memories state, and of the day they were observed on, by row."""
    made = [
        (row, *period)
        for row, text, observed in memories.select("row", "text", "observed_at").iter_rows()
        for period in sorted(_times(text or "", observed))
    ]
    return pl.DataFrame(made, schema={"row": pl.Int32, "begins": pl.Float64, "ends": pl.Float64}, orient="row")


def _times(text: str, observed: dt.datetime | None) -> set[Period]:
    if observed is None:
        return set(stated_periods(text, None))
    return {*stated_periods(text, observed.date()), day_period(observed)}


def _vector_rows(inputs: pl.DataFrame, rows: pl.DataFrame, lookup: VectorLookup) -> pl.DataFrame:
    """Returns (row, vector), sorted by row and window: every memory has one vector or more."""
    wanted = rows.select("memory_id", "row").join(
        inputs.select("memory_id", "kind", "ordinal", "text_hash"), on="memory_id", how="left"
    )
    wanted = wanted.sort("row", "kind", "ordinal", "text_hash")
    if bare := wanted.filter(pl.col("text_hash").is_null())["memory_id"].head(1).to_list():
        raise ValueError(f"memory {bare[0]} has no row in embed_inputs")
    found = np.asarray(lookup(wanted["text_hash"].to_list()), np.float32)
    if found.shape != (wanted.height, DIMENSIONS):
        raise ValueError(
            f"vectors of shape {found.shape} for {wanted.height} texts, not ({wanted.height}, {DIMENSIONS})"
        )
    vector = (
        pl.Series("vector", found, dtype=pl.Array(pl.Float32, DIMENSIONS))
        if wanted.height
        else pl.Series("vector", [], dtype=pl.Array(pl.Float32, DIMENSIONS))
    )
    return pl.DataFrame({"row": wanted["row"], "vector": vector})


def _words(memories: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Returns `terms` (scope, term, first, df) and the `postings` (row, score) they point into, both in order.

    Scores are Lucene's BM25 over each scope's own statistics. Postings of a term are rows first..first + df - 1.
    """
    named = [pl.DataFrame(schema={"scope": pl.Int32, "term": pl.String, "first": pl.Int64, "df": pl.Int32})]
    rows, scores, filled = [np.zeros(0, np.int32)], [np.zeros(0, np.float32)], 0
    for (scope,), group in memories.group_by("scope", maintain_order=True):
        found, row, score = _scope_words(group)
        names = found.select(pl.lit(scope, pl.Int32).alias("scope"), "term", pl.col("first") + filled, "df")
        named.append(names)
        rows.append(row)
        scores.append(score)
        filled += len(row)
    return {
        "terms": pl.concat(named),
        "postings": pl.DataFrame({"row": np.concatenate(rows), "score": np.concatenate(scores)}),
    }


def _scope_words(memories: pl.DataFrame) -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
    """Returns a scope's terms in order, and rows and scores of their postings, by term and row."""
    import bm25s

    vocabulary: dict[str, int] = {}
    number = vocabulary.setdefault
    documents = []
    titles: dict[str | None, list[int]] = {None: []}
    for text, title in zip(memories["search_text"], memories["title"], strict=True):
        if title not in titles:
            titles[title] = [number(w, len(vocabulary)) for w in terms(title)] * (TITLE_WEIGHT - 1)
        documents.append([number(w, len(vocabulary)) for w in terms(text or "")] + titles[title])
    if not vocabulary:
        documents, vocabulary = [[0]], {"": 0}  # no query has this term
    model = bm25s.BM25(k1=K1, b=B, method="lucene")
    model.index((documents, vocabulary), create_empty_token=False, show_progress=False)
    df = np.diff(model.scores["indptr"])
    names = sorted(vocabulary)
    order = np.fromiter((vocabulary[n] for n in names), np.int64, len(names))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    by_term = np.lexsort((model.scores["indices"], np.repeat(rank, df)))
    rows = model.scores["indices"][by_term].astype(np.int32) + np.int32(memories["row"][0])
    df = df[order].astype(np.int32)
    first = np.cumsum(df, dtype=np.int64) - df
    found = pl.DataFrame({"term": pl.Series(names, dtype=pl.String), "first": first, "df": df})
    return found, rows, model.scores["data"][by_term].astype(np.float32)


def _graph(t: Mapping[str, pl.DataFrame], rows: pl.DataFrame, scopes: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Returns links, entities, mentions, topics and documents by row and scope number; nothing spans two scopes."""
    newer = rows.rename({"memory_id": "newer_id", "row": "newer_row"})
    older = rows.rename({"memory_id": "older_id", "row": "older_row"})
    links = (
        t["relations"]
        .filter(pl.col("label").is_in(_LINKING))
        .join(newer, on="newer_id")
        .join(older, on=["older_id", "scope"])
        .select(
            "scope",
            "newer_row",
            "older_row",
            "label",
            pl.col("confidence").fill_null(1.0).cast(pl.Float32),
            "relation_id",
        )
        .sort("newer_row", "older_row", "label", "relation_id")
    )
    number = scopes.select(*SCOPE, "scope")
    entities = (
        t["entities"]
        .join(number, on=SCOPE)
        .sort("scope", "entity_id")
        .with_row_index("entity")
        .with_columns(pl.col("entity").cast(pl.Int32))
    )
    mentions = (
        t["mentions"]
        .select("memory_id", "entity_id")
        .unique()
        .join(rows, on="memory_id")
        .join(entities.select("entity_id", "scope", "entity"), on=["entity_id", "scope"])
        .select("row", "entity")
        .sort("row", "entity")
    )
    df = mentions.group_by("entity").agg(pl.len().cast(pl.Int32).alias("df"))
    entities = entities.join(df, on="entity", how="left", maintain_order="left").select(
        "entity", "scope", "entity_id", "name", "type", pl.col("df").fill_null(0)
    )
    above = t["topic_edges"].filter(kind="subtopic_of").select(topic_id="source_id", parent_id="target_id")
    topics = t["topics"].join(number, on=SCOPE).join(above, on="topic_id", how="left")
    topics = topics.sort("scope", "topic_id")
    held = (
        t["topic_memories"]
        .select("topic_id", "memory_id", "relevance")
        .join(rows, on="memory_id")
        .join(topics.select("topic_id", "scope"), on=["topic_id", "scope"])
        .select("row", "topic_id", pl.col("relevance").cast(pl.Float32))
        .sort("row", "topic_id")
    )
    documents = t["documents"].sort(*SCOPE, "uri", "document_id")
    return {
        "links": links,
        "entities": entities,
        "mentions": mentions,
        "topics": topics.select("scope", "topic_id", "label", "size", "parent_id"),
        "topic_memories": held,
        "documents": documents.drop("metadata"),
        "document_relations": t["document_relations"].sort(*SCOPE, "newer_uri", "older_uri"),
    }


def _write_file(path: Path, frames: Mapping[str, pl.DataFrame], meta: Mapping[str, Any]) -> int:
    """Writes the frames as tables of a new DuckDB file at `path`; returns its size in bytes.

    Frames travel as Parquet files: DuckDB 2.0.0 can read polars and Arrow objects wrongly.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        aside = folder / "index.duckdb"
        with duckdb.connect(str(aside)) as db:
            for name in sorted(frames, key=lambda n: n != "vectors"):
                part = folder / f"{name}.parquet"
                # Without a zone, always UTC: DuckDB needs an extension for zones.
                frame = frames[name].with_columns(cs.datetime().dt.replace_time_zone(None))
                frame.write_parquet(part, compression="uncompressed", statistics=False)
                if name == "vectors":
                    # They do not compress, and reading them is what a first query waits for.
                    db.execute("SET force_compression = 'uncompressed'").fetchall()
                select = _CASTS.get(name, "SELECT * FROM read_parquet($path)")
                db.execute(f"CREATE TABLE {name} AS {select}", {"path": str(part)}).fetchall()
                part.unlink()
                if name == "vectors":
                    db.execute("CHECKPOINT").fetchall()
                    db.execute("SET force_compression = 'auto'").fetchall()
            db.execute("CREATE TABLE meta (key VARCHAR, value VARCHAR)").fetchall()
            told = [(key, json.dumps(value, sort_keys=True)) for key, value in sorted(meta.items())]
            db.executemany("INSERT INTO meta VALUES (?, ?)", told)
            db.execute(_WORD_SCORES).fetchall()
            db.execute("CHECKPOINT").fetchall()
        aside.replace(path)
        return path.stat().st_size
    finally:
        shutil.rmtree(folder, ignore_errors=True)
