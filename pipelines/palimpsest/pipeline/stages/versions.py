"""Stage `versions`: which memory is latest, derived from memories and relations."""

from palimpsest.core.files import say
from palimpsest.pipeline.stage import Digest, PreviousTable, Reference, Stage, StageContext, StageResult, Table
from palimpsest.relations.versions import decided_memories, refusal_lines, refused_replacements, versions

_MAX_SHOWN = 5
_READS = ("memories", "relations", "documents", "document_relations")


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    memories, relations, documents, document_relations = (context.table(t) for t in _READS)
    frame = versions(memories, relations, documents, document_relations, context.decisions)
    refused = refused_replacements(memories, documents, document_relations)
    for line in refusal_lines(refused.head(_MAX_SHOWN)):
        say(line)
    numbers = {"retired": float((~frame["is_latest"]).sum()), "refused_replacements": float(refused.height)}
    decided = decided_memories(memories, context.decisions)
    return StageResult({"versions": frame, "decided_memories": decided}, numbers=numbers)


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
        Table(
            "decided_memories",
            key=("memory_id",),
            references=(Reference("memory_id", ("memories",)),),
            digest=Digest(columns=("memory_id", "confidence"), unless_empty=True),
        ),
    ),
    run=_run,
    settings=lambda context: context.decisions.key,
)
