"""What the assets share: the home they write, the partitions by collection, owners, how long they wait for the lock."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

import dagster as dg

from palimpsest.core.environment import whole_number
from palimpsest.core.errors import ComponentFailed, PalimpsestError, missing_extra
from palimpsest.core.files import logged_to
from palimpsest.pipeline.build_warnings import Warned, warning_summary
from palimpsest.pipeline.plan import check_collection
from palimpsest.sources.discovery import collection_files
from palimpsest.store.collection_config import load_collection
from palimpsest.store.event_log import run_scope
from palimpsest.store.home import DEFAULT_HOME, Home, data_folder, home_from_environment
from palimpsest.store.remote_home import refresh
from palimpsest.store.working_copy import working_copy

OWNERS = ["team:palimpsest"]


class Pooled(TypedDict):
    """What the assets of a pool have in common: their owners, and the pool with its tag."""

    owners: list[str]
    tags: dict[str, str]
    pool: str


def pooled(pool: str) -> Pooled:
    """Returns what the assets of a pool have in common."""
    return {"owners": OWNERS, "tags": {POOL: pool}, "pool": pool}


LOCK_WAIT_S = 3600.0
BATCH = "palimpsest/batch"
"""Tag of all runs that one night or one change of a folder starts."""

collections = dg.DynamicPartitionsDefinition(name="collections")


class HomeResource(dg.ConfigurableResource):
    """The home that assets read and write. Empty means PALIMPSEST_HOME, else data/home.

    `max_cost` is the money that a language model may cost in a build; below 0 means no limit. `allow_removals` builds
    although too many sources or memories of a collection vanished. `embedder` becomes the home's when the build is
    published; empty means that the home keeps its own.
    """

    path: str = ""
    embeddings_path: str = ""
    max_cost: float = -1.0
    allow_removals: bool = False
    embedder: str = ""

    @property
    def money(self) -> float | None:
        """What a language model may cost in a build; None means no limit."""
        return None if self.max_cost < 0 else self.max_cost

    def home(self) -> Home:
        """Returns the home, its folders made."""
        embeddings = Path(self.embeddings_path) if self.embeddings_path else None
        home = Home(Path(self.path), embeddings) if self.path else home_from_environment()
        if (copy := working_copy(home.path)) is not None:
            refresh(copy)  # what other machines published and sent
        home = replace(home, embedder=self.embedder or None)
        home.create()
        return home


def run_of(run: dg.DagsterRun) -> str:
    """Returns what the event log calls a run of Dagster: its batch, else its own id."""
    return run.tags.get(BATCH, run.run_id)


__all__ = ["DEFAULT_HOME", "HomeResource"]

Context = dg.AssetExecutionContext | dg.OpExecutionContext


@contextmanager
def step(context: Context, resource: HomeResource) -> Iterator[Home]:
    """Yields the home of a step that writes it, locked.

    What the step says is in the log of its run, which has a line every ten seconds. Where a component fails it is
    tried again; where it fails for good that is recorded, and an alert is sent.

    Raises:
        PalimpsestError: bad input, or a component that failed, in a run of the command line.
        dagster.Failure: bad input in another run.
        dagster.RetryRequested: a component failed in another run.
    """
    home, name = resource.home(), context.op_def.name
    with run_scope(run_of(context.run)), logged_to(context.log.info, name):
        try:
            with retried(context), home.lock(LOCK_WAIT_S):
                yield home
        except Exception as e:
            # Here, because it imports assets, which import this module.
            from palimpsest.orchestration.watch import report_failure

            if not _is_tried_again(context, e):
                report_failure(context, home, name, error_of_step(e))
            raise


def _is_tried_again(context: Context, error: Exception) -> bool:
    may_be = isinstance(error, dg.RetryRequested) or (isinstance(error, dg.Failure) and error.allow_retries)
    return may_be and context.retry_number < MAX_RETRIES


def rounded(numbers: Mapping[str, float]) -> dict[str, int | float]:
    """Returns numbers as people read them: whole ones whole, others to three digits."""
    return {name: int(n) if n == int(n) else float(f"{n:.3g}") for name, n in numbers.items()}


# What steps share: the pool that limits them, the tags of their runs, and which failures are tried again.

BY, COLLECTION, BUILD = "palimpsest/by", "palimpsest/collection", "palimpsest/build"
"""Tags of runs: what started it, the collection that it builds, and the build that it makes."""
WARNINGS = "palimpsest/warnings"
"""Tag of runs: how many warnings of each kind there are."""
FIRST_STAGE = "documents"
"""The stage that reads a collection."""
POOL = "palimpsest/pool"
"""Tag of assets: the name of their pool."""
CLI = "cli"
ALL_STEPS = {"dagster/retry_strategy": "ALL_STEPS"}
"""Tag of jobs of stages: a run that is retried runs every stage, for the staged build may be another one by then."""
HOME, EMBEDDER, LM, NEO4J = "home", "embedder", "lm", "neo4j"
"""The pools: what writes the home and calls nothing, what embeds, what may call a language model, what loads Neo4j."""
_POOLS_OF_STAGES = {"embeddings": EMBEDDER, "notes": LM, "facts": LM, "relations": LM}
MAX_RETRIES, DELAY_S = 2, 5.0
_LAST_TAGS: dict[str, dict[str, str]] = {}


def pool_of(stage: str) -> str:
    """Returns the pool of a stage: that of the component which it calls, else that of the home which it writes."""
    return _POOLS_OF_STAGES.get(stage, HOME)


def check_readable(name: str, folder: Path) -> None:
    """Checks that a collection can be built: its folder is there, and what people wrote of it can be read.

    Raises:
        PalimpsestError: it cannot.
    """
    from palimpsest_eval.gate.baseline import golden_problem

    check_collection(folder)
    if why := golden_problem(data_folder(), name):
        raise why


def unreadable_collections(home: Home) -> list[str]:
    """Returns a line for each collection of a home that cannot be read; no content of a source is read."""
    lines = []
    for name, folder in home.sources.items():
        try:
            check_readable(name, folder)
            collection_files(folder, load_collection(folder))
        except PalimpsestError as e:
            lines.append(f"collection {name} cannot be read: {e}")
    return lines


def is_unreadable(error: BaseException | None) -> bool:
    """Returns whether the first stage failed for what a person must fix in a collection."""
    return isinstance(error, PalimpsestError) and not isinstance(error, ComponentFailed)


@contextmanager
def retried(context: Context) -> Iterator[None]:
    """Tries the step again where a component failed: twice, after 5 and 10 seconds. Bad input fails at once.

    A run of the command line is not tried again: it ends with its exit code, and a person waits for it.

    Raises:
        PalimpsestError: bad input, or a component that failed, in a run of the command line.
        dagster.Failure: bad input in another run; what is wrong is its description, which the UI shows first.
        dagster.RetryRequested: a component failed in another run.
    """
    try:
        yield
    except PalimpsestError as e:
        if context.run.tags.get(BY) == CLI:
            raise
        if not isinstance(e, ComponentFailed):
            raise dg.Failure(str(e), allow_retries=False) from e
        wait_s = DELAY_S * 2**context.retry_number
        context.log.warning(f"{e}; tried again at most {MAX_RETRIES} times, {wait_s:g} s after each failure")
        raise dg.RetryRequested(MAX_RETRIES, wait_s) from e


def error_of_step(error: BaseException | None) -> BaseException | None:
    """Returns the error that a step failed with, which Dagster may wrap once tries are exhausted."""
    is_wrapped = isinstance(error, dg.RetryRequested | dg.Failure) and error.__cause__ is not None
    return error.__cause__ if is_wrapped and error else error


def tag_run(context: Context, build_id: str, collection: str = "") -> None:
    """Tags the step's run with what it makes, so that the UI can filter runs by it, whatever started them."""
    tags = {BUILD: build_id} | ({COLLECTION: collection} if collection else {})
    if _LAST_TAGS.get(context.run_id) != tags:  # once for all steps of a run in this process
        context.instance.add_run_tags(context.run_id, tags)
        _LAST_TAGS.clear()
        _LAST_TAGS[context.run_id] = tags


def log_warnings(context: dg.AssetExecutionContext, lines: list[str], of_run: list[Warned]) -> None:
    """Writes lines of warnings to the log of a run, and the counts of all of the run to its tags."""
    for line in lines:
        context.log.warning(line)
    if lines:
        context.instance.add_run_tags(context.run_id, {WARNINGS: warning_summary(of_run)})


# The executor that runs the steps of jobs that Dagster starts: in one process, in several, or as jobs of Kubernetes.
#
# Every executor writes the same home under the same lock, so that stages of one home never overlap; what differs is
# where their processes run. `palimpsest build` always runs in its own process.

EXECUTOR, PROCESSES = "PALIMPSEST_EXECUTOR", "PALIMPSEST_EXECUTOR_PROCESSES"
EXECUTORS = ("in_process", "multiprocess", "k8s")


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
        processes = whole_number(PROCESSES)
        return dg.multiprocess_executor.configured({"max_concurrent": processes}, name=name)
    try:
        from dagster_k8s import k8s_job_executor
    except ModuleNotFoundError as e:
        raise missing_extra(e, f"{EXECUTOR}={name}") or e from None
    executor: dg.ExecutorDefinition = k8s_job_executor
    return executor
