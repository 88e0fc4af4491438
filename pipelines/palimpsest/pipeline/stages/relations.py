"""Stage `relations`: candidate pairs labelled, and the premises of conclusions that no pair names."""

import polars as pl

from palimpsest.formation.note_table import add_formation, without_formation
from palimpsest.memories.formed import stated_memories
from palimpsest.pipeline.stage import Digest, PreviousTable, Reference, Stage, StageContext, StageResult, Table
from palimpsest.relations.labelers.choose_labeler import build_labeler, labeler_key
from palimpsest.relations.labelers.label_pairs import label_pairs
from palimpsest.relations.labelers.offline_labeler import offline_labeler
from palimpsest.relations.premise_relations import PremiseInputs, add_premises, label_counts, without_premises
from palimpsest.store.manifest import Work


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    # A relation names its program, so that answers of an earlier build are valid although this stage's code changed.
    found = context.earlier_table("relations")
    earlier = None if found is None else without_formation(found)
    unfinished = context.build.unfinished(context.name, "relations")
    labeler = offline_labeler() if context.is_dry_run else build_labeler(context.home, context.max_cost)
    pairs, everything = context.table("candidate_pairs"), context.table("memories")
    memories = stated_memories(everything)
    labelled = unfinished.read() if earlier is None else pl.concat([without_premises(earlier), unfinished.read()])
    relations, usage = label_pairs(pairs, memories, labeler, labelled, context.decisions, unfinished.add)
    if usage["lm_failures"]:
        from palimpsest.relations.labelers.lm_labeler import check_answers

        check_answers(relations, context.home)
    before = None
    if previous is not None:
        relations_before = without_formation(previous("relations"))
        before = PremiseInputs(relations_before, stated_memories(previous("memories")), previous("documents"))
    inputs = PremiseInputs(relations, memories, context.table("documents"))
    relations = add_premises(inputs, context.decisions, before)
    usage |= label_counts(relations)
    relations = add_formation(relations, everything)
    return StageResult({"relations": relations}, Work(lm_calls=int(usage.get("lm_calls", 0))), dict(usage))


STAGE = Stage(
    name="relations",
    description="Candidate pairs labelled UPDATE, EXTEND, DERIVE or NONE, and DERIVE to every premise that is found.",
    group="relations",
    kinds=("parquet", "python"),
    reads=("memories", "candidate_pairs", "documents"),
    after=("offline_labeler",),
    writes=(
        Table(
            "relations",
            key=("relation_id",),
            references=(Reference("newer_id", ("memories",)), Reference("older_id", ("memories",))),
            digest=Digest(columns=("relation_id", "label")),
        ),
    ),
    run=_run,
    settings=lambda context: context.decisions.relations_key,
    environment=labeler_key,
)
