"""Stage `embeddings`: a vector for each text that the home's shared store has none for."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from palimpsest.build.stage import PreviousTable, Stage, StageContext, StageResult
from palimpsest.core.progress import progress
from palimpsest.memories.embed import load_embedder, vector_space
from palimpsest.memories.vector_store import embedding_store
from palimpsest.store.embeddings import EmbeddingStore
from palimpsest.store.home import Home
from palimpsest.store.manifest import Work

if TYPE_CHECKING:
    from palimpsest.memories.embed import Embedder

_COMMIT_EVERY = 4096  # texts: what a kill can cost


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    store, inputs = embedding_store(context.home), _embedded_texts(context)
    missing = inputs.filter(pl.col("text_hash").is_in(list(store.missing(inputs["text_hash"]))))
    numbers: dict[str, float] = {"load_model_s": 0.0, "texts_per_s": 0.0}
    if missing.height:
        started = time.perf_counter()
        embedder = load_embedder()
        numbers["load_model_s"] = time.perf_counter() - started
        started = time.perf_counter()
        _embed(embedder, store, missing)
        numbers["texts_per_s"] = missing.height / (time.perf_counter() - started)
    store.compact()
    numbers |= {"texts": inputs.height, "reused": inputs.height - missing.height}
    return StageResult({}, Work(embeddings=missing.height), numbers)


def _embedded_texts(context: StageContext) -> pl.DataFrame:
    """Returns (text, text_hash) of all that has a vector, once each, by hash."""
    inputs = [context.table(t).select("text", "text_hash") for t in ("embed_inputs", "context_inputs")]
    return pl.concat(inputs).filter(pl.col("text_hash").is_not_null()).unique("text_hash", keep="any").sort("text_hash")


def _embed(embedder: "Embedder", store: EmbeddingStore, missing: pl.DataFrame) -> None:
    hashes, texts = missing["text_hash"].to_list(), missing["text"].to_list()
    waiting: list[tuple[list[int], np.ndarray]] = []

    def commit() -> None:
        if waiting:
            rows = [i for batch, _ in waiting for i in batch]
            store.append([hashes[i] for i in rows], np.concatenate([v for _, v in waiting]))
            waiting.clear()

    with progress("embed", len(texts), "texts") as advance:

        def add(batch: list[int], vectors: np.ndarray) -> None:
            waiting.append((batch, vectors))
            advance(len(batch))
            if sum(len(b) for b, _ in waiting) >= _COMMIT_EVERY:
                commit()

        embedder.encode(texts, add)
    commit()


def _missing_from(context: StageContext, home: Home) -> set[str]:
    return embedding_store(home).missing(_embedded_texts(context)["text_hash"])


def _is_intact(context: StageContext) -> bool:
    """Whether the store still has every vector: it is shared, and not part of a build."""
    return not _missing_from(context, context.home)


def _estimate(context: StageContext, home: Home) -> Mapping[str, int]:
    return {"embeddings": len(_missing_from(context, home))}


STAGE = Stage(
    name="embeddings",
    description="A vector for each text not seen before; texts with a vector in the shared store are not computed "
    "again.",
    group="memories",
    kinds=("parquet", "huggingface"),
    reads=("embed_inputs", "context_inputs"),
    writes=(),
    run=_run,
    environment=vector_space,
    is_intact=_is_intact,
    estimate=_estimate,
)
