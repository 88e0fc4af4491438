"""What a build did, as `palimpsest build --json` prints it."""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields

from palimpsest.core.environment import whole_number
from palimpsest.core.ids import JsonObject
from palimpsest.memories.boilerplate import BOILERPLATE
from palimpsest.pipeline.build_warnings import build_warnings, warning_lines
from palimpsest.pipeline.stages import collection_stages
from palimpsest.store.builds import Build, published
from palimpsest.store.collection_config import settings_or_none
from palimpsest.store.event_log import read_events, write_event
from palimpsest.store.home import Home
from palimpsest.store.manifest import BuildManifest, ChangesRecord, GateRecord, Work


@dataclass(frozen=True)
class BuildSummary:
    """What a build is and what it cost.

    Attributes:
        languages: memories in each language, by collection, of those with texts that are not in English.
        boilerplate: memories that are hidden because their text recurs in many documents, by collection.
        past_retention: turns and documents of current sources that are left out because their retention had ended.
        warnings: a line for each thing that people should know: see `build_warnings`.
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
    languages: Mapping[str, Mapping[str, int]]
    relations: Mapping[str, int]
    retired: int
    rejects: int
    warnings: list[str]
    gate: GateRecord
    redactions: int | None
    not_stored: Mapping[str, int] | None
    boilerplate: Mapping[str, int]
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
        languages=manifest.languages,
        relations=manifest.relations,
        retired=manifest.retired,
        rejects=manifest.rejects,
        warnings=warning_lines(build_warnings(home, build)),
        gate=manifest.gate,
        redactions=manifest.redactions,
        not_stored=manifest.not_stored,
        boilerplate={
            name: n
            for name, stages in sorted(manifest.stages.items())
            if "memories" in stages and (n := int(stages["memories"].numbers.get(BOILERPLATE, 0)))
        },
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


# When the published build, and each of its collections, was last known to be up to date.
#
# A build is confirmed when it is published, or looked at by a build that changes nothing. A collection is confirmed
# when its sources were read for the published build, or looked at and found unchanged: where one collection cannot be
# built, the others are published without it.

HOURS_VARIABLE = "PALIMPSEST_OVERDUE_HOURS"
_CONFIRMING = ("build_confirmed", "publish_finished")
_CONFIRMED = "collection_confirmed"


@dataclass(frozen=True)
class Freshness:
    """The published build, when it was last confirmed, and hours since then."""

    build_id: str
    confirmed_at: dt.datetime
    hours: float

    @property
    def is_overdue(self) -> bool:
        """Whether that is longer ago than PALIMPSEST_OVERDUE_HOURS allows."""
        return self.hours > overdue_hours()


def overdue_hours() -> int:
    """Returns after how many hours a published build is overdue: 26 unless the environment says otherwise.

    Raises:
        PalimpsestError: PALIMPSEST_OVERDUE_HOURS is no whole number.
    """
    return whole_number(HOURS_VARIABLE)


def freshness(home: Home, now: dt.datetime) -> Freshness | None:
    """Returns the freshness of the published build; None where nothing was published.

    A build that failed or whose gate closed confirms nothing.
    """
    build = published(home)
    if build is None:
        return None
    created = dt.datetime.fromisoformat(build.manifest.created_at)
    events = read_events(home.path, since=created)
    times = [
        e.time
        for e in events
        if e.event in _CONFIRMING or (e.event == "build_finished" and e.fields.get("published") == 1)
    ]
    confirmed = max([created, *times])
    return Freshness(build.build_id, confirmed, (now - confirmed).total_seconds() / 3600)


@dataclass(frozen=True)
class CollectionFreshness:
    """A collection of the published build, and hours since its sources were confirmed; None: no event says so."""

    collection: str
    hours: float | None
    most_hours: int

    @property
    def is_overdue(self) -> bool:
        """Whether that is longer ago than `overdue_hours` of its collection.yaml, or of the home, allows."""
        return self.hours is None or self.hours > self.most_hours


def confirm_collections(home: Home, names: Iterable[str]) -> None:
    """Records that the sources of collections are as the published build has them."""
    current = published(home)
    for name in names if current else ():
        write_event(home.path, _CONFIRMED, collection=name)


def collection_freshness(home: Home, now: dt.datetime) -> list[CollectionFreshness]:
    """Returns the freshness of each collection of the published build, by name; empty where nothing was published.

    The event log is kept for PALIMPSEST_LOG_DAYS: a collection that was last confirmed before has no hours.
    """
    build = published(home)
    if build is None:
        return []
    last_stage, confirmed = collection_stages()[-1].name, dict[str, dt.datetime]()
    for event in read_events(home.path):
        is_built = event.event == "stage_finished" and event.fields.get("stage") == last_stage
        if event.event == _CONFIRMED or (is_built and event.build_id <= build.build_id):
            confirmed[str(event.fields.get("collection"))] = event.time
    found = []
    for name in build.collections:
        hours = (now - confirmed[name]).total_seconds() / 3600 if name in confirmed else None
        found.append(CollectionFreshness(name, hours, _most_hours(home, name)))
    return found


def _most_hours(home: Home, collection: str) -> int:
    """Returns the hours of its collection.yaml; where that names none, cannot be read or is gone, those of the home."""
    folder, default = home.folder_of(collection), overdue_hours()
    config = settings_or_none(folder)
    return (config.overdue_hours if config else None) or default
