"""Stage `candidate_pairs`: pairs of memories that may be related."""

from palimpsest.core.ids import content_id
from palimpsest.memories.embedders import memory_vectors
from palimpsest.memories.formed import stated_memories
from palimpsest.pipeline.stage import PreviousTable, Reference, Stage, StageContext, StageResult, Table
from palimpsest.relations.candidates import (
    FOR_LM,
    CandidateInputs,
    Limits,
    PreviousCandidates,
    candidate_pairs,
    candidate_space,
    change_vectors,
)
from palimpsest.relations.labelers.choose_labeler import configured_labeler

_READS = ("memories", "embed_inputs", "mentions", "documents")


def _inputs(table: PreviousTable) -> CandidateInputs:
    """Returns what candidates are found in: formed memories would only double their evidence."""
    memories, *others = (table(t) for t in _READS)
    return CandidateInputs(stated_memories(memories), *others)


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    inputs = _inputs(context.table)
    earlier = None
    if previous:
        earlier = PreviousCandidates(_inputs(previous), previous("candidate_pairs"))
    vectors = memory_vectors(context.home, inputs.memories, inputs.embed_inputs)
    as_newer, as_older = change_vectors(vectors)
    pairs = candidate_pairs(inputs, as_newer, earlier, as_older, _limits())
    return StageResult({"candidate_pairs": pairs})


def _limits() -> Limits | None:
    return None if configured_labeler() == "offline" else FOR_LM


def _environment() -> str:
    return candidate_space() if (limits := _limits()) is None else content_id(candidate_space(), str(limits))


STAGE = Stage(
    name="candidate_pairs",
    description="For each memory, the few older ones of its scope that it may update, extend or derive from.",
    group="relations",
    reads=_READS,
    after=("embeddings",),
    writes=(
        Table(
            "candidate_pairs",
            references=(Reference("newer_id", ("memories",)), Reference("older_id", ("memories",))),
        ),
    ),
    run=_run,
    environment=_environment,
)
