"""Stage `memories`: the units of retrieval, and the texts that are embedded for them."""

from collections.abc import Mapping

import polars as pl

from palimpsest.entities.collection_shape import strategy_for
from palimpsest.formation.note_table import promoted_memories
from palimpsest.memories.boilerplate import BOILERPLATE, find_boilerplate, set_apart
from palimpsest.memories.form import context_inputs, embed_inputs, form_memories
from palimpsest.memories.languages import memory_languages
from palimpsest.pipeline.stage import Digest, PreviousTable, Reference, Stage, StageContext, StageResult, Table
from palimpsest.store.builds import published
from palimpsest.store.home import Home


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    config = context.config
    earlier = (previous("memories"), previous("embed_inputs")) if previous else None
    memories, inputs = form_memories(context.table("documents"), context.table("chunks"), config, earlier)
    earlier_contexts = previous("context_inputs") if previous else None
    recurring = find_boilerplate(memories, context.table("documents"))
    memories = set_apart(memories, recurring)
    stated = memories
    if config.reflects:
        formed = promoted_memories(context.table("notes"), memories, config.promote)
        memories = pl.concat([memories, formed]).sort("memory_id")
        inputs = pl.concat([inputs, embed_inputs(formed)]).sort("memory_id", "ordinal")
    memories = memory_languages(memories, context.table("chunks"), earlier[0] if earlier else None)
    contexts = context_inputs(stated, strategy_for(stated), config.profile == "full", earlier_contexts)
    tables = {"memories": memories, "embed_inputs": inputs, "context_inputs": contexts}
    return StageResult(tables, numbers={BOILERPLATE: float(recurring.height)})


def _settings(context: StageContext) -> object:
    config = context.config
    promoted = (config.promote,) if config.reflects else ()
    return config.unit, config.retention_days, config.profile, config.trust.model_dump_json(), *promoted


def _estimate(context: StageContext, home: Home) -> Mapping[str, int]:
    """Counts memories that are new, and latest ones of the published build that would be retired or deleted."""
    current, name, memories = published(home), context.name, context.table("memories")
    if current is None or name not in current.collections:
        return {"memories": memories.height, "removed_memories": 0, "deleted_memories": 0}
    known = current.table(name, "memories")
    latest = current.table(name, "versions").filter("is_latest").select("memory_id")
    lost = known.join(latest, on="memory_id", how="semi").join(memories, on="memory_id", how="anti")
    deletes_all = context.config.on_removed == "delete"
    deleted = lost if deletes_all else lost.filter(pl.col("retention_until") <= context.now)
    return {
        "memories": memories.join(known, on="memory_id", how="anti").height,
        "removed_memories": lost.height - deleted.height,
        "deleted_memories": deleted.height,
    }


_OF_MEMORY = (Reference("memory_id", ("memories",)),)

STAGE = Stage(
    name="memories",
    description="One memory for each chunk, turn or statement, and for items of notes: what is embedded, searched by "
    "words, related and versioned.",
    group="memories",
    kinds=("parquet", "polars"),
    reads=("documents", "chunks", "notes"),
    writes=(
        Table(
            "memories",
            key=("memory_id",),
            references=(Reference("document_id", ("documents",)), Reference("chunk_ids", ("chunks",))),
            removed_by={"memory_id": "memory"},
            has_spans=True,
            digest=Digest(
                skipped=("provenance", "kind", "importance_source", "confidence_source", "language"),
                unless={"pii": False, "user_visible": True},
                with_project=True,
            ),
        ),
        Table(
            "embed_inputs",
            key=("memory_id", "kind", "ordinal"),
            references=_OF_MEMORY,
            removed_by={"memory_id": "memory"},
        ),
        Table(
            "context_inputs",
            key=("memory_id", "kind", "ordinal"),
            references=_OF_MEMORY,
            removed_by={"memory_id": "memory"},
        ),
    ),
    run=_run,
    settings=_settings,
    on_delete="remove_rows",
    in_dry_run=True,
    estimate=_estimate,
)
