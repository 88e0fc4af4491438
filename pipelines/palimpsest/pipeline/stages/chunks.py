"""Stage `chunks`: documents cut into spans."""

from collections.abc import Mapping

from palimpsest.memories.chunks import chunk_table
from palimpsest.pipeline.stage import Digest, PreviousTable, Reference, Stage, StageContext, StageResult, Table
from palimpsest.store.home import Home


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    earlier = (previous("documents"), previous("document_texts"), previous("chunks")) if previous else None
    documents, texts = context.table("documents"), context.table("document_texts")
    return StageResult({"chunks": chunk_table(documents, texts, context.config, earlier)})


def _estimate(context: StageContext, home: Home) -> Mapping[str, int]:
    chunks = context.table("chunks")
    return {"chunks": chunks.height, "tokens": int(chunks["token_count"].sum())}


STAGE = Stage(
    name="chunks",
    description="Spans of the documents with exact offsets, heading, page and speaker: what citations point at.",
    group="sources",
    reads=("documents", "document_texts"),
    writes=(
        Table(
            "chunks",
            key=("chunk_id",),
            references=(Reference("document_id", ("documents",)),),
            removed_by={"document_id": "document", "chunk_id": "chunk"},
            has_spans=True,
            digest=Digest(skipped=("stated",)),
        ),
    ),
    run=_run,
    settings=lambda context: context.config.unit,
    on_delete="remove_rows",
    in_dry_run=True,
    estimate=_estimate,
)
