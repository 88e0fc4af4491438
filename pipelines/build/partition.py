"""One collection of one build in the making: where its stages read and write."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from palimpsest.memories.vector_store import embedding_store
from palimpsest.store.builds import Build
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.decisions import Decisions
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog


@dataclass(frozen=True)
class Partition:
    """One collection of one build in the making: what a stage runs on."""

    home: Home
    build: Build
    base: Build | None
    config: CollectionConfig
    folder: Path
    decisions: Decisions
    max_cost: float | None = None
    allow_removals: bool = False

    @property
    def name(self) -> str:
        """The collection's name."""
        return self.config.name

    @property
    def log(self) -> IngestLog:
        """The collection's ingest log."""
        return IngestLog(self.home.log / self.name)

    def table(self, name: str) -> pl.DataFrame:
        """Returns a table of the build in the making."""
        return self.build.table(self.name, name)

    def memory_vectors(self, memories: pl.DataFrame) -> np.ndarray:
        """Returns one unit vector for each memory, shape (n, 384): of its text, or the mean of its windows."""
        inputs = self.table("embed_inputs")
        vectors = embedding_store(self.home).vectors(inputs["text_hash"].to_list())
        rows = (
            inputs.select("memory_id", "ordinal")
            .with_row_index("at")
            .join(memories.select("memory_id").with_row_index("row"), on="memory_id", how="inner")
            .sort("row", "ordinal")
        )
        row, at = rows["row"].to_numpy(), rows["at"].to_numpy()
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        if len(starts) != memories.height:
            raise KeyError("embed_inputs: a memory has nothing to embed")
        out = vectors[at[starts]]
        if len(more := np.setdiff1d(np.arange(len(at)), starts, assume_unique=True)):
            np.add.at(out, row[more], vectors[at[more]])
            several = np.unique(row[more])
            out[several] /= np.maximum(np.linalg.norm(out[several], axis=1, keepdims=True), 1e-9)
        return out
