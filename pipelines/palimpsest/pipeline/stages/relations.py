"""Stage `relations`: candidate pairs labelled, and the premises of conclusions that no pair names."""

import polars as pl

from palimpsest.formation.statement_relations import add_formation, add_statement_updates, without_formation
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
    labeler = offline_labeler() if context.is_dry_run else build_labeler(context.home, context.budget)
    pairs, everything = context.table("candidate_pairs"), context.table("memories")
    memories = stated_memories(everything)
    labelled = unfinished.read() if earlier is None else pl.concat([without_premises(earlier), unfinished.read()])
    labels, usage = label_pairs(pairs, everything, labeler, labelled, context.decisions, unfinished.add)
    if usage["lm_failures"]:
        from palimpsest.relations.labelers.lm_labeler import check_answers

        check_answers(labels, context.home)
    of_stated = _among(labels, memories)
    before = None
    if previous is not None:
        stated_before = stated_memories(previous("memories"))
        relations_before = _among(without_formation(previous("relations")), stated_before)
        before = PremiseInputs(relations_before, stated_before, previous("documents"))
    inputs = PremiseInputs(of_stated, memories, context.table("documents"))
    relations = add_premises(inputs, context.decisions, before)
    relations = pl.concat([relations, labels.join(of_stated, on="relation_id", how="anti")])
    usage |= label_counts(relations)
    relations = add_formation(add_statement_updates(relations, everything, context.decisions), everything)
    return StageResult({"relations": relations}, Work(lm_calls=int(usage.get("lm_calls", 0))), dict(usage))


def _among(relations: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns the relations between some memories."""
    newer = memories.select(newer_id="memory_id")
    return relations.join(newer, on="newer_id", how="semi", maintain_order="left")


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
