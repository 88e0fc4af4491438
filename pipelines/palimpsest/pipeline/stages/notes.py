"""Stage `notes`: what each conversation session says that is worth keeping, where a collection forms memories of it."""

from palimpsest.formation.note_table import NoteInputs, form_with_summaries, note_table
from palimpsest.formation.sentence_model import sentence_model_key
from palimpsest.pipeline.stage import Digest, PreviousTable, Reference, Stage, StageContext, StageResult, Table
from palimpsest.store.manifest import Work
from palimpsest.store.tables import empty

_READS = ("documents", "document_texts", "chunks")


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    if not context.config.reflects:
        return StageResult({"notes": empty("notes")})
    if _is_read_by_lm(context) and not context.is_dry_run:
        from palimpsest.formation.reflection import lm_notes

        with_rules = context.config.reflection == "both"
        notes, paid = lm_notes(note_inputs(context), context.home, context.budget, with_rules)
    else:
        earlier = (previous("chunks"), previous("notes")) if previous else None
        notes, paid = note_table(note_inputs(context), form_with_summaries, earlier), {}
    numbers = {"sessions_read": float(notes.sessions_read), "dropped": float(notes.dropped.total()), **paid}
    return StageResult({"notes": notes.table}, Work(lm_calls=int(paid.get("lm_calls", 0))), numbers)


def note_inputs(context: StageContext) -> NoteInputs:
    """Returns the tables that notes are formed from."""
    return NoteInputs(*(context.table(t) for t in _READS))


def _is_read_by_lm(context: StageContext) -> bool:
    return context.config.reflects and context.config.reflection != "rules"


def _settings(context: StageContext) -> object:
    """Returns whether notes are formed, and by which language model; the code of rules is part of the key."""
    if not _is_read_by_lm(context) or context.is_dry_run:
        return context.config.reflects
    from palimpsest.formation.reflection import reflection_key

    return context.config.reflection, reflection_key()


STAGE = Stage(
    name="notes",
    description="Facts, preferences, decisions, inferences and open questions of conversations, with their evidence.",
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
    settings=_settings,
    environment=sentence_model_key,
    on_delete="remove_rows",
    in_dry_run=True,
)
