"""The jobs, and what starts them without a person: schedules (their times are in `schedule`) and sensors."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
from dagster._core.storage.tags import AUTO_RETRY_RUN_ID_TAG, PARTITION_NAME_TAG, WILL_RETRY_TAG

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import file_hash
from palimpsest.core.ids import content_id
from palimpsest.core.parallel import process_created_s
from palimpsest.orchestration.build_assets import fresh_collections, readable
from palimpsest.orchestration.published_assets import GOLDEN, known_suites, suites
from palimpsest.orchestration.resources import (
    ALL_STEPS,
    BATCH,
    BY,
    HomeResource,
    collections,
    executor_from_environment,
)
from palimpsest.orchestration.schedule import schedule_from_environment
from palimpsest.pipeline.plan import make_plan
from palimpsest.pipeline.stages import collection_stages, once_stages
from palimpsest.pipeline.summary import confirm_collections
from palimpsest.relations.labelers.lm_labeler import program_folder
from palimpsest.store.builds import published
from palimpsest.store.event_log import write_event
from palimpsest.store.home import DEFAULT_CORPUS, Home

SCHEDULE, EXECUTOR = schedule_from_environment(), executor_from_environment()
_POLL_INTERVAL_S = 10
NIGHTLY = "nightly-"
_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


COLLECTION = [dg.AssetKey(stage.name) for stage in collection_stages()]
"""The assets of one collection; a batch of several collections is built by a run of these for each."""
_AFTER_STAGES = ("index", "retrieval_report", "published", "memory_health", "month_figures")
TAIL = [*(dg.AssetKey(stage.name) for stage in once_stages()), *map(dg.AssetKey, _AFTER_STAGES)]
"""The assets of all collections together, which the last run of a batch makes."""

rebuild = dg.define_asset_job(
    "rebuild",
    dg.AssetSelection.assets(*COLLECTION, *TAIL) - dg.AssetSelection.checks(fresh_collections, readable),
    description="A collection from its sources to what readers see: stages, index, invariants, gate, publication.",
    partitions_def=collections,
    executor_def=EXECUTOR,
    tags=ALL_STEPS,
)

serve_graph = dg.define_asset_job(
    "serve_graph",
    dg.AssetSelection.assets("neo4j_graph"),  # stages of collections are in its group too
    description="The published build in Neo4j, for those who query it there.",
    executor_def=EXECUTOR,
)

evaluate_suite = dg.define_asset_job(
    "evaluate_suite",
    dg.AssetSelection.groups("evaluation"),
    description="One suite or golden set measured in a throw-away home.",
    partitions_def=suites,
    executor_def=EXECUTOR,
)


def publishes(run: dg.DagsterRun) -> bool:
    """Returns whether a run of `rebuild` ends with the publication: all of it does, and the last run of a batch."""
    return run.asset_selection is None or dg.AssetKey("published") in run.asset_selection


def _requests(
    context: dg.ScheduleEvaluationContext | dg.SensorEvaluationContext, home: Home, batch: str, trigger: str
) -> Iterator[dg.RunRequest]:
    """Yields a run for each collection that changed or cannot be built, and registers new ones as partitions.

    The run of a single collection publishes too; after several a run of the tail does (`publish_after_collections`).
    """
    from palimpsest_eval.gate.baseline import golden_problems

    plan = make_plan(home, None, lost=golden_problems())
    for name, why in plan.broken.items():
        context.log.error(f"collection {name} is not built: {why}")
    home.remember_sources(plan.collections)
    confirm_collections(home, plan.unchanged)
    context.instance.add_dynamic_partitions(str(collections.name), [*plan.collections, *plan.broken])
    wanted = plan.changed
    tags = {BATCH: batch, BY: trigger}
    stages_only = COLLECTION if len(wanted) > 1 else None
    for name in plan.broken:  # its run fails: it says why, and sends an alert
        yield dg.RunRequest(run_key=f"{batch}/{name}", partition_key=name, asset_selection=COLLECTION, tags=tags)
    for name in wanted:
        yield dg.RunRequest(run_key=f"{batch}/{name}", partition_key=name, asset_selection=stages_only, tags=tags)
    if plan.tail_only:
        yield dg.RunRequest(run_key=f"{batch}/tail", asset_selection=TAIL, tags=tags)


def _in_progress(instance: dg.DagsterInstance) -> tuple[set[str], bool]:
    """Returns the collections of which a build waits, runs or will be tried again, and whether a batch is published."""
    waiting = instance.get_runs(dg.RunsFilter(job_name=rebuild.name, statuses=_UNFINISHED))
    failed = instance.get_runs(
        dg.RunsFilter(job_name=rebuild.name, statuses=[dg.DagsterRunStatus.FAILURE], tags={WILL_RETRY_TAG: "true"})
    )
    runs = [*waiting, *(run for run in failed if AUTO_RETRY_RUN_ID_TAG not in run.tags)]
    names = {run.tags.get(PARTITION_NAME_TAG) for run in runs}
    return {name for name in names if name}, None in names


@dg.schedule(
    cron_schedule=SCHEDULE.nightly,
    job=rebuild,
    execution_timezone=SCHEDULE.timezone,
    default_status=dg.DefaultScheduleStatus.RUNNING if SCHEDULE.on else dg.DefaultScheduleStatus.STOPPED,
    description="Rebuilds every collection whose sources, settings or code changed; publishes when the gate agrees.",
)
def nightly_rebuild(
    context: dg.ScheduleEvaluationContext, home: HomeResource
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Yields a run for each collection that changed, or the reason to skip where none did."""
    current_home = home.home()
    if not current_home.sources and not DEFAULT_CORPUS.is_dir():
        yield dg.SkipReason(f"home {current_home.path} has no sources yet; palimpsest build --corpus FOLDER names them")
        return
    batch = f"{NIGHTLY}{context.scheduled_execution_time:%Y%m%dT%H%M}"
    requests = list(_requests(context, current_home, batch, "nightly"))
    yield from requests
    if not requests:
        _confirm_published(context.instance, current_home)
        yield dg.SkipReason("nothing changed since the published build")


def _confirm_published(instance: dg.DagsterInstance, home: Home) -> None:
    """Records that the published build is up to date: its freshness counts from now."""
    if current := published(home):
        write_event(home.path, "build_confirmed", build_id=current.build_id)
        metadata = {"build": current.build_id, "how": "nothing changed"}
        instance.report_runless_asset_event(dg.AssetMaterialization("published", metadata=metadata))


@dg.sensor(
    job=rebuild,
    minimum_interval_seconds=_POLL_INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING if SCHEDULE.on else dg.DefaultSensorStatus.STOPPED,
    description="Rebuilds a collection when a file of its folder or inbox or a web page is new, changed or gone.",
)
def changed_folders(context: dg.SensorEvaluationContext, home: HomeResource) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Yields a run for each collection with a changed file, or the reason to skip.

    Names, sizes and times are compared first; contents are read only where one of those changed. The first look of a
    process compares all with the published build: a run that an earlier process launched may never have begun.
    """
    this_process = (str(os.getpid()), str(process_created_s(os.getpid())))
    state, cursor = content_id(_folder_state(home.home()), *this_process), context.cursor
    requests = _requests_once(context, home.home(), "folders", state, "no file changed")
    if isinstance(requests, dg.SkipReason):
        yield requests
        return
    in_progress, publishing = _in_progress(context.instance)
    # Until a batch is published its collections differ from the published build.
    ready = [] if publishing else [r for r in requests if r.partition_key not in in_progress]
    waiting = sorted({str(r.partition_key or "all collections") for r in requests if r not in ready})
    if waiting:  # their builds may have read the files before they changed: the next look compares again
        context.update_cursor(cursor)
    yield from ready
    if not ready:
        why = f"a build of {', '.join(waiting)} is in progress" if waiting else "files changed, contents are the same"
        yield dg.SkipReason(why)


@dg.schedule(
    cron_schedule=SCHEDULE.weekly,
    job=evaluate_suite,
    execution_timezone=SCHEDULE.timezone,
    description="Measures every suite and golden set, so that their metrics have a history.",
)
def weekly_evaluation(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Yields a run for each suite that is found, or the reason to skip."""
    names = _register_suites(context.instance)
    for name in names:
        key = f"weekly-{context.scheduled_execution_time:%Y%m%d}/{name}"
        yield dg.RunRequest(run_key=key, partition_key=name, tags={BY: "weekly"})
    if not names:
        yield dg.SkipReason("no golden set and no suite; PALIMPSEST_SUITES names a folder of suites")


def _register_suites(instance: dg.DagsterInstance, only: str = "") -> list[str]:
    names = [n for n in known_suites() if n.startswith(only)]
    instance.add_dynamic_partitions(str(suites.name), names)
    return names


@dg.sensor(
    jobs=[rebuild, evaluate_suite],
    minimum_interval_seconds=_POLL_INTERVAL_S,
    description="Runs the gate when a relation program appears or changes in data/programs/relation.",
)
def new_relation_program(
    context: dg.SensorEvaluationContext, home: HomeResource
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Yields a build of each collection that the program changes, which ends in the gate, else runs of golden sets."""
    programs = sorted(program_folder().glob("*.json"))
    state = content_id(*(f"{p.name}\0{file_hash(p)}" for p in programs)) if programs else ""
    requests = _requests_once(context, home.home(), "program", state, "no new relation program")
    if isinstance(requests, dg.SkipReason):
        yield requests
        return
    for request in requests:
        yield request._replace(job_name=rebuild.name)
    for name in [] if requests or not programs else _register_suites(context.instance, GOLDEN):
        key, tags = f"program-{state}/{name}", {BY: "program"}
        yield dg.RunRequest(run_key=key, partition_key=name, job_name="evaluate_suite", tags=tags)


def _requests_once(
    context: dg.SensorEvaluationContext, home: Home, trigger: str, state: str, unchanged: str
) -> list[dg.RunRequest] | dg.SkipReason:
    """Returns the runs that a new state needs and stores the state as the sensor's cursor; else a reason to skip.

    Args:
        context: the sensor's.
        home: the home.
        trigger: what changed, part of the runs' keys.
        state: hash of what the sensor watches.
        unchanged: the reason to skip where the state is the same as before.
    """
    if state == (context.cursor or ""):
        return dg.SkipReason(unchanged)
    try:
        requests = list(_requests(context, home, f"{trigger}-{state}", trigger))
    except PalimpsestError as e:
        return dg.SkipReason(str(e))
    context.update_cursor(state)
    return requests


def _folder_state(home: Home) -> str:
    """Returns a hash of names, sizes and times of all files of the collections' folders, the inbox and web pages."""
    h = hashlib.blake2b(digest_size=8)
    folders = home.sources.values() or [p.parent for p in DEFAULT_CORPUS.glob("*/collection.yaml")]
    # And not what is beside them: a lock, what failed.
    inboxes = [place / name for name in home.sources for place in (home.inbox, home.web)]
    for folder in sorted(map(Path, [*folders, *inboxes])):
        for path in sorted(folder.rglob("*")):
            stat = path.lstat()
            h.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return h.hexdigest()
