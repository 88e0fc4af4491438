"""Stage `facts`: what memories state of the entities they name, with the time in which it is valid."""

from palimpsest.facts.fact_tables import LM, RULES, FactInputs, clause_facts, facts, join_extractors, speakers
from palimpsest.memories.formed import stated_memories
from palimpsest.pipeline.stage import Digest, PreviousTable, Reference, Stage, StageContext, StageResult, Table
from palimpsest.relations.versions import ended_parts
from palimpsest.store.manifest import Work
from palimpsest.store.tables import empty


def _inputs(table: PreviousTable) -> FactInputs:
    """Returns what facts are read in: formed memories would only double their evidence."""
    return FactInputs(stated_memories(table("memories")), table("mentions"), table("entities"), table("documents"))


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    now = _inputs(context.table)
    memories = now.memories
    earlier = _inputs(previous) if previous else None
    read_by, numbers = context.config.facts, dict[str, float]()
    clauses, entities = empty("clause_facts"), empty("stated_entities")
    if read_by != LM:
        clauses = clause_facts(now, earlier, previous("clause_facts") if previous else None)
    if read_by != RULES:
        from palimpsest.facts.lm_facts import lm_clause_facts

        by_lm, entities, numbers = lm_clause_facts(now, context.home)
        clauses = join_extractors(clauses, by_lm)
    ended = ended_parts(memories, context.table("relations"), context.table("documents"))
    return StageResult(
        {
            "clause_facts": clauses,
            "stated_entities": entities,
            "facts": facts(clauses, context.table("versions"), memories, ended),
            "speakers": speakers(clauses, now.entities, memories),
        },
        Work(lm_calls=int(numbers.get("lm_calls", 0))),
        numbers,
    )


def _settings(context: StageContext) -> object:
    """Returns what reads the facts; empty for rules, whose code is part of the key."""
    if context.config.facts == RULES:
        return ""
    from palimpsest.facts.lm_facts import lm_key

    return context.config.facts, lm_key()


_OF_MEMORY = Reference("memory_id", ("memories",))
_NAMED = ("entities", "speakers")
_ENTITIES = (Reference("subject_id", _NAMED), Reference("object_id", _NAMED))

STAGE = Stage(
    name="facts",
    description="What memories state of the people, places and things they name, with its time and its evidence.",
    group="graph",
    kinds=("parquet", "python"),
    reads=("memories", "entities", "mentions", "relations", "documents", "versions"),
    writes=(
        Table("clause_facts", references=(_OF_MEMORY, *_ENTITIES), is_indexed=False),
        Table(
            "stated_entities",
            key=("memory_id", "entity_id"),
            references=(_OF_MEMORY, Reference("entity_id", _NAMED)),
            is_indexed=False,
        ),
        Table("speakers", key=("entity_id",), references=(Reference("memory_ids", ("memories",)),)),
        Table(
            "facts",
            key=("fact_id",),
            references=(*_ENTITIES, Reference("memory_ids", ("memories",))),
            digest=Digest(unless_empty=True),
        ),
    ),
    run=_run,
    settings=_settings,
)
