"""Alerts and health: failed steps, what is overdue, and runs whose process is gone."""

import datetime as dt
import os
from contextlib import suppress

import dagster as dg
from dagster._core.events import JobFailureData, RunFailureReason
from dagster._core.launcher import DefaultRunLauncher
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.tags import PARTITION_NAME_TAG

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import counted
from palimpsest.core.ids import JsonObject
from palimpsest.core.parallel import process_created_s
from palimpsest.orchestration.alerts import (
    NOWHERE,
    closed_message,
    failed_message,
    overdue_message,
    send_alert,
    unreadable_message,
)
from palimpsest.orchestration.build_assets import fresh_collections, readable
from palimpsest.orchestration.resources import (
    BY,
    FIRST_STAGE,
    Context,
    HomeResource,
    is_unreadable,
)
from palimpsest.orchestration.resources import unreadable_collections as find_unreadable
from palimpsest.orchestration.schedule import schedule_from_environment
from palimpsest.pipeline.document_info import record_inbox_failure
from palimpsest.pipeline.stages import STAGES
from palimpsest.pipeline.summary import freshness, overdue_hours
from palimpsest.store.builds import published, staged
from palimpsest.store.event_log import write_event
from palimpsest.store.home import Home

# Runs of Dagster whose process is gone: killed with all of `palimpsest dev`, or with a `palimpsest build`.
#
# Dagster's code server reports a run whose process dies, and its daemon retries that run. Where the server dies too,
# nobody reports it: the run would be `started` for ever, and no queued run would begin.

_CLOCK_S = 1.0  # two clocks name the start of a process


def close_interrupted_runs(instance: dg.DagsterInstance, home: Home) -> list[str]:
    """Marks runs as failed whose process has ended, or that an earlier code server was launching; returns their ids.

    Only where all runs are processes of this machine: Dagster keeps them in files, and its default launcher starts
    them. While the home is being written, nothing is marked: a `palimpsest build` in another container has its own
    numbers of processes.
    """
    local = isinstance(instance.run_launcher, DefaultRunLauncher)
    if not local or not isinstance(instance.event_log_storage, SqliteEventLogStorage):
        return []
    statuses = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]
    begun = instance.get_run_records(dg.RunsFilter(statuses=statuses))
    lost = [r.dagster_run for r in begun if not _has_process(instance, r)]
    closed = []
    with suppress(PalimpsestError):
        for run in lost:
            with home.lock():
                why = JobFailureData(error=None, failure_reason=RunFailureReason.UNEXPECTED_TERMINATION)
                instance.report_run_failed(run, "The process of this run has ended without an answer.", why)
            closed.append(run.run_id)
    return closed


def _has_process(instance: dg.DagsterInstance, record: dg.RunRecord) -> bool:
    """Returns whether the process that began a run still runs; another one may have its number now.

    A run that is being launched has none yet: this process launches it where the launch began after it did.
    """
    if record.dagster_run.status == dg.DagsterRunStatus.STARTING:
        return record.update_timestamp.timestamp() + _CLOCK_S >= (process_created_s(os.getpid()) or 0.0)
    logs = instance.all_logs(record.dagster_run.run_id, of_type=dg.DagsterEventType.RUN_START)
    pids = [log.dagster_event.pid for log in logs if log.dagster_event is not None]
    if not pids or pids[-1] is None or record.start_time is None:
        return True
    created_s = process_created_s(pids[-1])
    return created_s is not None and created_s <= record.start_time + _CLOCK_S


_POLL_INTERVAL_S = 900
_REPEAT_S = 86_400.0
_IS_ON = schedule_from_environment().on


def report_failure(context: Context, home: Home, step: str, error: BaseException | None) -> None:
    """Records that a step failed for good, also for what is in the inbox, and sends the alert."""
    write_event(home.path, "run_failed", level="error", stage=step, error=type(error).__name__)
    if step in (*STAGES, "index", "retrieval_report", "published"):  # `palimpsest operation` shows it
        record_inbox_failure(home, str(error) if error else "the build failed")
    if step == FIRST_STAGE and is_unreadable(error):
        message = unreadable_message(context.run.tags.get(PARTITION_NAME_TAG, ""), str(error))
    else:
        message = _message(home, step, error)
    try:
        if not send_alert(message):
            context.log.info(NOWHERE)
    except PalimpsestError as e:
        context.log.error(str(e))


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _message(home: Home, stage: str, error: BaseException | None) -> JsonObject:
    """Returns the message for a failed step: the gate's where the staged build is kept back."""
    build = staged(home)
    manifest = build.manifest
    if manifest.violations:
        return closed_message(build.build_id, {"status": "failed", "reasons": manifest.violations})
    if manifest.gate.get("status") == "failed":
        return closed_message(build.build_id, manifest.gate)
    return failed_message(build.build_id, stage, type(error).__name__)


@dg.sensor(
    minimum_interval_seconds=_POLL_INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Alerts once a day while the published build is older than PALIMPSEST_OVERDUE_HOURS.",
)
def overdue_build(context: dg.SensorEvaluationContext, home: HomeResource) -> dg.SkipReason:
    """Starts no run; its cursor is when it last alerted."""
    now = _now()
    found = freshness(home.home(), now)
    if found is None:
        return dg.SkipReason("nothing was published yet")
    if not found.is_overdue:
        context.update_cursor("")
        return dg.SkipReason(f"build {found.build_id} was confirmed {found.hours:.1f} hours ago")
    last = dt.datetime.fromisoformat(context.cursor) if context.cursor else None
    said = f"build {found.build_id} is overdue: confirmed {found.hours:.0f} hours ago"
    if last is not None and (now - last).total_seconds() < _REPEAT_S:
        return dg.SkipReason(f"{said}; an alert was sent")
    try:
        sent = send_alert(overdue_message(found.build_id, found.hours, overdue_hours()))
    except PalimpsestError as e:
        return dg.SkipReason(f"{said}; {e}")  # the next look tries again
    fields = {"hours": round(found.hours, 1)}
    write_event(home.home().path, "build_overdue", level="warning", build_id=found.build_id, **fields)
    context.update_cursor(now.isoformat())
    return dg.SkipReason(f"{said}; {'an alert was sent' if sent else NOWHERE}")


class UnreadableCollections(dg.DagsterError):
    """What the failed tick begins with: Dagster wraps errors of other kinds."""


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Fails while a collection cannot be read: the tick begins with the cause. The failed run alerts.",
)
def unreadable_collections(context: dg.SensorEvaluationContext, home: HomeResource) -> dg.SkipReason:
    """Starts no run; reports the check `readable`, for a run that fails makes nothing that has one.

    Raises:
        UnreadableCollections: a collection cannot be read.
    """
    causes = "\n".join(find_unreadable(home.home()))
    _report_readable(context.instance, causes)
    if causes:
        raise UnreadableCollections(causes)
    return dg.SkipReason("every collection can be read")


def _report_readable(instance: dg.DagsterInstance, causes: str) -> None:
    """Reports the check where it differs, is only planned, or its asset was made since: Dagster then shows none."""
    (key,) = readable.check_keys
    history = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    made = instance.get_latest_materialization_event(key.asset_key)
    last = next((r for r in history if r.status != AssetCheckExecutionRecordStatus.PLANNED), None)
    is_new = last is None or (made is not None and made.timestamp >= last.create_timestamp)
    if is_new or last is None or not last.evaluation or (last.evaluation.description or "") != causes:
        evaluation = dg.AssetCheckEvaluation(
            asset_key=key.asset_key, check_name=key.name, passed=not causes, description=causes or None, metadata={}
        )
        instance.report_runless_asset_event(evaluation)


check_freshness = dg.define_asset_job(
    "check_freshness",
    dg.AssetSelection.checks(fresh_collections),
    description="Checks whether every collection was confirmed within its hours.",
    executor_def=dg.in_process_executor,
)


@dg.schedule(
    cron_schedule="20 */6 * * *",
    job=check_freshness,
    default_status=dg.DefaultScheduleStatus.RUNNING if _IS_ON else dg.DefaultScheduleStatus.STOPPED,
    description="Checks the freshness of collections four times a day.",
)
def regular_freshness(context: dg.ScheduleEvaluationContext, home: HomeResource) -> dg.RunRequest | dg.SkipReason:
    """Returns a run where a build is published."""
    if published(home.home()) is None:
        return dg.SkipReason("nothing was published yet")
    return dg.RunRequest(run_key=f"freshness-{context.scheduled_execution_time:%Y%m%dT%H%M}", tags={BY: "freshness"})


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Marks runs as failed whose process is gone, so that they are retried and do not block the queue.",
)
def interrupted_runs(context: dg.SensorEvaluationContext, home: HomeResource) -> dg.SkipReason:
    """Starts no run: Dagster's daemon retries those that it marks."""
    closed = close_interrupted_runs(context.instance, home.home())
    return dg.SkipReason(f"{counted(len(closed), 'run', 'was')} interrupted" if closed else "every run has its process")
