"""Stage `facts`: what memories state of the entities they name, with the time in which it is valid."""

from palimpsest.build.stage import Digest, PreviousTable, Reference, Stage, StageContext, StageResult, Table
from palimpsest.facts.fact_tables import FactInputs, clause_facts, facts, speakers


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    memories = context.table("memories")
    now = FactInputs(memories, context.table("mentions"), context.table("entities"))
    earlier = FactInputs(*(previous(t) for t in ("memories", "mentions", "entities"))) if previous else None
    clauses = clause_facts(now, earlier, previous("clause_facts") if previous else None)
    return StageResult(
        {
            "clause_facts": clauses,
            "facts": facts(clauses, context.table("versions"), memories),
            "speakers": speakers(clauses, now.entities, memories),
        }
    )


_OF_MEMORY = Reference("memory_id", ("memories",))
_NAMED = ("entities", "speakers")
_ENTITIES = (Reference("subject_id", _NAMED), Reference("object_id", _NAMED))

STAGE = Stage(
    name="facts",
    description="What memories state of the people, places and things they name, with its time and its evidence.",
    group="graph",
    kinds=("parquet", "python"),
    reads=("memories", "entities", "mentions", "versions"),
    writes=(
        Table("clause_facts", references=(_OF_MEMORY, *_ENTITIES), is_indexed=False),
        Table("speakers", key=("entity_id",), references=(Reference("memory_ids", ("memories",)),)),
        Table(
            "facts",
            key=("fact_id",),
            references=(*_ENTITIES, Reference("memory_ids", ("memories",))),
            digest=Digest(unless_empty=True),
        ),
    ),
    run=_run,
)
