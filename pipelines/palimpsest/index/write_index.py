"""The index: one DuckDB file with all that queries read of one build; derived from the tables, never edited.

Rows of memories are dense numbers in the order (collection, user, project, memory_id), so a scope is one range of rows,
and every other table is sorted by them: zone maps then keep a read inside its scope cheap.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from palimpsest.core.home_format import FORMAT
from palimpsest.index.graph_tables import graph_tables
from palimpsest.index.memory_table import (
    MEMORY_COLUMNS,
    find_periods,
    following_rows,
    memory_rows,
    period_table,
    scope_table,
)
from palimpsest.index.metadata_table import metadata_table
from palimpsest.index.node_tables import node_tables
from palimpsest.index.passage_tables import passage_tables
from palimpsest.index.support import support_of
from palimpsest.index.vector_table import spaces_by_collection, vector_tables
from palimpsest.index.word_tables import score_words, word_tables
from palimpsest.index.write_file import write_file
from palimpsest.memories.embedders.space import IndexedSpace, VectorLookup
from palimpsest.memories.sequence import document_order, turn_order
from palimpsest.memories.version_reasons import version_reasons
from palimpsest.store.tables import empty


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
) -> IndexStats:
    """Writes the index of a build to `path`, aside first, then in one rename: a reader never sees half of it.

    Args:
        tables: documents, memories, embed_inputs, versions, relations, entities, mentions, topic_memories,
            context_inputs, facts, nodes, edges and node_memories as in `store.tables`; one that is missing has no
            rows. Order of rows does not matter.
        vectors: the vectors of text hashes, by collection; a lookup alone is MiniLM's.
        path: the file to write; its folder is made.
        meta: JSON values. Readers use `build_id`, `model_id`, `collections` (name -> {"default": bool, "user_id": str})
            `strategies` (name -> strategy), `weights` (name -> weights) and `spaces` (name -> space of its
            vectors); the rest is for people.

    Raises:
        ValueError: a memory has no text to embed, or a vector is missing or of another shape.
    """
    timer = _PartTimer()
    t = {name: tables[name] if name in tables else empty(name) for name in _READ}
    memories = memory_rows(t)
    words, periods = score_words(memories), find_periods(memories)
    timer.record("words")  # the rest of a large index is made while other processes go on with these
    out = {"scopes": scope_table(memories)}
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
    out |= word_tables(memories, words)
    out["periods"] = period_table(periods)
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
)


class _PartTimer:
    """Seconds of each part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def record(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name], self._last = now - self._last, now
