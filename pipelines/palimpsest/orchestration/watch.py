"""Alerts and health: failed steps, what is overdue, and runs whose process is gone."""

import datetime as dt
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import dagster as dg
from dagster._core.events import JobFailureData, RunFailureReason
from dagster._core.launcher import DefaultRunLauncher
from dagster._core.storage.event_log import SqliteEventLogStorage

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import counted
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.core.parallel import process_created_s
from palimpsest.orchestration.build_assets import fresh_collections
from palimpsest.orchestration.resources import BY, Context, HomeResource
from palimpsest.orchestration.schedule import schedule_from_environment
from palimpsest.pipeline.document_info import record_inbox_failure
from palimpsest.pipeline.stages import STAGES
from palimpsest.pipeline.summary import freshness, overdue_hours
from palimpsest.store.builds import published, staged
from palimpsest.store.event_log import write_event
from palimpsest.store.home import Home
from palimpsest.store.manifest import GateRecord

# An alert to a person when the gate closes, a build fails or is overdue: one JSON message to a webhook.
#
# It is sent again while the server fails.
#
# The webhook's address often contains a token: it is read from PALIMPSEST_ALERT_URL only, and never printed.

URL = "PALIMPSEST_ALERT_URL"
TRIES, TIMEOUT_S, MAX_WAIT_S = 4, 10.0, 8.0
_MAX_REASONS = 5


class _Retryable(Exception):
    """The server may accept the message later: it answered 429 or 5xx, or not at all."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follows no redirect: the token in the address goes to its own server only."""


def closed_message(build_id: str, gate: GateRecord) -> JsonObject:
    """Returns the message: `text` for people, as chat programs show it, and the same as fields."""
    reasons = gate.get("reasons", [])
    more = [f"and {len(reasons) - _MAX_REASONS} more"] if len(reasons) > _MAX_REASONS else []
    lines = [f"Palimpsest: the gate closed, build {build_id} is not published", *reasons[:_MAX_REASONS], *more]
    return {
        "text": "\n- ".join(lines),
        "event": "gate_closed",
        "build": build_id,
        "status": gate.get("status", "failed"),
        "reasons": reasons,
    }


def failed_message(build_id: str, stage: str, error: str) -> JsonObject:
    """Returns the message for a step that failed: its name and the type of the error, whose words may quote sources."""
    text = f"Palimpsest: build {build_id} failed in {stage} ({error}); readers keep the published build"
    return {"text": text, "event": "build_failed", "build": build_id, "stage": stage, "error": error}


def overdue_message(build_id: str, hours: float, most: int) -> JsonObject:
    """Returns the message for a published build that no run has confirmed for longer than it may be."""
    text = f"Palimpsest: build {build_id} is overdue: last confirmed {hours:.0f} hours ago, at most {most}"
    return {"text": text, "event": "build_overdue", "build": build_id, "hours": round(hours, 1), "most_hours": most}


def send_alert(message: Mapping[str, JsonValue], url: str | None = None, wait_s: float = 1.0) -> bool:
    """Posts a message as JSON; returns whether an address is set.

    Tried four times with growing, jittered waits while the server answers 429 or 5xx, or not at all.

    Args:
        message: JSON values.
        url: http or https; None means PALIMPSEST_ALERT_URL, and nothing is sent where that is not set.
        wait_s: first wait; tests shorten it.

    Raises:
        PalimpsestError: the address is not http or https, the server refused, or the last try failed too.
    """
    import tenacity

    target = url if url is not None else os.environ.get(URL, "")
    if not target:
        return False
    if urlsplit(target).scheme not in ("http", "https"):
        raise PalimpsestError(f"{URL}: must begin with https:// or http://")
    data = json.dumps(message, ensure_ascii=False).encode()
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_Retryable),
        stop=tenacity.stop_after_attempt(TRIES),
        reraise=True,
        wait=tenacity.wait_exponential_jitter(wait_s, MAX_WAIT_S, jitter=wait_s),
    )
    try:
        retrying(_post, target, data)
    except _Retryable as e:
        raise PalimpsestError(f"alert not delivered after {TRIES} tries: {e}; look at {URL}") from None
    return True


def _post(url: str, data: bytes) -> None:
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method="POST")  # noqa: S310
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=TIMEOUT_S):
            return
    except urllib.error.HTTPError as e:
        if e.code == 429 or e.code >= 500:
            raise _Retryable(f"the server answered {e.code}") from None
        raise PalimpsestError(f"alert refused: the server answered {e.code}; look at {URL}") from None
    except (OSError, ValueError) as e:
        # Only the type of the reason: its text may quote the address.
        raise _Retryable(f"no answer ({type(getattr(e, 'reason', e)).__name__})") from None


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
    if step in (
        *STAGES,
        "index",
        "retrieval_report",
        "published",
    ):  # `palimpsest operation` shows it until a build succeeds
        record_inbox_failure(home, str(error) if error else "the build failed")
    try:
        if not send_alert(_message(home, step, error)):
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
    return dg.SkipReason(f"{counted(len(closed), 'run', 'was')} interrupted" if closed else "every run has its process")
