"""`palimpsest build`: the asset graph in this process, one run for each changed collection and one for the tail."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from palimpsest.core.errors import ComponentFailed, DamagedFile, PalimpsestError, Refused, fault_in, missing_in
from palimpsest.core.files import counted, say
from palimpsest.core.parallel import configured_runner
from palimpsest.neo4j_graph.identity import is_served
from palimpsest.orchestration.alerts import send_alert, unreadable_message
from palimpsest.orchestration.dev_server import DEFINITIONS, write_dagster_yaml
from palimpsest.orchestration.schedule import consolidates_always
from palimpsest.pipeline.build_clock import timed_build
from palimpsest.pipeline.deletion.run_storage import LOST_CONNECTION, no_answer, plain_postgres_errors
from palimpsest.pipeline.deletion.target import delete_due, unfinished_deletes
from palimpsest.pipeline.finish import drop_unplanned
from palimpsest.pipeline.plan import Plan, make_plan, say_what_is_broken
from palimpsest.pipeline.repair_builds import repair_older
from palimpsest.pipeline.repair_home import Repairs, make_again, repair_history, repair_home, repair_inputs
from palimpsest.pipeline.stages import STAGES
from palimpsest.pipeline.summary import BuildSummary, build_summary, confirm_collections
from palimpsest.sources.discovery import deleted_sources
from palimpsest.store.builds import Build, published, staged
from palimpsest.store.collection_config import load_collection
from palimpsest.store.decisions import read_decisions
from palimpsest.store.embeddings import record_embedder
from palimpsest.store.event_log import observed, run_scope, write_event
from palimpsest.store.home import Home

# Cheaper SQLite connections to Dagster's run history while a build writes it.
#
# Dagster opens and closes a connection for every statement of an event. When the last connection to a file closes,
# SQLite moves its write-ahead log into the file; every commit syncs the log. Here one idle connection keeps each file
# open until the runs end, and commits are not synced: a loss of power can lose the last events of a run, but cannot
# damage a file (https://sqlite.org/pragma.html#pragma_synchronous).

_BUSY_TIMEOUT_S = 30


@contextmanager
def cheap_connections(folder: Path) -> Iterator[None]:
    """Makes SQLAlchemy's SQLite connections to files below a folder cheap, until the context ends.

    Args:
        folder: the home's DAGSTER_HOME; other databases of this process are not changed.
    """
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    root = folder.resolve()
    idle: dict[Path, sqlite3.Connection] = {}

    def configure(connection: Any, _: object) -> None:
        if not isinstance(connection, sqlite3.Connection):
            return
        path = Path(connection.execute("PRAGMA database_list").fetchone()[2])
        if root not in path.parents:
            return
        connection.execute("PRAGMA synchronous = NORMAL")
        if path not in idle and connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
            idle[path] = _open_log(path)

    event.listen(Engine, "connect", configure)
    try:
        yield
    finally:
        event.remove(Engine, "connect", configure)
        for connection in idle.values():
            connection.close()


def _open_log(path: Path) -> sqlite3.Connection:
    """Returns a connection that has the file and its write-ahead log open, and no transaction."""
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return connection


# The error that a run of the command line ended with, as the command line reports it.


def check_run(result: Any) -> None:
    """Raises the error that a failed run ended with.

    Raises:
        PalimpsestError: a person must fix what a stage reports.
        ComponentFailed: a stage, or the run before its first stage, failed.
    """
    if result.success:
        return
    failure = next((event for event in result.all_events if event.is_step_failure), None)
    if failure is None:
        raise ComponentFailed("the run failed before its first stage; see the Dagster UI")
    error = failure.step_failure_data.error
    while error.cause is not None:
        error = error.cause
    if os.environ.get("PALIMPSEST_DEBUG"):
        say(error.to_string())
    reported = _error_of(error.message, failure.step_key)
    raise reported


def _error_of(message: str, stage: str) -> PalimpsestError:
    """Returns the error to report for the message of a stage's exception, which begins with the exception's type."""
    first_line = message.strip().splitlines()[0]
    qualified_name, _, text = first_line.partition(": ")
    name = qualified_name.rpartition(".")[2]
    if qualified_name == ModuleNotFoundError.__name__ and (missing := missing_in(text, "build")):
        return missing
    if name == ComponentFailed.__name__:
        return ComponentFailed(text)
    if name == LOST_CONNECTION:
        return no_answer(name, "build")
    if name in _usage_errors(PalimpsestError):
        return PalimpsestError(text)
    return fault_in(message) or ComponentFailed(f"stage {stage}: {first_line}; run again")


def _usage_errors(kind: type[PalimpsestError]) -> set[str]:
    """Returns the names of the errors that are reported as they are: the family's, and those derived from it."""
    names = {kind.__name__} if kind.exit_code == PalimpsestError.exit_code else set()
    return names.union(*(_usage_errors(k) for k in kind.__subclasses__()))


_LOCK_WAIT_S = 5.0
# A job's page finds its runs by the second tag: the location is named after the module that `dagster dev` loads.
_TAGS = {"palimpsest/by": "cli", ".dagster/repository": f"__repository__@{DEFINITIONS}"}


def build(
    home: Home,
    corpora: list[Path] | None,
    only: list[str] | None = None,
    graph: bool = False,
    max_cost: float | None = None,
    allow_removals: bool = False,
    embedder: str | None = None,
    allow_lost: bool = False,
    repair: bool = False,
) -> BuildSummary:
    """Builds what changed and publishes it if the gate agrees; returns what `build --json` prints.

    Damaged files are repaired first; memories past their retention and those of denied users are deleted.

    Args:
        home: the home.
        corpora: folders of collections; None means those of earlier builds of this home.
        only: names of the collections to build; None means all.
        graph: load the published build into Neo4j as well.
        max_cost: bounds what a language model may cost in all stages; what is beyond it, the next build reads.
        allow_removals: build although too many sources or memories vanished.
        embedder: becomes the home's embedder if the gate agrees; the old one's vectors stay in the home.
        allow_lost: go on without what is damaged and cannot be read again.
        repair: read every file of the home to find damage; otherwise those that changed since the last build.

    Raises:
        PalimpsestError: settings are wrong, too much vanished and `allow_removals` is not given, versions are lost and
            `allow_lost` is not given, another process is writing the home, or there is no Neo4j to load into.
        ComponentFailed: a stage failed; what was finished is kept for the next run.
    """
    configured_runner()  # a wrong name is an error now, not after the stages before the first batch
    with_proposals = consolidates_always()
    home = replace(home, embedder=embedder)
    options = _Options(corpora, only, graph, max_cost, allow_removals, allow_lost, repair)
    with run_scope(), observed(home.path, "build") as event:
        write_event(home.path, "build_started")
        summary = _build(home, options)
        event |= {
            "build_id": summary.build_id,
            "changed": len(summary.changed or ()),
            "memories": summary.memories,
            "rejects": summary.rejects,
            "published": int(summary.published),
            "status": str(summary.gate.get("status", "")),
            **summary.work,
        }
    if with_proposals and summary.published and summary.changed:
        _consolidate(home, max_cost)
    return summary


def _consolidate(home: Home, max_cost: float | None) -> None:
    """Looks for proposals in what was published; a failure is a warning, because the build is done."""
    from palimpsest.consolidation.consolidate import consolidate

    say("stage consolidation")
    try:
        done = consolidate(home, max_cost=max_cost)
    except PalimpsestError as e:
        say(f"warning: consolidation: {e}; palimpsest consolidate runs it again")
    else:
        say(f"{counted(len(done.proposals), 'open proposal')}, {done.new} new")


@dataclass(frozen=True)
class _Options:
    """The arguments of `build` but the home and its embedder."""

    corpora: list[Path] | None
    only: list[str] | None
    graph: bool
    max_cost: float | None
    allow_removals: bool
    allow_lost: bool
    repair: bool


def _build(home: Home, options: _Options) -> BuildSummary:
    """Builds as `build` does, on a home that has its embedder."""
    started = time.perf_counter()
    with suppress(DamagedFile):  # repaired below, or reported there
        plan = make_plan(home, options.corpora, options.only)
        if not plan.collections:
            _report_broken(plan)
    if options.graph:
        from palimpsest.neo4j_graph.connect import connect

        connect().close()
    home.create()
    with home.lock(_LOCK_WAIT_S):
        repairs = repair_home(home, options.corpora, options.allow_lost, options.repair)
        # A delete looks up in every table and text what it removes.
        expired = 0 if repairs.need_build else delete_due(home)
        if unfinished := unfinished_deletes(home):
            number = counted(len(unfinished), "delete", "was")
            say(f"warning: {number} begun and not finished; run the same palimpsest delete again")
        plan = _plan_with_repairs(home, options, repairs)
        home.remember_sources(plan.collections)
        confirm_collections(home, plan.unchanged)
        if options.repair or not plan.nothing_to_do:
            repairs.add(repair_history(home))
        if plan.nothing_to_do:
            summary = _unchanged_summary(home, started)
        else:
            summary = _run_plan(home, plan, options, repairs)
            if repairs.need_build and summary.published:
                expired = delete_due(home)
            if summary.published and not options.graph:
                _warn_if_graph_is_behind(home)
        skipped, wall_s = _skipped_sources(home, plan), _seconds_since(started)
        summary = replace(
            summary,
            skipped=skipped,
            expired=expired,
            repaired=repairs.lines,
            wall_s=wall_s,
            not_built={name: str(why) for name, why in plan.broken.items()},
        )
        return _serve_graph(home, summary, started) if options.graph and summary.published else summary


def _run_plan(home: Home, plan: Plan, options: _Options, repairs: Repairs) -> BuildSummary:
    """Builds what a plan says; tables that were damaged are made again first, older builds are repaired afterwards."""
    drop_unplanned(home, plan)
    make_again(home, repairs.tables - set(plan.changed))
    _run_graph(home, plan, options.max_cost, options.allow_removals)
    summary = replace(build_summary(home, _last_build(home)), changed=list(plan.changed))
    repairs.add(repair_older(home))
    return summary


def _plan_with_repairs(home: Home, options: _Options, repairs: Repairs) -> Plan:
    """Returns the plan of a build that also makes again what was damaged; what changed collections read is checked."""
    from palimpsest_eval.gate.baseline import golden_problems

    unjudgeable = golden_problems()

    def look() -> Plan:
        again = repairs.tables | repairs.sources
        return make_plan(home, options.corpora, options.only, again, unjudgeable | repairs.lost)

    plan, before = look(), len(repairs.lines)
    if plan.changed:
        repair_inputs(home, repairs, plan.changed, 0, options.allow_lost)
    if len(repairs.lines) > before or repairs.lost:
        plan = look()
    _report_broken(plan)
    if repairs.tables - set(plan.changed):
        plan = replace(plan, tail_only=True)
    return plan


def _report_broken(plan: Plan) -> None:
    """Says and alerts which collections cannot be built.

    Raises:
        PalimpsestError: none can be.
    """
    for name, why in plan.broken.items():
        try:
            send_alert(unreadable_message(name, str(why)))
        except PalimpsestError as e:
            say(f"warning: {e}")
    say_what_is_broken(plan)


def _warn_if_graph_is_behind(home: Home) -> None:
    if is_served(home):
        say(
            "warning: Neo4j was not loaded and still shows an earlier build of this home; run palimpsest build --graph"
            f" --home {home.path} (palimpsest neo4j start starts a local server)"
        )


def _skipped_sources(home: Home, plan: Plan) -> list[str]:
    """Returns the sources that are on disk although they were deleted from the home."""
    decisions = read_decisions(home.decisions)
    return [
        f"{name}/{uri}"
        for name, folder in plan.collections.items()
        for uri in deleted_sources(folder, load_collection(folder), decisions)
    ]


def _last_build(home: Home) -> Build:
    """Returns the build just made: still staged where the gate closed, else the published one.

    Raises:
        ComponentFailed: there is neither.
    """
    made = staged(home)
    if made.is_finished:
        return made
    current = published(home)
    if current is None:
        raise ComponentFailed(f"home {home.path}: the run ended without a build; run again")
    return current


def _unchanged_summary(home: Home, started: float) -> BuildSummary:
    """Returns the summary of the published build for a run that had nothing to do."""
    current = published(home)
    assert current is not None
    record_embedder(home)
    summary, seconds = build_summary(home, current), dict.fromkeys([*STAGES, "load_model"], 0.0)
    return replace(
        summary,
        work=dict.fromkeys(summary.work, 0),
        seconds=seconds | {"plan": _seconds_since(started)},
        changed=[],
        changes=None,
    )


def _seconds_since(started: float) -> float:
    return round(time.perf_counter() - started, 3)


def _run_config(home: Home, max_cost: float | None, allow_removals: bool) -> dict[str, Any]:
    """Returns the configuration of a run: of the resource `home`, and of the log, which is quiet."""
    config = {
        "path": str(home.path),
        "embeddings_path": str(home.embeddings_path or ""),
        "max_cost": -1.0 if max_cost is None else max_cost,
        "allow_removals": allow_removals,
        "embedder": home.embedder or "",
    }
    return {"resources": {"home": {"config": config}}, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@contextmanager
def _dagster(
    home: Home, max_cost: float | None = None, allow_removals: bool = False
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yields the home's Dagster instance and the arguments of each of its runs.

    Raises:
        ComponentFailed: the Postgres server of its runs does not answer.
    """
    write_dagster_yaml(home)
    os.environ["DAGSTER_HOME"] = str(home.dagster.resolve())
    import dagster as dg

    config = _run_config(home, max_cost, allow_removals)
    with plain_postgres_errors("build"), cheap_connections(home.dagster), dg.DagsterInstance.get() as instance:
        yield instance, {"instance": instance, "run_config": config, "tags": _TAGS, "raise_on_error": False}


def _serve_graph(home: Home, summary: BuildSummary, started: float) -> BuildSummary:
    """Loads the published build into Neo4j; returns the summary with its writes and seconds.

    Raises:
        Refused: a check of the loaded graph failed.
        ComponentFailed: the server went away before the load.
    """
    from palimpsest.orchestration.code_location import defs

    say("stage neo4j_graph")
    load_started = time.perf_counter()
    with _dagster(home) as (_, common):
        result = defs.resolve_job_def("serve_graph").execute_in_process(**common)
    for check in result.get_asset_check_evaluations():
        if not check.passed:
            line = f"neo4j: {str(check.metadata['violations'].value).splitlines()[0].removeprefix('- ')}"
            if check.severity.value != "ERROR":
                say(f"warning: {line}")
                continue
            raise Refused(line)
    check_run(result)
    (loaded,) = result.asset_materializations_for_node("neo4j_graph")
    if "writes" not in loaded.metadata:
        raise ComponentFailed("neo4j: the server went away before the load; run again")
    return replace(
        summary,
        work={**summary.work, "graph_writes": int(str(loaded.metadata["writes"].value))},
        seconds={**summary.seconds, "neo4j_graph": _seconds_since(load_started)},
        wall_s=_seconds_since(started),
    )


def _run_graph(home: Home, plan: Plan, max_cost: float | None, allow_removals: bool) -> None:
    from palimpsest.orchestration.automation import COLLECTION, TAIL, rebuild
    from palimpsest.orchestration.code_location import defs
    from palimpsest.orchestration.resources import collections

    with _dagster(home, max_cost, allow_removals) as (instance, common):
        instance.add_dynamic_partitions(str(collections.name), list(plan.collections))
        job = defs.resolve_job_def(rebuild.name)
        with timed_build(home, {name: plan.collections[name] for name in plan.changed}) as clock:
            for name in plan.changed:
                say(clock.collection_line(name))
                check_run(job.execute_in_process(partition_key=name, asset_selection=COLLECTION, **common))
        if plan.tail_only or plan.changed:
            tail = job.execute_in_process(asset_selection=TAIL, **common)
            manifest = staged(home).manifest
            if manifest.violations:
                reasons = "; ".join(manifest.violations[:3])
                raise Refused(f"build {manifest.build_id} is staged, not published: {reasons}")
            if manifest.gate.get("status") != "failed":
                check_run(tail)
