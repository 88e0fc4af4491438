"""What follows a build: publication once a batch of collections is built, and the load of what is published."""

import dagster as dg
from dagster._core.execution.backfill import BulkActionStatus

from palimpsest.neo4j_graph.identity import is_served
from palimpsest.orchestration.assets.resources import BATCH, HomeResource
from palimpsest.orchestration.assets.steps import BY, CLI
from palimpsest.orchestration.automation import build_collection, publish_build, serve_graph

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
        return f"{unfinished} collections are still to be built"
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
