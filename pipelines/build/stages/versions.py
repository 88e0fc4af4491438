"""Stage `versions`: which memory is latest, derived from memories and relations."""

from palimpsest.build.stage import Digest, PreviousTable, Reference, Stage, StageContext, StageResult, Table
from palimpsest.relations.versions import versions

_READS = ("memories", "relations", "documents", "document_relations")


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    memories, relations, documents, document_relations = (context.table(t) for t in _READS)
    frame = versions(memories, relations, documents, document_relations, context.decisions)
    return StageResult({"versions": frame}, numbers={"retired": float((~frame["is_latest"]).sum())})


STAGE = Stage(
    name="versions",
    description="What is latest, when each memory was valid, and what replaced it: derived, never edited.",
    group="relations",
    reads=_READS,
    writes=(
        Table(
            "versions",
            key=("memory_id",),
            references=(
                Reference("memory_id", ("memories",)),
                Reference("superseded_by", ("memories",), may_dangle=True),
            ),
            digest=Digest(),
        ),
    ),
    run=_run,
    settings=lambda context: context.decisions.key,
)
