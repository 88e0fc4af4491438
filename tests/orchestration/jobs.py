"""Runs jobs of the code location in a process of their own, as Dagster's daemon does, with settings of a test."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from palimpsest.orchestration.dev_server import DEFINITIONS, write_dagster_yaml
from palimpsest.pipeline.plan import make_plan
from palimpsest.store.home import Home


def new_home(path: Path, corpus: Path, dagster_yaml: str = "") -> Home:
    """Makes a home that knows the collections of a corpus, each a partition; nothing is built."""
    home = Home(path)
    home.create()
    home.remember_sources(make_plan(home, [corpus]).collections)
    if dagster_yaml:
        (home.dagster / "dagster.yaml").write_text(dagster_yaml)
    write_dagster_yaml(home)
    with instance_of(home) as instance:
        instance.add_dynamic_partitions("collections", list(home.sources))
    return home


@contextmanager
def instance_of(home: Home) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.from_config(str(home.dagster)) as instance:
        yield instance


def environment_of(home: Home, **settings: str) -> dict[str, str]:
    return os.environ | {"DAGSTER_HOME": str(home.dagster), "PALIMPSEST_HOME": str(home.path)} | settings


def execute_job(home: Home, job: str, partition: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
    """Executes a job with Dagster's command line."""
    command = [sys.executable, "-m", "dagster", "job", "execute", "-m", DEFINITIONS, "-j", job]
    if partition:
        command += ["--tags", json.dumps({"dagster/partition": partition})]
    return subprocess.run(
        command, env=environment_of(home, **settings), cwd=home.path, capture_output=True, text=True, timeout=300
    )


def step_processes(home: Home, run_id: str) -> dict[str, int | None]:
    """Returns the process that each step of a run ran in."""
    with instance_of(home) as instance:
        events = [log.dagster_event for log in instance.all_logs(run_id) if log.dagster_event]
        return {str(e.step_key): e.pid for e in events if e.is_step_start}


def last_run(home: Home) -> dg.DagsterRun:
    with instance_of(home) as instance:
        (run,) = instance.get_runs(limit=1)
        return run
