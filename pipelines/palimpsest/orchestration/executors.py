"""The executor that runs the steps of jobs that Dagster starts: in one process, in several, or as jobs of Kubernetes.

Every executor writes the same home under the same lock, so that stages of one home never overlap; what differs is where
their processes run. `palimpsest build` always runs in its own process.
"""

import os

import dagster as dg

from palimpsest.core.environment import whole_number
from palimpsest.core.errors import PalimpsestError, missing_extra

EXECUTOR, PROCESSES = "PALIMPSEST_EXECUTOR", "PALIMPSEST_EXECUTOR_PROCESSES"
EXECUTORS = ("in_process", "multiprocess", "k8s")
DEFAULT_PROCESSES, MAX_PROCESSES = 2, 64


def executor_from_environment() -> dg.ExecutorDefinition:
    """Returns the executor that the environment names; the in-process one by default.

    Raises:
        PalimpsestError: a variable cannot be read, or the extra of the executor is not installed.
    """
    name = os.environ.get(EXECUTOR, "").strip() or EXECUTORS[0]
    if name not in EXECUTORS:
        raise PalimpsestError(f"{EXECUTOR}={name}: write one of {', '.join(EXECUTORS)}")
    if name == "in_process":
        return dg.in_process_executor
    if name == "multiprocess":
        processes = whole_number(PROCESSES, DEFAULT_PROCESSES, 1, MAX_PROCESSES)
        return dg.multiprocess_executor.configured({"max_concurrent": processes}, name=name)
    try:
        from dagster_k8s import k8s_job_executor
    except ModuleNotFoundError as e:
        raise missing_extra(e, f"{EXECUTOR}={name}") or e from None
    executor: dg.ExecutorDefinition = k8s_job_executor
    return executor
