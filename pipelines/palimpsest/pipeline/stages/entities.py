"""Stage `entities`: names in the memories, resolved inside a scope."""

from palimpsest.entities.entity_tables import entity_tables
from palimpsest.entities.spacy_names import pipeline_version
from palimpsest.facts.fact_tables import RULES
from palimpsest.memories.formed import stated_memories
from palimpsest.pipeline.stage import Digest, PreviousTable, Reference, Stage, StageContext, StageResult, Table
from palimpsest.store.manifest import Work


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    memories, documents = stated_memories(context.table("memories")), context.table("documents")
    earlier = previous("surfaces") if previous else None
    stated, numbers = list[tuple[str, int, int, str]](), dict[str, float]()
    if context.config.facts != RULES:
        from palimpsest.facts.lm_facts import lm_names

        stated, numbers = lm_names(memories, context.home, context.budget)
    tables = entity_tables(memories, documents, earlier, context.config.ner, context.decisions, stated)
    return StageResult(tables, Work(lm_calls=int(numbers.get("lm_calls", 0))), numbers)


def _settings(context: StageContext) -> object:
    ner = context.config.ner
    settings = (pipeline_version(ner) if ner else "", context.decisions.names_key)
    if context.config.facts == RULES:
        return settings
    from palimpsest.facts.lm_facts import lm_key

    return (*settings, lm_key())


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
