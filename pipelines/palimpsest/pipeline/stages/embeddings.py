"""Stage `embeddings`: a vector for each text that the home's shared stores have none for."""

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from palimpsest.core.files import progress
from palimpsest.core.parallel import configured_runner
from palimpsest.memories.embed import vector_space
from palimpsest.memories.embedders import embedding_store, load_batch_embedder, minilm_space
from palimpsest.memories.server_embedder import PREFIX, ServerEmbedder
from palimpsest.memories.text_batches import DistributedEmbedder
from palimpsest.memories.vector_space import BatchEmbedder, Space
from palimpsest.pipeline.stage import PreviousTable, Stage, StageContext, StageResult, Table
from palimpsest.store.embeddings import EmbeddingStore
from palimpsest.store.home import Home
from palimpsest.store.manifest import Work
from palimpsest.store.tables import SCHEMAS

_COMMIT_EVERY_S = 5.0  # what a kill can cost


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    embedded = 0
    numbers: dict[str, float] = {"load_model_s": 0.0, "texts_per_s": 0.0, "texts": 0, "reused": 0}
    for space, inputs in _texts_by_space(context):
        store = embedding_store(context.home, space)
        missing = inputs.filter(pl.col("text_hash").is_in(list(store.missing(inputs["text_hash"]))))
        if missing.height:
            _embed_missing(space, store, missing, numbers)
        store.compact()
        embedded += missing.height
        numbers["texts"] += inputs.height
        numbers["reused"] += inputs.height - missing.height
    return StageResult({"vector_spaces": _space_row(context)}, Work(embeddings=embedded), numbers)


def _space_row(context: StageContext) -> pl.DataFrame:
    space = context.space
    row = (context.name, space.embedder, space.name, space.dimensions)
    return pl.DataFrame([row], schema=SCHEMAS["vector_spaces"], orient="row")


def _texts_by_space(context: StageContext) -> list[tuple[Space, pl.DataFrame]]:
    """Returns (text, text_hash) of all that has a vector, once each, by hash, for each space.

    Candidate pairs and topics compare memories in MiniLM's space, whichever the collection is searched with: their
    thresholds, and the labeler, were tuned on it.
    """
    minilm, searched = minilm_space(), context.space
    if minilm == searched:
        return [(minilm, _texts(context, "embed_inputs", "context_inputs"))]
    return [(searched, _texts(context, "embed_inputs", "context_inputs")), (minilm, _texts(context, "embed_inputs"))]


def _texts(context: StageContext, *tables: str) -> pl.DataFrame:
    inputs = pl.concat([context.table(t).select("text", "text_hash") for t in tables])
    return inputs.filter(pl.col("text_hash").is_not_null()).unique("text_hash", keep="any").sort("text_hash")


def _embed_missing(space: Space, store: EmbeddingStore, missing: pl.DataFrame, numbers: dict[str, float]) -> None:
    started = time.perf_counter()
    embedder = _embedder(space)
    if isinstance(embedder, ServerEmbedder):
        embedder.usage = replace(embedder.usage, calls=0, tokens=0)  # of other collections
    numbers["load_model_s"] += time.perf_counter() - started
    started = time.perf_counter()
    _embed(embedder, store, missing)
    if isinstance(embedder, ServerEmbedder):
        numbers |= embedder.usage.numbers()
    # Of two spaces the slower one decides how long a build takes.
    rate = missing.height / (time.perf_counter() - started)
    numbers["texts_per_s"] = min(rate, numbers["texts_per_s"] or rate)


def _embedder(space: Space) -> BatchEmbedder:
    embedder, runner = load_batch_embedder(space), configured_runner()
    # A server embeds elsewhere already, and its key stays in this process.
    return embedder if runner is None or space.embedder.startswith(PREFIX) else DistributedEmbedder(space, runner)


def _embed(embedder: BatchEmbedder, store: EmbeddingStore, missing: pl.DataFrame) -> None:
    hashes, texts = missing["text_hash"].to_list(), missing["text"].to_list()
    waiting: list[tuple[list[int], np.ndarray]] = []
    committed = time.monotonic()

    def commit() -> None:
        nonlocal committed
        committed = time.monotonic()
        if waiting:
            rows = [i for batch, _ in waiting for i in batch]
            store.append([hashes[i] for i in rows], np.concatenate([v for _, v in waiting]))
            waiting.clear()

    with progress("embed", len(texts), "texts") as advance:

        def add(batch: list[int], vectors: np.ndarray) -> None:
            waiting.append((batch, vectors))
            advance(len(batch))
            if time.monotonic() - committed >= _COMMIT_EVERY_S:
                commit()

        try:
            embedder.encode(texts, add)
        finally:
            commit()  # what a server was paid for is kept


def _missing_from(context: StageContext, home: Home) -> int:
    by_space = _texts_by_space(context)
    return sum(len(embedding_store(home, space).missing(texts["text_hash"])) for space, texts in by_space)


def _is_intact(context: StageContext) -> bool:
    """Whether the stores still have every vector: they are shared, and not part of a build."""
    return not _missing_from(context, context.home)


def _estimate(context: StageContext, home: Home) -> Mapping[str, int]:
    return {"embeddings": _missing_from(context, home)}


STAGE = Stage(
    name="embeddings",
    description="A vector for each text not seen before; texts with a vector in the shared stores are not computed "
    "again.",
    group="memories",
    kinds=("parquet", "huggingface"),
    reads=("embed_inputs", "context_inputs"),
    writes=(Table("vector_spaces", key=("collection",), is_indexed=False),),
    run=_run,
    settings=lambda context: context.space.name,
    environment=vector_space,
    is_intact=_is_intact,
    estimate=_estimate,
)
