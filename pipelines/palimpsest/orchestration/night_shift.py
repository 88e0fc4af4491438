"""When consolidation runs: with the nightly schedule, after the rebuild of that night is published."""

import dagster as dg

from palimpsest.build.plan import make_plan
from palimpsest.core.errors import PalimpsestError
from palimpsest.orchestration.assets.resources import BATCH, HomeResource
from palimpsest.orchestration.assets.steps import BY
from palimpsest.orchestration.automation import EXECUTOR, NIGHTLY, SCHEDULE, publish_build
from palimpsest.store.builds import published

consolidate_home = dg.define_asset_job(
    "consolidate_home",
    dg.AssetSelection.groups("consolidation"),
    description="Proposals over what came in: nothing is changed without consent.",
    executor_def=EXECUTOR,
)


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
    monitored_jobs=[publish_build],
    request_job=consolidate_home,
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=5,
    description="Consolidates what the nightly rebuild published.",
)
def consolidate_after_publishing(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
    """Follows the batch of the night only: a build by day waits for the next night."""
    batch = context.dagster_run.tags.get(BATCH, "")
    if not batch.startswith(NIGHTLY):
        return dg.SkipReason("not the nightly rebuild; palimpsest consolidate runs it at any time")
    return dg.RunRequest(run_key=f"{batch}/consolidate", job_name="consolidate_home", tags={BY: "nightly"})
