"""Stage `entities`: names in the memories, resolved inside a scope."""

from palimpsest.entities.entity_tables import entity_tables
from palimpsest.entities.spacy_names import pipeline_version
from palimpsest.memories.formed import stated_memories
from palimpsest.pipeline.stage import Digest, PreviousTable, Reference, Stage, StageContext, StageResult, Table


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    memories, documents = stated_memories(context.table("memories")), context.table("documents")
    earlier = previous("surfaces") if previous else None
    return StageResult(entity_tables(memories, documents, earlier, context.config.ner, context.decisions))


def _settings(context: StageContext) -> object:
    ner = context.config.ner
    return (pipeline_version(ner) if ner else "", context.decisions.names_key)


_OF_MEMORY, _OF_ENTITY = Reference("memory_id", ("memories",)), Reference("entity_id", ("entities",))

STAGE = Stage(
    name="entities",
    description="Names of people, places, projects and products, and where each is mentioned, resolved inside a scope.",
    group="memories",
    reads=("memories", "documents"),
    writes=(
        Table("entities", key=("entity_id",), digest=Digest()),
        Table("mentions", references=(_OF_MEMORY, _OF_ENTITY), digest=Digest()),
        Table(
            "merges",
            references=(_OF_ENTITY, _OF_MEMORY, Reference("document_id", ("documents",))),
            is_indexed=False,
        ),
        Table("surfaces", references=(_OF_MEMORY,), is_indexed=False),
    ),
    run=_run,
    settings=_settings,
)
