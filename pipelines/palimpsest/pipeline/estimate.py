"""What a build would do and cost, without doing it.

The cheap stages run on all of a changed collection, in a scratch home. The others run there on a few of its memories,
so that their rates are those of this machine, its load and these texts: first on very few, which loads the models.
Nothing of the home is changed, and no language model or server of embeddings is called.
"""

import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from palimpsest.core.files import quietly, say
from palimpsest.core.ids import JsonObject
from palimpsest.core.parallel import configured_runner
from palimpsest.memories.formed import stated_memories
from palimpsest.memories.server_embedder import PREFIX
from palimpsest.memories.vector_space import MINILM
from palimpsest.pipeline.finish import finish_staged
from palimpsest.pipeline.plan import make_plan, say_what_is_broken, stage_context
from palimpsest.pipeline.run_stage import run_stage
from palimpsest.pipeline.stage import StageContext
from palimpsest.pipeline.stages import STAGES, collection_stages
from palimpsest.pipeline.stages.notes import note_inputs
from palimpsest.relations.candidates import most_pairs
from palimpsest.relations.labelers.choose_labeler import configured_labeler, expected_calls
from palimpsest.store.builds import Build, published, staged
from palimpsest.store.embeddings import embedder_of, recorded_embedder
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.tables import completed

_COUNTS = (
    "files",
    "chunks",
    "tokens",
    "memories",
    "embeddings",
    "candidate_pairs",
    "lm_calls",
    "removed_sources",
    "removed_memories",
    "deleted_memories",
)


@dataclass(frozen=True)
class DryRun:
    """What a build would do: counts of what it reads and makes, and estimates of what follows.

    Attributes:
        changed: collections that would be built.
        counts: `files`, `chunks`, `tokens`, new `memories`, texts to embed (`embeddings`), `candidate_pairs`,
            `lm_calls`, `removed_sources`, `removed_memories`, `deleted_memories`.
        cost: money for labels, facts and reflection by an LM.
        seconds: wall time, at the load that the machine has now; the answers of a language model are not in it.
    """

    changed: tuple[str, ...]
    counts: dict[str, int]
    cost: float
    seconds: float

    def to_json(self) -> JsonObject:
        """Returns the JSON that `build --dry-run --json` prints."""
        return {"changed": list(self.changed), **self.counts, "cost": self.cost, "seconds": self.seconds}


def dry_run(home: Home, corpora: list[Path] | None, only: list[str] | None) -> DryRun:
    """Returns what a build would do: runs the cheap stages of changed collections, and the others on a sample.

    Args:
        home: the home; it is not changed.
        corpora: folders of collections; None means those of earlier builds.
        only: names of the collections to build; None means all.

    Raises:
        PalimpsestError: a collection is missing or cannot be read.
    """
    configured_runner()  # a wrong name is an error here as it is of the build
    started = time.perf_counter()
    plan = make_plan(home, corpora, only)
    say_what_is_broken(plan)
    if not plan.changed:
        return DryRun((), dict.fromkeys(_COUNTS, 0), 0.0, 0.0)
    current = published(home)
    with tempfile.TemporaryDirectory(prefix="palimpsest-dry-run-") as folder:
        scratch = Home(Path(folder) / "all", embedder=recorded_embedder(home), inbox_path=home.inbox, web_path=home.web)
        scratch.create()
        found = [_count(home, scratch, name, plan.collections[name], current) for name in plan.changed]
        reading = time.perf_counter() - started
        seconds = reading + _seconds_of_sample(found, Path(folder), current)
    counts: Counter[str] = Counter(dict.fromkeys(_COUNTS, 0))
    for collection in found:
        counts.update(collection.counts)
    # A build that the gate refused has paid for labels, too.
    last = staged(home) if staged(home).is_finished else current
    prior = [last.table(n, "relations") for n in plan.changed if n in last.collections] if last else []
    memories = sum(int((c.new["pairs"] > 0).sum()) for c in found)
    calls, cost = expected_calls(home, memories, pl.concat(prior) if prior else None)
    counts["lm_calls"] += calls
    cost += sum(c.cost for c in found)
    return DryRun(plan.changed, dict(counts), round(cost, 4), round(seconds, 1))


@dataclass(frozen=True)
class _Collection:
    """A changed collection as its cheap stages have it.

    Attributes:
        context: of the scratch home, with the tables of those stages.
        counts: of a dry run.
        cost: what facts and reflection by a language model may cost.
        new: (memory_id, pairs) of memories that the published build does not have.
    """

    context: StageContext
    counts: Counter[str]
    cost: float
    new: pl.DataFrame


def _count(home: Home, scratch: Home, name: str, folder: Path, current: Build | None) -> _Collection:
    IngestLog(home.log / name).copy_imported(IngestLog(scratch.log / name))
    context = replace(stage_context(scratch, name, folder), is_dry_run=True)
    for stage in STAGES.values():
        if stage.in_dry_run:
            run_stage(context, stage.name)
    counts: Counter[str] = Counter()
    for stage in STAGES.values():
        if stage.estimate:
            counts.update(stage.estimate(context, home))
    known = current.table(name, "memories") if current is not None and name in current.collections else None
    new = most_pairs(stated_memories(context.table("memories")), context.table("documents"))
    if known is not None:
        new = new.join(known, on="memory_id", how="anti")
    counts["candidate_pairs"] = int(new["pairs"].sum())
    calls, cost = _lm_calls(context, home, current)
    counts["lm_calls"] = calls
    return _Collection(context, counts, cost, new)


def _lm_calls(context: StageContext, home: Home, current: Build | None) -> tuple[int, float]:
    """Returns (calls, cost) of facts and reflection that a language model reads; none where rules do."""
    calls, cost, name = 0, 0.0, context.name
    if context.config.facts != "rules":
        from palimpsest.facts.lm_facts import expected_fact_calls

        is_known = current is not None and name in current.collections and was_read_by_lm(current, name)
        known = current.table(name, "memories") if current is not None and is_known else None
        calls, cost = expected_fact_calls(context.table("memories"), known)
    if context.config.reflects and context.config.reflection != "rules":
        from palimpsest.formation.reflection import expected_reflection_calls

        more_calls, more = expected_reflection_calls(note_inputs(context), home)
        calls, cost = calls + more_calls, cost + more
    return calls, cost


def was_read_by_lm(build: Build, name: str) -> bool:
    """Returns whether a language model read the facts of a collection in a build."""
    return bool(completed("clause_facts", build.table(name, "clause_facts"))["extractor"].eq("lm").any())


# The seconds of the other stages, from a sample of memories.

_SAMPLE = 60
"""Memories that are sampled, of all collections together."""
_FEW = 12
"""Memories that models are loaded with; the fewest of a collection are twice as many."""
_TOGETHER, _CHUNKS_TOGETHER = 12, 3
"""Memories of a document that are taken together: pairs of an undated text are inside it, those of chunks are not."""
_MAX_COLLECTIONS = 4
"""The largest; others are like them."""
_TAIL = "tail"

_Measured = Mapping[str, tuple[float, float]]
"""(units, seconds) of each stage, of all collections together."""


def _seconds_of_sample(found: list[_Collection], folder: Path, current: Build | None) -> float:
    """Returns the seconds of the stages that a dry run does not run on all, and of the tail."""
    work = sorted((c for c in found if c.new.height), key=lambda c: (-c.new.height, c.context.name))
    sampled = work[:_MAX_COLLECTIONS]
    if not sampled:
        return _tail_seconds(found, current)
    say(f"sample of {len(sampled)} of {len(found)} collections, for the rates of this machine")
    total = sum(c.new.height for c in sampled)
    sizes = [max(2 * _FEW, round(_SAMPLE * c.new.height / total)) for c in sampled]
    with quietly():
        first = _measure(sampled[:1], [_FEW], Home(folder / "first"))
        rest = _measure(sampled, sizes, Home(folder / "rest"))
    tail = _tail_seconds(found, current) if current else rest[_TAIL][1]
    seconds = tail
    for stage in rest.keys() - {_TAIL}:
        rate = rest[stage][1] / rest[stage][0] if rest[stage][0] else 0.0
        loading = max(first[stage][1] - rate * first[stage][0], 0.0)
        seconds += loading + rate * sum(_units(stage, c) for c in found)
    return seconds


def _units(stage: str, collection: _Collection) -> int:
    """Returns the number of things that the seconds of a stage grow with."""
    counted = {"embeddings": "embeddings", "relations": "candidate_pairs"}
    return collection.counts[counted[stage]] if stage in counted else collection.new.height


def _tail_seconds(found: list[_Collection], current: Build | None) -> float:
    """Returns the seconds of index and tail: those of the published build, for as many memories more."""
    if current is None:
        return 0.0
    manifest = current.manifest
    share = 1 + sum(c.new.height for c in found) / max(manifest.memories, 1)
    return float(share * (manifest.index["seconds"] + sum(manifest.tail_seconds.values())))


def _measure(sampled: list[_Collection], sizes: list[int], home: Home) -> _Measured:
    """Builds an index of a few memories of each collection in an empty home; returns what each stage took."""
    home.create()
    home.remember_sources({c.context.name: c.context.folder for c in sampled})
    units, seconds = Counter[str](), defaultdict[str, float](float)
    for collection, size in zip(sampled, sizes, strict=True):
        context = _sample_context(collection, size, home)
        for stage in collection_stages():
            if not stage.in_dry_run and not (stage.name == "relations" and configured_labeler() == "dspy"):
                record = run_stage(context, stage.name)
                seconds[stage.name] += record.seconds
                units[stage.name] += {
                    "embeddings": record.work.embeddings,
                    "relations": context.table("candidate_pairs").height,
                }.get(stage.name, context.table("memories").height)
    started = time.perf_counter()
    finish_staged(home)
    seconds[_TAIL] = time.perf_counter() - started
    return {stage: (units[stage], seconds[stage]) for stage in seconds}


def _sample_context(collection: _Collection, size: int, home: Home) -> StageContext:
    """Returns a context on an empty home that has the tables of some memories of a collection; it calls no server."""
    whole = collection.context
    settings = {"facts": "rules"}
    if embedder_of(whole.home, whole.config, whole.folder).startswith(PREFIX):
        settings["embedder"] = MINILM
    context = replace(
        whole,
        home=home,
        build=staged(home),
        base=None,
        collection_config=whole.config.model_copy(update=settings),
    )
    memories = _sampled_memories(whole.table("memories"), collection.new, size)
    for stage in STAGES.values():
        if stage.in_dry_run and (record := whole.build.record(whole.name, stage.name)):
            outputs = {
                t: context.build.write_table(whole.name, t, _of_memories(whole.table(t), memories))
                for t in stage.tables
            }
            context.build.write_record(whole.name, stage.name, replace(record, outputs=outputs))
    return context


def _sampled_memories(memories: pl.DataFrame, new: pl.DataFrame, size: int) -> pl.DataFrame:
    """Returns (memory_id, document_id) of new memories: runs of neighbors in a document, by their first id."""
    together = pl.when(pl.col("unit") == "chunk").then(_CHUNKS_TOGETHER).otherwise(_TOGETHER)
    return (
        memories.join(new, on="memory_id", how="semi")
        .sort("document_id", "ordinal", "memory_id")
        .with_columns(run=pl.int_range(pl.len()).over("document_id") // together)
        .with_columns(first=pl.col("memory_id").first().over("document_id", "run"))
        .sort("first", "ordinal", "memory_id")
        .head(size)
        .select("memory_id", "document_id")
    )


def _of_memories(table: pl.DataFrame, memories: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows of a table that are of memories, or of their documents; none of a table of neither."""
    of = next((column for column in ("memory_id", "document_id") if column in table.columns), None)
    return table.head(0) if of is None else table.join(memories, on=of, how="semi")
