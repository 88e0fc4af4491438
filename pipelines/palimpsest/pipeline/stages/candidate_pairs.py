"""Stage `candidate_pairs`: pairs of memories that may be related."""

import polars as pl

from palimpsest.core.ids import content_id
from palimpsest.memories.embedders import memory_vectors
from palimpsest.memories.formed import model_memories, stated_memories
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


def _inputs(table: PreviousTable) -> list[CandidateInputs]:
    """Returns what candidates are found in: stated memories, and apart from them what a language model formed.

    What rules formed would only double its evidence.
    """
    memories, *others = (table(t) for t in _READS)
    return [CandidateInputs(of(memories), *others) for of in (stated_memories, model_memories)]


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    before = _inputs(previous) if previous else None
    found = []
    for n, inputs in enumerate(_inputs(context.table)):
        earlier = None
        if previous and before:
            own = before[n].memories.select(newer_id="memory_id")
            earlier = PreviousCandidates(before[n], previous("candidate_pairs").join(own, on="newer_id", how="semi"))
        as_newer, as_older = change_vectors(memory_vectors(context.home, inputs.memories, inputs.embed_inputs))
        found.append(candidate_pairs(inputs, as_newer, earlier, as_older, _limits()))
    return StageResult({"candidate_pairs": pl.concat(found).sort("newer_id", "older_id")})


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
