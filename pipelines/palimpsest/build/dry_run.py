"""What a build would do and cost, without doing it."""

import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from palimpsest.build.plan import make_plan, say_what_is_broken, stage_context
from palimpsest.build.run_stage import run_stage
from palimpsest.build.stages import STAGES
from palimpsest.build.stages.notes import note_inputs
from palimpsest.core.json_types import JsonObject
from palimpsest.core.parallel import configured_runner
from palimpsest.relations.classify.choose_labeler import expected_calls
from palimpsest.store.builds import Build, published, staged
from palimpsest.store.embedder_setting import recorded_embedder
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.tables import completed


@dataclass(frozen=True)
class DryRun:
    """What a build would do: counts of what it reads and makes, and estimates of what follows.

    Attributes:
        changed: collections that would be built.
        counts: `files`, `chunks`, `tokens`, new `memories`, texts to embed (`embeddings`), `candidate_pairs`,
            `lm_calls`, `removed_sources`, `removed_memories`, `deleted_memories`.
        cost: money for labels, facts and reflection by an LM.
        seconds: wall time.
    """

    changed: tuple[str, ...]
    counts: dict[str, int]
    cost: float
    seconds: float

    def to_json(self) -> JsonObject:
        """Returns the JSON that `build --dry-run --json` prints."""
        return {"changed": list(self.changed), **self.counts, "cost": self.cost, "seconds": self.seconds}


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


def dry_run(home: Home, corpora: list[Path] | None, only: list[str] | None) -> DryRun:
    """Returns what a build would do: runs the cheap stages of changed collections in a scratch folder, embeds nothing.

    Candidate pairs and seconds are estimates: from the rates of this home's published build, before the first from
    those of the demo corpus on two cores.
    """
    configured_runner()  # a wrong name is an error here as it is of the build
    plan = make_plan(home, corpora, only)
    say_what_is_broken(plan)
    current = published(home)
    counts: Counter[str] = Counter(dict.fromkeys(_COUNTS, 0))
    cost = 0.0
    started = time.perf_counter()
    for name in plan.changed:
        counted, more = _count_collection(home, name, plan.collections[name], current)
        counts.update(counted)
        cost += more
    reading = time.perf_counter() - started
    rates = _Rates.of(current)
    pairs = round(counts["memories"] * rates.pairs_per_memory)
    # A build that the gate refused has paid for labels, too.
    last = staged(home) if staged(home).is_finished else current
    prior = [last.table(n, "relations") for n in plan.changed if n in last.collections] if last else []
    calls, labels_cost = expected_calls(home, pairs, pl.concat(prior) if prior else None)
    counts["lm_calls"] += calls
    embedding = counts["embeddings"] / rates.texts_per_s + (rates.load_s if counts["embeddings"] else 0.0)
    rest = rates.fixed_s + counts["memories"] * rates.rest_s_per_memory
    seconds = round(reading + embedding + rest, 1) if plan.changed else 0.0
    return DryRun(plan.changed, {**counts, "candidate_pairs": pairs}, round(cost + labels_cost, 4), seconds)


def _count_collection(home: Home, name: str, folder: Path, current: Build | None) -> tuple[Counter[str], float]:
    """Returns counts of a collection, and what facts and reflection by a language model may cost."""
    counts: Counter[str] = Counter()
    cost = 0.0
    with tempfile.TemporaryDirectory(prefix="palimpsest-dry-run-") as scratch_folder:
        embedder = recorded_embedder(home)
        scratch = Home(Path(scratch_folder), embedder=embedder, inbox_path=home.inbox, web_path=home.web)
        scratch.create()
        IngestLog(home.log / name).copy_imported(IngestLog(scratch.log / name))
        context = replace(stage_context(scratch, name, folder), is_dry_run=True)
        for stage in STAGES.values():
            if stage.in_dry_run:
                run_stage(context, stage.name)
        for stage in STAGES.values():
            if stage.estimate:
                counts.update(stage.estimate(context, home))
        if context.config.facts != "rules":
            from palimpsest.facts.lm.lm_facts import expected_fact_calls

            is_known = current is not None and name in current.collections and was_read_by_lm(current, name)
            known = current.table(name, "memories") if current is not None and is_known else None
            calls, cost = expected_fact_calls(context.table("memories"), known)
            counts["lm_calls"] += calls
        if context.config.reflects and context.config.reflection != "rules":
            from palimpsest.formation.lm.lm_notes import expected_reflection_calls

            calls, more = expected_reflection_calls(note_inputs(context), home)
            counts["lm_calls"] += calls
            cost += more
    return counts, cost


def was_read_by_lm(build: Build, name: str) -> bool:
    """Returns whether a language model read the facts of a collection in a build."""
    return bool(completed("clause_facts", build.table(name, "clause_facts"))["extractor"].eq("lm").any())


@dataclass(frozen=True, slots=True)
class _Rates:
    """Rates of the last build, by which the next is estimated; the defaults are those of the demo corpus."""

    texts_per_s: float = 350.0
    load_s: float = 6.0
    pairs_per_memory: float = 1.2
    rest_s_per_memory: float = 0.001
    fixed_s: float = 8.0

    @classmethod
    def of(cls, build: Build | None) -> "_Rates":
        if build is None:
            return cls()
        manifest, default = build.manifest, cls()
        records = [(STAGES.get(s), r) for stages in manifest.stages.values() for s, r in stages.items()]
        rates = [rate for _, r in records if (rate := r.numbers.get("texts_per_s"))]
        loads = [load for _, r in records if (load := r.numbers.get("load_model_s"))]
        rest = sum(r.seconds for s, r in records if s and not s.estimate)
        memories = max(manifest.memories, 1)
        return cls(
            max(rates, default=default.texts_per_s),
            max(loads, default=default.load_s),
            sum(manifest.relations.values()) / memories,
            rest / memories,
            manifest.index["seconds"] + sum(manifest.tail_seconds.values()),
        )
