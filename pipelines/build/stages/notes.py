"""Stage `notes`: what each conversation session says that is worth keeping, where a collection forms memories of it."""

from palimpsest.build.stage import Digest, PreviousTable, Reference, Stage, StageContext, StageResult, Table
from palimpsest.formation.note_table import NoteInputs, note_table
from palimpsest.formation.rules import form_items
from palimpsest.store.tables import empty

_READS = ("documents", "document_texts", "chunks")


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    if not context.config.reflects:
        return StageResult({"notes": empty("notes")})
    earlier = (previous("chunks"), previous("notes")) if previous else None
    notes = note_table(NoteInputs(*(context.table(t) for t in _READS)), form_items, earlier)
    numbers = {"sessions_read": float(notes.sessions_read), "dropped": float(notes.dropped.total())}
    return StageResult({"notes": notes.table}, numbers=numbers)


STAGE = Stage(
    name="notes",
    description="Facts, preferences, decisions, solutions and open questions of conversations, with their evidence.",
    group="memories",
    kinds=("parquet", "python"),
    reads=_READS,
    writes=(
        Table(
            "notes",
            key=("item_id",),
            references=(Reference("document_id", ("documents",)), Reference("chunk_ids", ("chunks",))),
            removed_by={"document_id": "document", "chunk_ids": "chunk"},
            has_spans=True,
            digest=Digest(columns=("item_id",), unless_empty=True),
        ),
    ),
    run=_run,
    settings=lambda context: context.config.reflects,
    on_delete="remove_rows",
    in_dry_run=True,
)
