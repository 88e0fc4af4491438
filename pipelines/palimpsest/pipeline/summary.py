"""What a build did, as `palimpsest build --json` prints it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields

from palimpsest.core.types import JsonObject
from palimpsest.store.builds import Build, published
from palimpsest.store.home import Home
from palimpsest.store.manifest import BuildManifest, ChangesRecord, GateRecord, Work


@dataclass(frozen=True)
class BuildSummary:
    """What a build is and what it cost.

    Attributes:
        past_retention: turns and documents of current sources that are left out because their retention had ended.
        work: what cost money or minutes, by kind; `embeddings`, `lm_calls`, `graph_writes`.
        seconds: wall time by stage, `load_model` apart; `plan` only where nothing changed.
        changed: collections that were built; None outside of a `palimpsest build`, as are the next five.
        skipped: deleted sources that are still on disk.
        expired: memories that were deleted before the build, because of retention or a denied user.
        repaired: a line for each damaged file that was repaired.
        wall_s: wall time of the command.
        not_built: why collections could not be built, by name; what was published of them stays.
    """

    build_id: str
    published: bool
    digest: str
    changes: ChangesRecord | None
    documents: int
    chunks: int
    memories: int
    undated: int | None
    relations: Mapping[str, int]
    retired: int
    rejects: int
    gate: GateRecord
    redactions: int | None
    not_stored: Mapping[str, int] | None
    past_retention: int
    work: Mapping[str, int]
    seconds: Mapping[str, float] = field(default_factory=dict)
    changed: list[str] | None = None
    skipped: list[str] | None = None
    expired: int | None = None
    repaired: list[str] | None = None
    wall_s: float | None = None
    not_built: Mapping[str, str] | None = None

    def to_json(self) -> JsonObject:
        """Returns the JSON that `build --json` prints; fields that only `palimpsest build` measures may be missing."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {k: v for k, v in values.items() if v is not None or k not in _OF_A_RUN}


_OF_A_RUN = ("changed", "skipped", "expired", "repaired", "wall_s", "not_built")


def build_summary(home: Home, build: Build) -> BuildSummary:
    """Returns the summary of a finished build, from its manifest and the records of its stages."""
    manifest, current = build.manifest, published(home)
    work: Counter[str] = Counter(asdict(Work()))
    for stages in manifest.stages.values():
        for record in stages.values():
            work.update(asdict(record.work))
    return BuildSummary(
        build_id=build.build_id,
        published=bool(current and current.build_id == build.build_id),
        digest=manifest.digest,
        changes=manifest.changes,
        documents=manifest.documents,
        chunks=manifest.chunks,
        memories=manifest.memories,
        undated=manifest.undated,
        relations=manifest.relations,
        retired=manifest.retired,
        rejects=manifest.rejects,
        gate=manifest.gate,
        redactions=manifest.redactions,
        not_stored=manifest.not_stored,
        past_retention=int(_sum_number(manifest, "past_retention")),
        work=dict(work),
        seconds={k: round(v, 3) for k, v in stage_seconds(manifest).items()},
    )


def stage_seconds(manifest: BuildManifest) -> dict[str, float]:
    """Returns wall seconds by stage, of all collections together; `load_model` apart, then `index` and what follows."""
    seconds: dict[str, float] = {}
    for stages in manifest.stages.values():
        for stage, record in stages.items():
            load = record.numbers.get("load_model_s", 0.0)
            seconds[stage] = seconds.get(stage, 0.0) + record.seconds - load
            seconds["load_model"] = seconds.get("load_model", 0.0) + load
    return {**seconds, "index": manifest.index["seconds"], **manifest.tail_seconds}


def _sum_number(manifest: BuildManifest, name: str) -> float:
    return sum(r.numbers.get(name, 0) for stages in manifest.stages.values() for r in stages.values())
