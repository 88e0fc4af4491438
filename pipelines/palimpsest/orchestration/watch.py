"""Alerts and health: hooks on failed runs, what is overdue, and runs whose process is gone."""

import datetime as dt

import dagster as dg

from palimpsest.build.freshness import freshness, overdue_hours
from palimpsest.build.operation_status import record_inbox_failure
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.json_types import JsonObject
from palimpsest.orchestration.alerts import closed_message, failed_message, overdue_message, send_alert
from palimpsest.orchestration.assets.freshness import fresh_collections
from palimpsest.orchestration.assets.resources import HomeResource, run_of
from palimpsest.orchestration.assets.steps import BY, error_of_step
from palimpsest.orchestration.interrupted_runs import close_interrupted_runs
from palimpsest.orchestration.schedule import schedule_from_environment
from palimpsest.store.builds import published, staged
from palimpsest.store.event_log import run_scope, write_event
from palimpsest.store.home import Home

_POLL_INTERVAL_S = 900
_REPEAT_S = 86_400.0
_IS_ON = schedule_from_environment().on


@dg.failure_hook(required_resource_keys={"home"})
def record_failed_operations(context: dg.HookContext) -> None:
    """Records why a build failed for what is in the inbox: `palimpsest operation` shows it until a build succeeds."""
    error, home = error_of_step(context.op_exception), context.resources.home.home()
    run = context.instance.get_run_by_id(context.run_id)
    with run_scope(run_of(run) if run else context.run_id):
        fields = {"stage": context.op.name, "error": type(error).__name__}
        write_event(home.path, "run_failed", level="error", **fields)
    record_inbox_failure(home, str(error) if error else "the build failed")


@dg.failure_hook(required_resource_keys={"home"})
def alert_when_failed(context: dg.HookContext) -> None:
    """Alerts the webhook of PALIMPSEST_ALERT_URL: the gate or an invariant keeps a build back, or a stage failed."""
    message = _message(context.resources.home.home(), context.op.name, error_of_step(context.op_exception))
    try:
        if not send_alert(message):
            context.log.info("no webhook is set, so no alert is sent; PALIMPSEST_ALERT_URL sets one")
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
    return dg.SkipReason(f"{said}; {'an alert was sent' if sent else 'PALIMPSEST_ALERT_URL is not set'}")


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
    return dg.SkipReason(f"{len(closed)} runs were interrupted" if closed else "every run has its process")
