"""Stage `topics`: phrases above entities and memories."""

from palimpsest.entities.topics import build_topics
from palimpsest.memories.embed import vector_space
from palimpsest.memories.embedders import memory_vectors
from palimpsest.memories.formed import stated_memories
from palimpsest.pipeline.stage import Digest, PreviousTable, Reference, Stage, StageContext, StageResult, Table


def _run(context: StageContext, previous: PreviousTable | None) -> StageResult:
    memories = stated_memories(context.table("memories"))
    vectors = memory_vectors(context.home, memories, context.table("embed_inputs"))
    topics, edges, relevances = build_topics(memories, context.table("documents"), vectors, context.table("entities"))
    return StageResult({"topics": topics, "topic_edges": edges, "topic_memories": relevances})


_ENDS = ("topics", "entities")

STAGE = Stage(
    name="topics",
    description="Phrases that the texts use and that cover what they mean, broad ones above others, and what each "
    "memory holds.",
    group="memories",
    reads=("memories", "documents", "embed_inputs", "entities"),
    after=("embeddings",),
    writes=(
        Table("topics", key=("topic_id",), digest=Digest()),
        Table("topic_edges", references=(Reference("source_id", _ENDS), Reference("target_id", _ENDS))),
        Table(
            "topic_memories",
            key=("topic_id", "memory_id"),
            references=(Reference("memory_id", ("memories",)), Reference("topic_id", ("topics",))),
        ),
    ),
    run=_run,
    environment=vector_space,
)
