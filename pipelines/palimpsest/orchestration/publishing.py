"""What follows a build: publication once a batch of collections is built, and the load of what is published."""

import datetime as dt
from collections import Counter
from zoneinfo import ZoneInfo

import dagster as dg

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import counted, logged_to
from palimpsest.neo4j_graph.identity import is_served
from palimpsest.orchestration.automation import (
    EXECUTOR,
    NIGHTLY,
    SCHEDULE,
    TAIL,
    publishes,
    rebuild,
    serve_graph,
)
from palimpsest.orchestration.resources import BATCH, BY, CLI, HOME, LM, HomeResource, run_of, step
from palimpsest.orchestration.schedule import consolidates_always, schedule_timezone
from palimpsest.orchestration.watch import report_failure
from palimpsest.pipeline.plan import make_plan
from palimpsest.sources.crawl.ingest_web import ingest_due, list_sites
from palimpsest.store.builds import published

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
    monitored_jobs=[rebuild],
    request_job=rebuild,
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=5,
    description="Publishes once the last of several collections that changed together is built.",
)
def publish_after_collections(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
    """Waits for the other collections of the same batch; a run of all of `rebuild` publishes itself."""
    return _publish_after(context)


@dg.run_status_sensor(
    run_status=dg.DagsterRunStatus.FAILURE,
    monitored_jobs=[rebuild],
    request_job=rebuild,
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=5,
    description="Publishes the other collections of a batch where the last one cannot be built.",
)
def publish_after_failures(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
    """Follows a run that is not tried again and that ended last, where another one of its batch succeeded."""
    return _publish_after(context)


def _publish_after(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
    run = context.dagster_run
    if run.tags.get(BY) == CLI:
        return dg.SkipReason("the command line publishes its own builds")
    batch = run.tags.get(BATCH)
    if batch is None or publishes(run):
        return dg.SkipReason("no run of a batch of collections")
    if reason := why_not_yet(context.instance, run):
        return dg.SkipReason(f"{reason} of {batch}")
    tags = {tag: run.tags[tag] for tag in (BATCH, BY) if tag in run.tags}
    return dg.RunRequest(run_key=f"{batch}/tail/{run.run_id}", job_name=rebuild.name, asset_selection=TAIL, tags=tags)


def why_not_yet(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """Returns why the batch of a run that ended is not published after it; empty where it is."""
    siblings = dg.RunsFilter(job_name=run.job_name, tags={BATCH: run.tags[BATCH]})
    records = [r for r in instance.get_run_records(siblings) if not publishes(r.dagster_run)]
    runs = [record.dagster_run for record in records]
    unfinished = sum(r.status in _UNFINISHED or _will_be_retried(instance, r) for r in runs)
    if unfinished:
        return f"{counted(unfinished, 'collection', 'is')} still to be built"
    ends = [
        (r.end_time or 0.0, r.storage_id, r.dagster_run.run_id)
        for r in records
        if r.dagster_run.status == _SUCCESS or _failed_for_good(instance, r.dagster_run)
    ]
    if not any(r.status == _SUCCESS for r in runs):
        return "no collection was built"
    return "" if not ends or max(ends)[-1] == run.run_id else "another collection ended later"


def _will_be_retried(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    is_to_be = run.tags.get(_WILL_RETRY) == "true" and _RETRIED_AS not in run.tags
    return is_to_be and run.status == dg.DagsterRunStatus.FAILURE and instance.run_retries_enabled


def _failed_for_good(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    has_failed = run.status == dg.DagsterRunStatus.FAILURE and _RETRIED_AS not in run.tags
    return has_failed and not _will_be_retried(instance, run)


@dg.run_status_sensor(
    run_status=dg.DagsterRunStatus.SUCCESS,
    monitored_jobs=[rebuild],
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
    if not publishes(run):
        return dg.SkipReason("this run published nothing")
    if not is_served(home.home()):
        return dg.SkipReason("this home is not served by Neo4j; palimpsest build --graph begins it")
    tags = {tag: run.tags[tag] for tag in (BATCH, BY) if tag in run.tags}
    return dg.RunRequest(run_key=f"{run.run_id}/graph", job_name="serve_graph", tags=tags)


# When the entries of `sources.yaml` are crawled: a look every quarter of an hour, and a run where one is due.


@dg.op(out=dg.Out(dg.Nothing))
def crawl(context: dg.OpExecutionContext, home: HomeResource) -> None:
    """Stores new and changed pages of the sites whose schedule says they are due, for the next build.

    Raises:
        dagster.Failure: a site cannot be read.
    """
    with logged_to(context.log.info, "crawl"):
        done = ingest_due(home.home(), scheduled_only=True, now=dt.datetime.now(ZoneInfo(schedule_timezone())))
    for crawled in done.crawls:
        context.log.info(crawled.summary())
    numbers = {name: sum(crawled.counts[name] for crawled in done.crawls) for name in ("fetched", "unchanged", "gone")}
    stored = sum(len(crawled.stored) for crawled in done.crawls)
    metadata = {"crawls": len(done.crawls), "stored": stored, "failed_entries": len(done.failures), **numbers}
    if done.failures:
        entry, why = done.failures[0]
        error = f"{len(done.failures)} of {done.number} entries failed, first {entry}: {why}"
        report_failure(context, home.home(), "crawl", PalimpsestError(error))
        raise dg.Failure(error, metadata=metadata, allow_retries=False)
    context.log_event(dg.AssetMaterialization("web_pages", metadata=metadata))


@dg.job(
    executor_def=EXECUTOR,
    description="Reads what sources.yaml of the collections names from the web; changed pages start a build.",
)
def crawl_sites() -> None:
    """One op: no asset, so that "materialize all" does not crawl."""
    crawl()


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

# Ops and no assets: what is proposed, applied and removed at night is not for "materialize all".
_AFTER = {"after": dg.In(dg.Nothing)}


@dg.op(out=dg.Out(dg.Nothing), pool=LM)
def consolidate(context: dg.OpExecutionContext, home: HomeResource) -> None:
    """Writes contradictions, duplicates, what to prune, confidence, connections and notes, for a person to confirm."""
    from palimpsest.consolidation.consolidate import consolidate

    with step(context, home) as current:
        done = consolidate(current)
    context.log.info(f"{len(done.proposals)} open proposals, {done.new} new, {done.expired} no longer hold")
    if done.unread:
        context.log.warning(f"unread: a language model gave no answer to {done.unread} groups of memories")
    counts: dict[str, int | str] = {"build": done.build_id, "open": len(done.proposals), "new": done.new}
    kinds = Counter(str(p.kind) for p in done.proposals)
    shown = "\n".join(["| kind | open |\n|---|---|", *(f"| {kind} | {n} |" for kind, n in sorted(kinds.items()))])
    metadata = {**counts, "expired": done.expired, "kinds": dg.MetadataValue.md(shown)}
    context.log_event(dg.AssetMaterialization("proposals", metadata=metadata))


@dg.op(out=dg.Out(dg.Nothing), ins=_AFTER, pool=LM)
def apply_proposals(context: dg.OpExecutionContext, home: HomeResource) -> None:
    """Confirms the kinds of proposals that settings name where no golden question gets worse; none by default."""
    from palimpsest_eval.runs.apply_proposals import apply_proposals

    with step(context, home) as current:
        done = apply_proposals(current, max_cost=home.money)
    for proposal_id, why in sorted(done.refused.items()):
        context.log.warning(f"proposal {proposal_id} is refused: {why}")
    if done.waiting:
        context.log.info(done.waiting)
    confirmed, refused = counted(len(done.confirmed), "proposal"), len(done.refused)
    context.log.info(f"{confirmed} confirmed, {refused} refused, {counted(done.trials, 'trial')}")


@dg.op(out=dg.Out(dg.Nothing), ins=_AFTER, pool=HOME)
def keep_house(context: dg.OpExecutionContext, home: HomeResource) -> None:
    """Removes what the policies do not keep: closed logs, orphaned vectors, old runs of Dagster, leftovers."""
    from palimpsest.pipeline.housekeeping import keep_house

    with step(context, home) as current:
        done = keep_house(current)
    context.log.info(", ".join(f"{r.part}: {r.items}" for r in done.removed))


@dg.op(out=dg.Out(dg.Nothing), ins=_AFTER, pool=HOME)
def back_up(context: dg.OpExecutionContext, home: HomeResource) -> None:
    """Writes a dated backup into the folder that a variable names, and keeps no more of them than policy."""
    from palimpsest.pipeline.backup import FOLDER_VARIABLE, backup_dated, series_from_environment
    from palimpsest.store.backup_archive import PASSWORD_VARIABLE, read_password

    if (series := series_from_environment()) is None:
        context.log.info(f"{FOLDER_VARIABLE} is not set: no backup")
        return
    with step(context, home) as current:
        done = backup_dated(current, *series, read_password(None, PASSWORD_VARIABLE))
    removed = counted(len(done.removed), "older one")
    context.log.info(f"{done.backup.file}: {counted(done.backup.files, 'file')}; {removed} removed")


@dg.job(executor_def=EXECUTOR, description="Proposals over what came in, then maintenance and a backup of the home.")
def consolidate_home() -> None:
    """Each op waits for the one before: they write one home."""
    back_up(keep_house(apply_proposals(consolidate())))


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
    monitored_jobs=[rebuild],
    request_job=consolidate_home,
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=5,
    description="Consolidates what the nightly rebuild published; each rebuild with PALIMPSEST_CONSOLIDATE=always.",
)
def consolidate_after_publishing(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
    """Follows the batch of the night, and with PALIMPSEST_CONSOLIDATE=always each other batch, too."""
    run = context.dagster_run
    batch = run_of(run)
    is_due = batch.startswith(NIGHTLY) or (run.tags.get(BY) != CLI and consolidates_always())
    if not publishes(run) or not is_due:
        return dg.SkipReason("not the nightly rebuild; palimpsest consolidate runs it at any time")
    return dg.RunRequest(run_key=f"{batch}/consolidate", job_name="consolidate_home", tags={BY: "nightly"})
