"""Runs of Dagster whose process is gone: killed with all of `palimpsest dev`, or with a `palimpsest build`.

Dagster's code server reports a run whose process dies, and its daemon retries that run. Where the server dies too,
nobody reports it: the run would be `started` for ever, and no queued run would begin.
"""

from contextlib import suppress

import dagster as dg
from dagster._core.events import JobFailureData, RunFailureReason
from dagster._core.launcher import DefaultRunLauncher
from dagster._core.storage.event_log import SqliteEventLogStorage

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.processes import process_created_s
from palimpsest.store.home import Home

_CLOCK_S = 1.0  # two clocks name the start of a process


def close_interrupted_runs(instance: dg.DagsterInstance, home: Home) -> list[str]:
    """Marks started runs as failed whose process has ended; returns their ids.

    Only where all runs are processes of this machine: Dagster keeps them in files, and its default launcher starts
    them. While the home is being written, nothing is marked: a `palimpsest build` in another container has its own
    numbers of processes.
    """
    local = isinstance(instance.run_launcher, DefaultRunLauncher)
    if not local or not isinstance(instance.event_log_storage, SqliteEventLogStorage):
        return []
    started = instance.get_run_records(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    lost = [r.dagster_run for r in started if not _has_process(instance, r)]
    closed = []
    with suppress(PalimpsestError):
        for run in lost:
            with home.lock():
                why = JobFailureData(error=None, failure_reason=RunFailureReason.UNEXPECTED_TERMINATION)
                instance.report_run_failed(run, "The process of this run has ended without an answer.", why)
            closed.append(run.run_id)
    return closed


def _has_process(instance: dg.DagsterInstance, record: dg.RunRecord) -> bool:
    """Returns whether the process that began a run still runs; another one may have its number now."""
    logs = instance.all_logs(record.dagster_run.run_id, of_type=dg.DagsterEventType.RUN_START)
    pids = [log.dagster_event.pid for log in logs if log.dagster_event is not None]
    if not pids or pids[-1] is None or record.start_time is None:
        return True
    created_s = process_created_s(pids[-1])
    return created_s is not None and created_s <= record.start_time + _CLOCK_S
