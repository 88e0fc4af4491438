"""Stage `relations`: candidate pairs labelled."""

from palimpsest.build.stage import Digest, PreviousTable, Reference, Stage, StageContext, StageResult, Table
from palimpsest.relations.classify.choose_labeler import build_labeler, labeler_key
from palimpsest.relations.classify.label_pairs import label_pairs
from palimpsest.store.manifest import Work


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    # A relation names its program, so that answers of an earlier build are valid although this stage's code changed.
    earlier = context.base.table(context.name, "relations") if context.base else None
    labeler = build_labeler(context.home, context.max_cost)
    pairs, memories = context.table("candidate_pairs"), context.table("memories")
    relations, usage = label_pairs(pairs, memories, labeler, earlier, context.decisions)
    if usage["lm_failures"]:
        from palimpsest.relations.classify.lm.check_answers import check_answers

        check_answers(relations, context.home)
    return StageResult({"relations": relations}, Work(lm_calls=int(usage.get("lm_calls", 0))), dict(usage))


STAGE = Stage(
    name="relations",
    description="Each candidate pair labelled UPDATE, EXTEND, DERIVE or NONE, with confidence and evidence.",
    group="relations",
    kinds=("parquet", "python"),
    reads=("memories", "candidate_pairs"),
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
