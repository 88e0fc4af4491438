"""What follows a build: publication once a batch of collections is built, and the load of what is published."""

import datetime as dt
from zoneinfo import ZoneInfo

import dagster as dg
from dagster._core.execution.backfill import BulkActionStatus

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import counted
from palimpsest.neo4j_graph.identity import is_served
from palimpsest.orchestration.automation import (
    EXECUTOR,
    NIGHTLY,
    SCHEDULE,
    build_collection,
    publish_build,
    serve_graph,
)
from palimpsest.orchestration.resources import BATCH, BY, CLI, HomeResource
from palimpsest.orchestration.watch import alert_when_failed
from palimpsest.pipeline.plan import make_plan
from palimpsest.sources.crawl.ingest_web import list_sites
from palimpsest.store.builds import published

_BACKFILL, _PARTITION = "dagster/backfill", "dagster/partition"
_WILL_RETRY, _RETRIED_AS = "dagster/will_retry", "dagster/auto_retry_run_id"
_SUCCESS = dg.DagsterRunStatus.SUCCESS
_UNFINISHED = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dg.run_status_sensor(
    run_status=dg.DagsterRunStatus.SUCCESS,
    monitored_jobs=[build_collection],
    request_job=publish_build,
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=5,
    description="Publishes once the last collection of a batch or a backfill is built.",
)
def publish_after_collections(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
    """Waits for the other collections of the same batch; a collection built by hand is its own batch."""
    return _publish_after(context)


@dg.run_status_sensor(
    run_status=dg.DagsterRunStatus.FAILURE,
    monitored_jobs=[build_collection],
    request_job=publish_build,
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=5,
    description="Publishes the other collections of a batch or a backfill where the last one cannot be built.",
)
def publish_after_failures(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
    """Follows a run that is not tried again and that ended last, where another one of its batch succeeded."""
    return _publish_after(context)


def _publish_after(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
    run = context.dagster_run
    if run.tags.get(BY) == CLI:
        return dg.SkipReason("the command line publishes its own builds")
    backfill = run.tags.get(_BACKFILL)
    batch = run.tags.get(BATCH) or (f"backfill-{backfill}" if backfill else run.run_id)
    if reason := why_not_yet(context.instance, run):
        return dg.SkipReason(f"{reason} of {batch}")
    trigger = run.tags.get(BY) or ("backfill" if backfill else "")
    tags = {BATCH: batch} | ({BY: trigger} if trigger else {})
    return dg.RunRequest(run_key=f"{batch}/tail/{run.run_id}", job_name="publish_build", tags=tags)


def why_not_yet(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """Returns why the batch of a run that ended is not published after it; empty where it is."""
    tag, has_succeeded = next((t for t in (BATCH, _BACKFILL) if t in run.tags), None), run.status == _SUCCESS
    if tag is None:
        return "" if has_succeeded else "no collection was built"
    siblings = dg.RunsFilter(job_name=run.job_name, tags={tag: run.tags[tag]})
    records = instance.get_run_records(siblings)
    runs = [record.dagster_run for record in records]
    unfinished = sum(r.status in _UNFINISHED or _will_be_retried(instance, r) for r in runs)
    unfinished += _not_launched(instance, run.tags.get(_BACKFILL), runs)
    if unfinished:
        return f"{counted(unfinished, 'collection', 'is')} still to be built"
    ends = [
        (r.end_time or 0.0, r.storage_id, r.dagster_run.run_id)
        for r in records
        if r.dagster_run.status == _SUCCESS or _failed_for_good(instance, r.dagster_run)
    ]
    if not has_succeeded and not any(r.status == _SUCCESS for r in runs):
        return "no collection was built"
    return "" if not ends or max(ends)[-1] == run.run_id else "another collection ended later"


def _will_be_retried(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    is_to_be = run.tags.get(_WILL_RETRY) == "true" and _RETRIED_AS not in run.tags
    return is_to_be and run.status == dg.DagsterRunStatus.FAILURE and instance.run_retries_enabled


def _failed_for_good(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    has_failed = run.status == dg.DagsterRunStatus.FAILURE and _RETRIED_AS not in run.tags
    return has_failed and not _will_be_retried(instance, run)


def _not_launched(instance: dg.DagsterInstance, backfill_id: str | None, runs: list[dg.DagsterRun]) -> int:
    """Returns how many partitions of a job's backfill have no run yet."""
    backfill = instance.get_backfill(backfill_id) if backfill_id else None
    if backfill is None or backfill.status != BulkActionStatus.REQUESTED or not backfill.partition_names:
        return 0
    return len(set(backfill.partition_names) - {run.tags.get(_PARTITION, "") for run in runs})


@dg.run_status_sensor(
    run_status=dg.DagsterRunStatus.SUCCESS,
    monitored_jobs=[publish_build],
    request_job=serve_graph,
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=5,
    description="Loads each published build into Neo4j, for homes that were loaded there before.",
)
def serve_after_publishing(context: dg.RunStatusSensorContext, home: HomeResource) -> dg.RunRequest | dg.SkipReason:
    """A home is served once `palimpsest build --graph` was run on it."""
    run = context.dagster_run
    if run.tags.get(BY) == CLI:
        return dg.SkipReason("the command line loads its own builds")
    if not is_served(home.home()):
        return dg.SkipReason("this home is not served by Neo4j; palimpsest build --graph begins it")
    tags = {tag: run.tags[tag] for tag in (BATCH, BY) if tag in run.tags}
    return dg.RunRequest(run_key=f"{run.run_id}/graph", job_name="serve_graph", tags=tags)


# When the entries of `sources.yaml` are crawled: a look every quarter of an hour, and a run where one is due.

crawl_sites = dg.define_asset_job(
    "crawl_sites",
    dg.AssetSelection.assets("web_pages"),
    description="Reads what sources.yaml of the collections names from the web; changed pages start a build.",
    executor_def=EXECUTOR,
    hooks={alert_when_failed},
)


@dg.schedule(
    cron_schedule="*/15 * * * *",
    job=crawl_sites,
    execution_timezone=SCHEDULE.timezone,
    default_status=dg.DefaultScheduleStatus.RUNNING if SCHEDULE.on else dg.DefaultScheduleStatus.STOPPED,
    description="Crawls entries of sources.yaml whose own schedule says that they are due.",
)
def due_sites(context: dg.ScheduleEvaluationContext, home: HomeResource) -> dg.RunRequest | dg.SkipReason:
    """Returns a run where an entry is due, else the reason to skip."""
    now = context.scheduled_execution_time.astimezone(ZoneInfo(SCHEDULE.timezone))
    problems: list[tuple[str, str]] = []
    try:
        found = list_sites(home.home(), now=now, problems=problems)
        sites = [site for site in found if site.entry.schedule is not None]
    except PalimpsestError as e:
        return dg.SkipReason(str(e))
    for name, why in problems:
        context.log.warning(f"sites of {name}: {why}")
    if any(not site.why_not for site in sites):
        return dg.RunRequest(run_key=f"crawl-{now.astimezone(dt.UTC):%Y%m%dT%H%M}", tags={BY: "sites"})
    failed = "".join(f"; {name}: {why}" for name, why in problems)
    return dg.SkipReason(f"none of {len(sites)} entries with a schedule is due{failed}")


# When consolidation runs: with the nightly schedule, after the rebuild of that night is published.

consolidate_home = dg.define_asset_job(
    "consolidate_home",
    dg.AssetSelection.groups("consolidation"),
    description="Proposals over what came in: nothing is changed without consent.",
    executor_def=EXECUTOR,
)


@dg.schedule(
    cron_schedule=SCHEDULE.nightly,
    job=consolidate_home,
    execution_timezone=SCHEDULE.timezone,
    default_status=dg.DefaultScheduleStatus.RUNNING if SCHEDULE.on else dg.DefaultScheduleStatus.STOPPED,
    description="Consolidates the published build where the nightly rebuild has nothing to do.",
)
def nightly_consolidation(context: dg.ScheduleEvaluationContext, home: HomeResource) -> dg.RunRequest | dg.SkipReason:
    """Returns a run, or the reason to skip: nothing is published, or a rebuild is due and consolidation follows it."""
    current = home.home()
    if published(current) is None:
        return dg.SkipReason(f"home {current.path} has no published build yet")
    try:
        is_due = not make_plan(current, None).nothing_to_do
    except PalimpsestError:
        is_due = False  # the rebuild reports it; what is published can be consolidated
    if is_due:
        return dg.SkipReason("a rebuild is due; consolidation follows its publication")
    return dg.RunRequest(run_key=f"consolidate-{context.scheduled_execution_time:%Y%m%dT%H%M}", tags={BY: "nightly"})


@dg.run_status_sensor(
    run_status=dg.DagsterRunStatus.SUCCESS,
    monitored_jobs=[publish_build],
    request_job=consolidate_home,
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=5,
    description="Consolidates what the nightly rebuild published.",
)
def consolidate_after_publishing(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
    """Follows the batch of the night only: a build by day waits for the next night."""
    batch = context.dagster_run.tags.get(BATCH, "")
    if not batch.startswith(NIGHTLY):
        return dg.SkipReason("not the nightly rebuild; palimpsest consolidate runs it at any time")
    return dg.RunRequest(run_key=f"{batch}/consolidate", job_name="consolidate_home", tags={BY: "nightly"})
